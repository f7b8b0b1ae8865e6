"""Credentials: where they come from, and that nothing shows them."""

import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import magnetar
from magnetar.auth import Authentication, Basic, Certificate, Token
from magnetar.base.errors import CredentialsError
from magnetar.security.credentials import PLUGINS, authentication_of

SECRET = "eyJh.secret.x"


async def test_every_source_of_a_token(tmp_path: Path) -> None:
    file = tmp_path / "a token"
    file.write_text(f"{SECRET}\n")

    async def later() -> str:
        return SECRET

    sources: list[str | Path | Callable[[], str] | Callable[[], Awaitable[str]]] = [
        SECRET, f"token:{SECRET}", f"file://{file}", f"file://{file}".replace(" ", "%20"), file,
        lambda: SECRET, later,
    ]  # fmt: skip
    for source in sources:
        assert await Token(source).shown() == SECRET.encode()
    for source in sources[:-1]:
        assert Token(source).headers() == {"Authorization": f"Bearer {SECRET}"}
    with pytest.raises(CredentialsError, match="expected a str"):
        Token(later).headers()


async def test_a_file_and_a_function_are_asked_each_time(tmp_path: Path) -> None:
    file = tmp_path / "token"
    numbers = iter("12")
    of_file, of_function = Token(file), Token(lambda: next(numbers))
    for text in "12":
        file.write_text(text)
        assert (await of_file.shown(), await of_function.shown()) == (text.encode(),) * 2


async def test_basic_and_certificates() -> None:
    assert (Basic.method, await Basic("me", "a:b").shown()) == ("basic", b"me:a:b")
    assert Basic("me", "pass").headers() == {"Authorization": "Basic bWU6cGFzcw=="}
    with pytest.raises(CredentialsError):
        Basic("m:e", "x")
    shown = Certificate("/c", Path("/k"))
    assert (shown.method, await shown.shown(), shown.headers()) == ("tls", b"", {})
    assert shown.certificate == ("/c", "/k")


async def test_what_is_no_token_is_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{SECRET} {SECRET}")
    missing = tmp_path / "missing"

    def fails() -> str:
        raise ValueError(SECRET)

    for source in (file, missing, fails, lambda: "", lambda: f"{SECRET}\nX: y"):
        with pytest.raises(CredentialsError) as caught:
            await Token(source).shown()
        assert SECRET not in str(caught.value)
    with pytest.raises(CredentialsError) as caught:
        Token(f"{SECRET} ä")
    assert SECRET not in "".join(traceback.format_exception_only(caught.value))


def test_no_representation_shows_a_secret() -> None:
    shown: list[Authentication] = [Token(SECRET), Token(lambda: SECRET), Basic("me", SECRET)]
    assert [repr(one) for one in shown] == ["Token(...)", "Token(...)", "Basic(...)"]
    client = magnetar.connect("pulsar://localhost", auth=Token(SECRET))
    assert SECRET not in repr(client)


@pytest.mark.parametrize(
    ("plugin", "parameters", "kind"),
    [
        ("token", SECRET, Token),
        ("basic", f'{{"userId": "me", "password": "{SECRET}"}}', Basic),
        ("basic", f"username:me,password:{SECRET}", Basic),
        ("tls", "tlsCertFile:/c,tlsKeyFile:/k", Certificate),
        (
            "oauth2",
            '{"issuerUrl": "https://x", "privateKey": "file:///k", "audience": "a"}',
            magnetar.auth.OAuth2,
        ),
    ],
)
def test_plugins(plugin: str, parameters: str, kind: type[Authentication]) -> None:
    java = next(name for name, word in PLUGINS.items() if word == plugin)
    for name in (plugin, java):
        assert type(authentication_of(name, parameters)) is kind
    assert authentication_of("", "") is None
    assert authentication_of("none", "") is None


@pytest.mark.parametrize(
    ("plugin", "parameters", "why"),
    [
        ("", SECRET, "needs --auth-plugin"),
        ("org.example.Mine", SECRET, "is not known"),
        ("token", f"{SECRET} x", "expected token:TOKEN"),
        ("basic", SECRET, "userId"),
        ("tls", SECRET, "tlsCertFile"),
        ("oauth2", SECRET, "issuerUrl"),
        ("oauth2", '{"type": "tls_client_auth"}', "client_credentials"),
        ("oauth2", '{"issuerUrl": "http://x", "privateKey": "k"}', "must be an https: URL"),
        ("basic", f"{{{SECRET}", "is not JSON"),
    ],
)
def test_parameters_that_are_refused_are_not_shown(plugin: str, parameters: str, why: str) -> None:
    with pytest.raises(CredentialsError) as caught:
        authentication_of(plugin, parameters)
    assert why in str(caught.value) and SECRET not in str(caught.value)
