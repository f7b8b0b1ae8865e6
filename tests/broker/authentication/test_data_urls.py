"""Values of settings that are content, or say where it is."""

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar_broker.authentication.data_urls import content_of, file_of
from magnetar_broker.server.clients.authentication import LocalFiles

FILES = LocalFiles()


@given(st.binary(min_size=1))
def test_every_content_can_stand_in_a_setting(content: bytes) -> None:
    for encoded in (base64.b64encode(content), base64.urlsafe_b64encode(content)):
        for head in ("data:;base64,", "data:text/plain;base64,"):
            text = head + encoded.decode()
            assert content_of(text.rstrip("="), FILES) == content
            assert content_of(text, FILES) == content


def test_files_are_named_by_a_url_or_a_path(tmp_path: Path) -> None:
    file = tmp_path / "a key"
    file.write_bytes(b"\0\xff content\n")
    for text in (f"file://{file}".replace(" ", "%20"), f"file:{file}", str(file)):
        assert content_of(text, FILES) == b"\0\xff content\n"
        assert file_of(text, FILES) == str(file)


def test_text_that_is_no_file_is_base64() -> None:
    assert content_of("c2VjcmV0", FILES) == b"secret"
    assert content_of("c2VjcmV0" * 1000, FILES) == b"secret" * 1000  # too long for a name
    assert file_of("c2VjcmV0", FILES) is None
    assert content_of("data:,a%20b", FILES) == b"a b"


@pytest.mark.parametrize("text", ["/no/such/file!", "data:x", "data:;base64,???", "not base64!"])
def test_anything_else_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ValueError, match="base64") as refused:
        content_of(text, FILES)
    assert text not in str(refused.value)


def test_a_file_that_is_not_there_is_refused() -> None:
    with pytest.raises(FileNotFoundError):
        content_of("file:///no/such/file", FILES)
