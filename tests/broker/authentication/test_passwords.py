"""Files of users and passwords."""

import asyncio
import base64
from collections.abc import Callable, Hashable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from passlib.hash import apr_md5_crypt, des_crypt

from credentials import at_once
from effort import examples
from magnetar_broker.authentication import passwords
from magnetar_broker.authentication.passwords import (
    LONGEST,
    Passwords,
    UserFile,
    Users,
    parse,
)
from magnetar_broker.authentication.provider import Credentials, InvalidCredentials

ALICE = apr_md5_crypt.using(salt="saltsalt").hash("password")
BOB = des_crypt.using(salt="ab").hash("secret")


class MemoryFiles:
    """One file that a test changes."""

    def __init__(self, content: bytes) -> None:
        self.content: bytes | None = content
        self.reads = 0

    def read(self, path: str) -> bytes:
        self.reads += 1
        if self.content is None:
            raise FileNotFoundError(2, "gone", path)
        return self.content

    def stamp(self, path: str) -> Hashable:
        return self.content


def role_of(provider: Passwords, credentials: str | bytes) -> str:
    data = credentials.encode() if isinstance(credentials, str) else credentials
    return asyncio.run(provider.identify(Credentials(data))).role


def of(users: Users) -> Passwords:
    return Passwords(lambda: users, at_once)


def test_both_kinds_of_hashes() -> None:
    provider = of(parse(f"alice:{ALICE}\n\n# a comment\n bob:{BOB} \n".encode()))
    assert role_of(provider, "alice:password") == "alice"
    assert role_of(provider, "bob:secret") == "bob"
    for _ in range(2):  # also once the right ones are known
        for wrong in (
            "alice:secret",
            "bob:password",
            "carol:password",
            "alice:Password",
            "alice:p",
        ):
            with pytest.raises(InvalidCredentials, match="no such user, or the password is wrong"):
                role_of(provider, wrong)
        assert role_of(provider, "alice:password") == "alice"


@pytest.mark.parametrize(
    "data", [b"", b"alice", b"alice:", b":password", b"a:b:c", b"\xff:password", b":", b"alice:\0"]
)
def test_credentials_that_are_none(data: bytes) -> None:
    with pytest.raises(InvalidCredentials):
        role_of(of({"alice": ALICE, "a": ALICE}), data)


@pytest.mark.parametrize(
    "line",
    ["alice", "alice:", ":x", "alice:plain-text-password", f"alice:{ALICE}:x", "alice:{SHA}x",
     "alice:$2y$05$abcdefghijklmnopqrstuv", "alice:$apr1$salt$short"],
)  # fmt: skip
def test_a_line_that_is_wrong_is_named_and_not_shown(line: str) -> None:
    with pytest.raises(ValueError, match="line 2: ") as refused:
        parse(f"bob:{BOB}\n{line}\n".encode())
    assert "password" not in str(refused.value) and "$" not in str(refused.value)


def test_a_changed_file_is_in_force_at_once_and_a_broken_one_never(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = MemoryFiles(f"alice:{ALICE}".encode())
    provider = Passwords(UserFile("htpasswd", files), at_once)
    assert role_of(provider, "alice:password") == "alice"
    files.content = f"alice:{BOB}\nbob:{BOB}".encode()
    assert role_of(provider, "alice:secret") == "alice"
    with pytest.raises(InvalidCredentials):
        role_of(provider, "alice:password")
    for broken in (b"alice:nonsense", None):
        files.content = broken
        assert role_of(provider, "bob:secret") == "bob"
        with pytest.raises(InvalidCredentials):
            role_of(provider, "alice:nonsense")
    assert len([one for one in caplog.records if one.levelname == "ERROR"]) == 2
    reads = files.reads
    role_of(provider, "bob:secret")
    assert files.reads == reads


def test_a_long_password_is_refused_without_a_comparison() -> None:
    async def compare(of_password: Callable[[], bool]) -> bool:
        raise AssertionError

    provider = Passwords(lambda: {"alice": ALICE}, compare)
    for user in ("alice", "nobody"):
        with pytest.raises(InvalidCredentials):
            role_of(provider, f"{user}:{'x' * (LONGEST + 1)}")


@pytest.mark.parametrize(
    ("users", "each"),
    [
        ({"alice": ALICE}, ["apr1"]),
        ({"alice": ALICE, "bob": BOB}, ["apr1", "des"]),
        ({"bob": BOB}, ["apr1", "des"]),
        ({}, ["apr1"]),
    ],
)
def test_an_attempt_costs_the_same_whether_or_not_the_user_exists(
    monkeypatch: pytest.MonkeyPatch, users: dict[str, str], each: list[str]
) -> None:
    compared = []

    def compare(password: bytes, hashed: str) -> bool:
        compared.append("apr1" if hashed.startswith("$apr1$") else "des")
        return False

    monkeypatch.setattr("magnetar_broker.authentication.passwords.matches", compare)
    for user in (*users, "nobody"):
        compared.clear()
        with pytest.raises(InvalidCredentials):
            role_of(of(users), f"{user}:x")
        assert sorted(compared) == each


def test_a_removed_user_is_refused_though_its_password_was_right() -> None:
    files = MemoryFiles(f"alice:{ALICE}\nbob:{BOB}".encode())
    provider = Passwords(UserFile("htpasswd", files), at_once)
    assert role_of(provider, "alice:password") == "alice"
    files.content = f"bob:{BOB}".encode()
    with pytest.raises(InvalidCredentials):
        role_of(provider, "alice:password")


def test_a_user_that_does_not_exist_has_no_password() -> None:
    """It costs a comparison with a hash of a password that nobody knows; this test does."""
    provider = of({"alice": ALICE})
    provider._nobody = ALICE
    assert role_of(provider, "alice:password") == "alice"
    with pytest.raises(InvalidCredentials):
        role_of(provider, "nobody:password")


def test_what_is_known_to_be_right_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "CACHED", 20)
    hashed = des_crypt.hash("x")
    provider = of({f"user{n}": hashed for n in range(30)})
    for n in range(30):
        role_of(provider, f"user{n}:x")
    assert len(provider._right) == 20


@given(st.binary(max_size=80))
def test_any_content_is_parsed_or_refused(content: bytes) -> None:
    try:
        users = parse(content)
    except ValueError as refused:
        assert "line" in str(refused) or "UTF-8" in str(refused)
    else:
        assert all(user and ":" not in hashed for user, hashed in users.items())


words = st.text(
    st.characters(min_codepoint=33, max_codepoint=126, exclude_characters=":"), min_size=1
)


@settings(max_examples=examples(40))
@given(words, words, st.booleans())
def test_a_password_proves_its_user_and_no_other(password: str, other: str, is_des: bool) -> None:
    kind = des_crypt if is_des else apr_md5_crypt
    provider = of({"user": kind.hash(password)})
    assert role_of(provider, f"user:{password}") == "user"
    known = 8 if is_des else None  # what DES reads of a password
    if password[:known] != other[:known]:
        with pytest.raises(InvalidCredentials):
            role_of(provider, f"user:{other}")


@pytest.mark.parametrize("header", ["", "Basic", "Basic ???", "Bearer eA==", "Basic eA== x"])
def test_a_header_without_a_password(header: str) -> None:
    with pytest.raises(InvalidCredentials):
        of({}).data_of({"authorization": header} if header else {})


def test_a_header_with_a_password() -> None:
    encoded = base64.b64encode(b"alice:password").decode()
    assert of({}).data_of({"authorization": f"basic {encoded}"}) == b"alice:password"
