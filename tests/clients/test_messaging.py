"""The snippets of docs/messaging.md do what the page says they do."""

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


def snippets(language: str) -> list[str]:
    """The blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def test_the_snippets_run_and_print_what_they_say(
    make_broker: Callable[..., RunningBroker],
) -> None:
    broker = make_broker()
    namespace: dict[str, object] = {}
    try:
        for snippet in snippets("python"):
            code = compile(snippet.replace(SERVICE_URL, broker.service_url), snippet, "exec")
            with redirect_stdout(io.StringIO()) as printed:
                exec(code, namespace)
            said = " ".join(OUTPUT.findall(snippet))
            assert " ".join(printed.getvalue().splitlines()) == said, snippet
    finally:
        close = getattr(namespace.get("client"), "close", None)
        assert close is not None, "the page makes no client"
        close()


@pytest.mark.parametrize("snippet", snippets("sh"))
def test_a_curl_snippet_succeeds(make_broker: Callable[..., RunningBroker], snippet: str) -> None:
    broker = make_broker()
    parser = ArgumentParser()
    parser.add_argument("-X", dest="method")
    parser.add_argument("-H", dest="header")
    parser.add_argument("-d", dest="data")
    parser.add_argument("url")
    said = parser.parse_args(shlex.split(snippet.replace("\\\n", " "))[1:])
    url = said.url.replace("localhost:8080", broker.http_url)
    name, value = said.header.split(": ")
    request = Request(url, said.data.encode(), {name: value}, method=said.method)
    with urlopen(request) as answer:
        assert answer.status == 204


@pytest.mark.parametrize("snippet", snippets("java"))
def test_a_java_snippet_is_one_that_test_java_runs(snippet: str) -> None:
    def lines(text: str) -> str:
        return "\n".join(line.strip() for line in text.splitlines())

    assert lines(snippet).strip() in lines(JAVA.read_text())
