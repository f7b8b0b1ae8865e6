"""Texts of refusals, which official clients search for certain words."""

import ast
from collections.abc import Iterator
from pathlib import Path

import magnetar_broker
from magnetar_broker.base.client_texts import GIVING_UP, NO_LISTENER, UNLOADED
from magnetar_broker.base.errors import BrokerError, being_unloaded
from magnetar_broker.ipc.refusals import KINDS

REFUSALS = {name for name, kind in KINDS.items() if issubclass(kind, BrokerError)}


def texts_of_refusals(source: Path) -> Iterator[str]:
    """Yield the texts from which a source file creates refusals."""
    for call in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") in REFUSALS:
            for part in (part for argument in call.args for part in ast.walk(argument)):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value


def test_no_text_has_the_name_of_an_error_at_which_a_client_gives_up() -> None:
    sources = sorted(Path(magnetar_broker.__file__).parent.rglob("*.py"))
    texts = [text for source in sources for text in texts_of_refusals(source)]
    assert len(texts) > 100
    assert [text for text in texts if any(name in text for name in GIVING_UP)] == []


def test_the_words_that_the_client_in_c_plus_plus_searches_for() -> None:
    assert UNLOADED == "is being unloaded"
    assert UNLOADED in str(being_unloaded("persistent://public/default/t"))
    assert NO_LISTENER.format("test") == "the broker do not have test listener"
