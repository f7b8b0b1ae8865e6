"""The snippets of docs/messaging.md do what the page states."""

import io
import re
import shlex
from argparse import ArgumentParser
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from running_broker import RunningBroker

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "messaging.md"
JAVA = ROOT / "tests/clients/java/src/main/java/magnetar/clients/Page.java"
SERVICE_URL = "pulsar://localhost:6650"
OUTPUT = re.compile(r"# -> (.+)$", re.MULTILINE)


def snippets(*languages: str) -> list[tuple[str, str]]:
    """The blocks of some languages, in order, with the language of each."""
    fenced = rf"^```({'|'.join(languages)})\n(.*?)^```$"
    return re.findall(fenced, PAGE.read_text(), re.DOTALL | re.MULTILINE)


def test_the_snippets_run_and_print_the_documented_output(
    make_broker: Callable[..., RunningBroker],
) -> None:
    broker = make_broker()
    namespace: dict[str, object] = {}
    try:
        for language, snippet in snippets("python", "sh"):
            printed = (
                run(snippet, broker, namespace) if language == "python" else ask(snippet, broker)
            )
            wanted = " ".join(OUTPUT.findall(snippet))
            assert " ".join(printed.splitlines()) == wanted, snippet
    finally:
        close = getattr(namespace.get("client"), "close", None)
        assert close is not None, "the page makes no client"
        close()


def run(snippet: str, broker: RunningBroker, namespace: dict[str, object]) -> str:
    """What Python prints."""
    code = compile(snippet.replace(SERVICE_URL, broker.service_url), snippet, "exec")
    with redirect_stdout(io.StringIO()) as printed:
        exec(code, namespace)
    return printed.getvalue()


def ask(snippet: str, broker: RunningBroker) -> str:
    """What is answered to curl's GETs; everything succeeds."""
    parser = ArgumentParser()
    parser.add_argument("-X", dest="method", default="GET")
    parser.add_argument(
        "-H", dest="header", default="Content-Type: application/x-www-form-urlencoded"
    )
    parser.add_argument("-d", dest="data", default="")
    parser.add_argument("url")
    answers = []
    for command in re.findall(r"^curl (.*)$", snippet.replace("\\\n", " "), re.MULTILINE):
        curl = parser.parse_args(shlex.split(command))
        url = curl.url.replace("localhost:8080", broker.http_url)
        headers = dict([curl.header.split(": ")])
        with urlopen(Request(url, curl.data.encode(), headers, method=curl.method)) as answer:
            body = answer.read().decode()
            answers += [body] if curl.method == "GET" else []
    return "\n".join(answers)


@pytest.mark.parametrize("snippet", [snippet for _, snippet in snippets("java")])
def test_a_java_snippet_is_one_that_test_java_runs(snippet: str) -> None:
    def lines(text: str) -> str:
        return "\n".join(line.strip() for line in text.splitlines())

    assert lines(snippet).strip() in lines(JAVA.read_text())
