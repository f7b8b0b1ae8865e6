"""`magnetar tokens`: keys and tokens as other tools make and read them."""

import json
import stat
import subprocess
import sys
from base64 import b64decode, b64encode
from pathlib import Path

import jwt
import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.serialization import (
    load_der_private_key,
    load_der_public_key,
)

from magnetar.cli import main

SECRET = b"0123456789abcdef0123456789abcdef"
OF_SECRET = b64encode(SECRET).decode()


def tokens(*words: str, stdin: str | None = None, **environment: str) -> Result:
    return CliRunner().invoke(main, ["tokens", *words], input=stdin, env=environment)


def made(*words: str) -> str:
    result = tokens("create", *words)
    assert result.exit_code == 0, result.output
    return result.stdout.strip()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A private and a public key."""
    folder = tmp_path_factory.mktemp("keys")
    private, public = folder / "private.key", folder / "public.key"
    result = tokens("create-key-pair", "--output-private-key", str(private),
                    "--output-public-key", str(public))  # fmt: skip
    assert result.exit_code == 0, result.output
    return str(private), str(public)


@pytest.mark.parametrize(("algorithm", "length"), [("HS256", 32), ("HS384", 48), ("hs512", 64)])
def test_secret_keys(algorithm: str, length: int, tmp_path: Path) -> None:
    file = tmp_path / "secret.key"
    assert tokens("create-secret-key", "-a", algorithm, "--output", str(file)).exit_code == 0
    assert len(file.read_bytes()) == length
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    again = tokens("create-secret-key", "--output", str(file))
    assert (again.exit_code, "is not overwritten" in again.output) == (1, True)
    text = tokens("create-secret-key", "-a", algorithm, "--base64").stdout
    assert len(b64decode(text)) == length
    token = made("-s", "me", "-sk", str(file))
    assert jwt.get_unverified_header(token) == {"alg": algorithm.upper()}


def test_a_secret_key_on_standard_output_is_its_bytes() -> None:
    command = Path(sys.executable).with_name("magnetar")
    found = subprocess.run(
        [command, "tokens", "create-secret-key"], capture_output=True, check=True
    )
    assert len(found.stdout) == 32


@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "ES384", "ES512"])
def test_key_pairs(algorithm: str, tmp_path: Path) -> None:
    private, public = tmp_path / "private.key", tmp_path / "public.key"
    words = ("create-key-pair", "-a", algorithm, "--output-private-key", str(private),
             "--output-public-key", str(public))  # fmt: skip
    assert tokens(*words).exit_code == 0
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    key = load_der_private_key(private.read_bytes(), None)
    assert key.public_key() == load_der_public_key(public.read_bytes())
    token = made("-s", "me", "-pk", str(private), "-a", algorithm)
    assert jwt.get_unverified_header(token)["alg"] == algorithm
    assert jwt.decode(token, key.public_key(), [algorithm]) == {"sub": "me"}  # type: ignore[arg-type]
    checked = tokens("validate", token, "-pk", f"file://{public}")
    assert (checked.exit_code, json.loads(checked.stdout)) == (0, {"sub": "me"})


def test_every_form_of_a_key(tmp_path: Path) -> None:
    file = tmp_path / "a secret"
    file.write_bytes(SECRET)
    escaped = f"file://{str(file).replace(' ', '%20')}"
    for key in (str(file), f"file://{file}", escaped, f"data:;base64,{OF_SECRET}", OF_SECRET):
        token = made("--subject", "me", "--secret-key", key)
        assert jwt.decode(token, SECRET, ["HS256"]) == {"sub": "me"}
        assert tokens("validate", token, "--secret-key", key).exit_code == 0


def test_expiry_and_headers() -> None:
    token = made("-s", "me", "-sk", OF_SECRET, "-e", "2h", "-hs", "kid=a=b", "-hs", "x=y")
    claims = jwt.decode(token, SECRET, ["HS256"], options={"verify_exp": True})
    assert claims.keys() == {"sub", "exp"}
    assert jwt.get_unverified_header(token) == {"alg": "HS256", "kid": "a=b", "x": "y"}


def test_where_a_token_comes_from(tmp_path: Path) -> None:
    token = made("-s", "me", "-sk", OF_SECRET)
    file = tmp_path / "token"
    file.write_text(f"{token}\n")
    expected = '{"alg": "HS256"}\n---\n{"sub": "me"}\n'
    assert tokens("show", token).stdout == expected
    assert tokens("show", "-f", str(file)).stdout == expected
    assert tokens("show", "--stdin", stdin=f"{token}\n").stdout == expected
    assert tokens("show", TOKEN=token).stdout == expected
    assert tokens("show").exit_code == 2
    assert tokens("show", token, "-f", str(file)).exit_code == 2


def test_a_token_in_a_file_is_for_its_owner(tmp_path: Path) -> None:
    file = tmp_path / "token"
    assert made("-s", "me", "-sk", OF_SECRET, "-o", str(file)) == ""
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert jwt.decode(file.read_text(), SECRET, ["HS256"]) == {"sub": "me"}


def test_tokens_that_are_not_valid(pair: tuple[str, str]) -> None:
    private, public = pair
    other = b64encode(b"x" * 32).decode()
    token = made("-s", "me", "-sk", OF_SECRET)
    expired = jwt.encode({"sub": "me", "exp": 1}, SECRET, "HS256")
    early = jwt.encode({"sub": "me", "nbf": 1 << 40}, SECRET, "HS256")
    unsigned = jwt.encode({"sub": "me"}, None, "none")  # type: ignore[arg-type]
    signed = made("-s", "me", "-pk", private)
    # Signed with the public key as if it were a secret.
    confused = jwt.encode({"sub": "admin"}, b64encode(Path(public).read_bytes()), "HS256")
    for text, key, why in (
        (token, ("-sk", other), "not valid"),
        (token[:-1], ("-sk", OF_SECRET), "not valid"),
        (expired, ("-sk", OF_SECRET), "has expired"),
        (early, ("-sk", OF_SECRET), "not valid"),
        (unsigned, ("-sk", OF_SECRET), "does not fit the key"),
        (signed, ("-sk", OF_SECRET), "does not fit the key"),
        (confused, ("-pk", public), "does not fit the key"),
        ("garbage", ("-sk", OF_SECRET), "expected a token of the form"),
        (token, ("-sk", OF_SECRET, "-a", "HS512"), "not signed with"),
    ):
        result = tokens("validate", text, *key)
        assert (result.exit_code, why in result.output) == (1, True), result.output
        assert text not in result.output


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("-s", "me"), "give either"),
        (("-s", "me", "-sk", OF_SECRET, "-pk", "x"), "give either"),
        (("-s", "me", "-sk", b64encode(b"short").decode()), "at least 32"),
        (("-s", "me", "-sk", "/does/not/exist.key"), "neither a file"),
        (("-s", "me", "-sk", "file:///does/not/exist"), "No such file"),
        (("-s", "me", "-pk", OF_SECRET), "not PKCS8"),
        (("-s", "me", "-sk", OF_SECRET, "-a", "RS256"), "does not fit"),
        (("-s", "me", "-sk", OF_SECRET, "-a", "HS512"), "does not fit"),
        (("-s", "me", "-sk", OF_SECRET, "-e", "soon"), "a time, such as"),
        (("-s", "me", "-sk", OF_SECRET, "-e", "0"), "between a second"),
        (("-s", "me", "-sk", OF_SECRET, "-hs", "alg=none"), "NAME=VALUE"),
    ],
)
def test_what_makes_no_token(words: tuple[str, ...], why: str) -> None:
    result = tokens("create", *words)
    assert result.exit_code != 0
    assert why in result.output and OF_SECRET not in result.output
