"""The snippets of the pages about the asyncio client do what these state."""

import ast
import asyncio
import inspect
import io
import re
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import pytest

import magnetar
from magnetar import api
from running_broker import RunningBroker

ROOT = Path(__file__).resolve().parents[2]
SERVICE_URL = "pulsar://localhost:6650"
HTTP_URL = "http://localhost:8080"
OUTPUT = re.compile(r"^# -> (.+)$", re.MULTILINE)
TIMEOUT_S = 120.0


@pytest.mark.parametrize(
    ("page", "at_least"), [("client.md", 8), ("compat.md", 2), ("exactly-once.md", 8)]
)
async def test_the_snippets_run_and_print_the_documented_output(
    make_broker: Callable[..., RunningBroker],
    page: str,
    at_least: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)  # some write files
    broker = make_broker()
    namespace: dict[str, object] = {}
    text = (ROOT / "docs" / page).read_text().replace(SERVICE_URL, broker.service_url)
    text = text.replace(HTTP_URL, f"http://127.0.0.1:{broker.http_port}")
    snippets = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert len(snippets) >= at_least
    try:
        async with asyncio.timeout(TIMEOUT_S):
            for snippet in snippets:
                code = compile(snippet, snippet, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                with redirect_stdout(io.StringIO()) as printed:
                    running = eval(code, namespace)
                    if inspect.isawaitable(running):
                        await running
                assert printed.getvalue().splitlines() == OUTPUT.findall(snippet), snippet
    finally:
        client = namespace.get("client")
        if isinstance(client, magnetar.Client):
            await client.close()


def test_what_is_public_is_documented() -> None:
    for name in api.__all__:
        public = getattr(api, name)
        if not inspect.isclass(public):
            continue
        assert (public.__doc__ or "").strip(), name
        for attribute, value in vars(public).items():
            is_own = inspect.isfunction(value) or isinstance(value, property)
            if is_own and not attribute.startswith("_") and public in OF_APPLICATIONS:
                function = value.fget if isinstance(value, property) else value
                assert function is not None and function.__doc__, f"{name}.{attribute}"


OF_APPLICATIONS = (
    magnetar.Client, magnetar.Consumer, magnetar.Producer, magnetar.Reader, magnetar.TableView,
)  # fmt: skip
