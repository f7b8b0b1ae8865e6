"""The file of credentials that AWS's tools share."""

from pathlib import Path

import pytest

from magnetar_broker.server.object_stores.aws_profile import FIRST, provider
from magnetar_broker.server.object_stores.places import PlaceRefused

TEXT = """
[default]
aws_access_key_id = key
aws_secret_access_key = sec%ret

[session]
aws_access_key_id = key2
aws_secret_access_key = secret2
aws_session_token = token2

[role]
role_arn = arn:aws:iam::1:role/x
source_profile = default
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "credentials"
    path.write_text(TEXT)
    return path


def test_the_default_profile_is_read(file: Path) -> None:
    read = provider({"AWS_SHARED_CREDENTIALS_FILE": str(file)})
    assert read is not None
    found = read()
    assert found["access_key_id"] == "key"
    assert found["secret_access_key"] == "sec%ret"
    assert found["token"] is None
    assert found["expires_at"] is not None


def test_another_profile_and_a_change_of_the_file(file: Path) -> None:
    read = provider({"AWS_SHARED_CREDENTIALS_FILE": str(file), "AWS_PROFILE": "session"})
    assert read is not None
    assert read()["token"] == "token2"
    file.write_text(TEXT.replace("token2", "token3"))
    assert read()["token"] == "token3"


def test_the_file_in_the_home_directory_is_found(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert provider({}) is None
    (tmp_path / ".aws").mkdir()
    file.rename(tmp_path / ".aws" / "credentials")
    read = provider({})
    assert read is not None
    assert read()["access_key_id"] == "key"


@pytest.mark.parametrize("variable", FIRST)
def test_other_sources_come_first(file: Path, variable: str) -> None:
    assert provider({"AWS_SHARED_CREDENTIALS_FILE": str(file), variable: "x"}) is None


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        ("nobody", "profile nobody in .* has no aws_access_key_id and aws_secret_access_key: add"),
        ("role", "profile role in .* has no aws_access_key_id"),
    ],
)
def test_a_profile_without_keys_is_refused(file: Path, profile: str, words: str) -> None:
    with pytest.raises(PlaceRefused, match=words):
        provider({"AWS_SHARED_CREDENTIALS_FILE": str(file), "AWS_PROFILE": profile})


def test_a_file_that_cannot_be_read_is_refused_without_its_content(tmp_path: Path) -> None:
    path = tmp_path / "credentials"
    with pytest.raises(PlaceRefused, match=r"cannot read credentials in .*: No such file"):
        provider({"AWS_SHARED_CREDENTIALS_FILE": str(path)})
    path.write_text("hush hush")
    with pytest.raises(PlaceRefused, match="it is not an INI file") as caught:
        provider({"AWS_SHARED_CREDENTIALS_FILE": str(path)})
    assert caught.value.__suppress_context__
    assert "hush" not in str(caught.value)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(PlaceRefused, match="it is not an INI file"):
        provider({"AWS_SHARED_CREDENTIALS_FILE": str(path)})
