"""Programs of what `magnetar init --secure` and the documentation say of other languages."""

import re
import subprocess
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from secure_setup import Prepared, run

PAGE = Path(__file__).resolve().parents[2] / "docs" / "authentication.md"
HANGS_SECONDS = 300
JAVA = """\
import org.apache.pulsar.client.api.*;

public class Printed {{
    static String readToken() {{
        return "a token";
    }}

    public static void main(String[] none) throws Exception {{
{printed}
        var consumer = client.newConsumer().topic("of-java").subscriptionName("s").subscribe();
        client.newProducer().topic("of-java").create().send("here".getBytes());
        System.out.println(new String(consumer.receive().getData()));
{documented}
        System.exit(0);
    }}
}}
"""
GO = """\
package main

import (
    "context"
    "fmt"

    "github.com/apache/pulsar-client-go/pulsar"
)

func must(err error) {{
    if err != nil {{
        panic(err)
    }}
}}

func main() {{
{printed}
    must(err)
    options := pulsar.ConsumerOptions{{Topic: "of-go", SubscriptionName: "s"}}
    consumer, err := client.Subscribe(options)
    must(err)
    producer, err := client.CreateProducer(pulsar.ProducerOptions{{Topic: "of-go"}})
    must(err)
    _, err = producer.Send(context.Background(), &pulsar.ProducerMessage{{Payload: []byte("here")}})
    must(err)
    message, err := consumer.Receive(context.Background())
    must(err)
    fmt.Println(string(message.Payload()))
    // The token of the documentation is in a file that is not there.
    _, _ = {documented}
}}
"""


def documented(language: str) -> str:
    """How the page of authentication connects in a language."""
    found = re.search(rf"^{language}:\n\n((?:    .*\n)+)", PAGE.read_text(), re.MULTILINE)
    assert found is not None, f"{PAGE.name} has nothing for {language}"
    return textwrap.dedent(found[1])


@contextmanager
def secure_broker(folder: Path) -> Iterator[Prepared]:
    """One that the command has prepared, and whose example role may use the example namespace."""
    prepared = Prepared(folder / "of a user", workers=1)
    try:
        run(prepared.lines("magnetar admin")[1])
        yield prepared
    finally:
        prepared.end()


def prints_here(command: Sequence[str | Path], folder: Path) -> None:
    """The program publishes a message, receives it, and prints it."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=HANGS_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "here" in done.stdout.splitlines(), done.stdout + done.stderr
