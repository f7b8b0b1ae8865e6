"""The command `magnetar tokens`, with the words of `pulsar tokens`."""

import json
import os
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from magnetar.cli.setup import token_keys
from magnetar.cli.setup.files import PUBLIC, FileProblem, write_new
from magnetar.cli.setup.token_keys import PAIR_ALGORITHMS, SECRET_BYTES, TokenProblem
from magnetar.cli.units import TIME_UNITS, parse_seconds

MOST_SECONDS: Final = 1000 * TIME_UNITS["y"]
ALGORITHMS: Final = (*SECRET_BYTES, *PAIR_ALGORITHMS)


@click.group()
def tokens() -> None:
    """Make and check tokens (JWT) and their keys. No broker is asked."""


def _algorithm(known: tuple[str, ...], default: str | None) -> Callable[..., Any]:
    return click.option(
        "-a", "--signature-algorithm", "algorithm", default=default,
        show_default=default is not None, type=click.Choice(known, case_sensitive=False),
        help="Algorithm of signatures." + ("" if default else "  Default: as fits the key."),
    )  # fmt: skip


@tokens.command("create-secret-key")
@_algorithm(tuple(SECRET_BYTES), "HS256")
@click.option(
    "-o", "--output", metavar="FILE", help="Where to write it.  Default: standard output."
)
@click.option("-b", "--base64", "as_text", is_flag=True, help="Write it as base64.")
def create_secret_key(algorithm: str, output: str | None, as_text: bool) -> None:
    """Make a secret key, which signs tokens and checks them."""
    secret = token_keys.new_secret(algorithm.upper())
    content = b64encode(secret) if as_text else secret
    if output is None:
        sys.stdout.buffer.write(content + b"\n" * as_text)
        sys.stdout.buffer.flush()
        return
    with _explained():
        write_new(Path(output), content)
    click.echo(f"secret key: {output}", err=True)


@tokens.command("create-key-pair")
@_algorithm(PAIR_ALGORITHMS, "RS256")
@click.option("--output-private-key", metavar="FILE", required=True, help="It signs tokens.")
@click.option("--output-public-key", metavar="FILE", required=True, help="It checks them.")
def create_key_pair(algorithm: str, output_private_key: str, output_public_key: str) -> None:
    """Make a private key, which signs tokens, and a public key, which checks them."""
    private, public = token_keys.new_pair(algorithm.upper())
    with _explained():
        write_new(Path(output_private_key), private)
        write_new(Path(output_public_key), public, PUBLIC)
    click.echo(f"private key: {output_private_key}\npublic key:  {output_public_key}", err=True)


@tokens.command()
@_algorithm(ALGORITHMS, None)
@click.option("-s", "--subject", required=True, help="The role of who shows the token.")
@click.option("-e", "--expiry-time", metavar="TIME",
              help="How long it is valid, such as 30m or 7d.  Default: for ever.")  # fmt: skip
@click.option("-sk", "--secret-key", metavar="KEY", help="The secret key that signs.")
@click.option("-pk", "--private-key", metavar="KEY", help="The private key that signs.")
@click.option("-hs", "--headers", multiple=True, metavar="NAME=VALUE", help="Additional headers.")
@click.option(
    "-o", "--output", metavar="FILE", help="Where to write it.  Default: standard output."
)
def create(
    algorithm: str | None,
    subject: str,
    expiry_time: str | None,
    secret_key: str | None,
    private_key: str | None,
    headers: tuple[str, ...],
    output: str | None,
) -> None:
    """Make a token.

    A KEY is a path, file:///PATH, data:;base64,TEXT, or base64.
    """
    claims: dict[str, Any] = {"sub": subject}
    if expiry_time is not None:
        claims["exp"] = int(time.time()) + _seconds(expiry_time)
    chosen = algorithm and algorithm.upper()
    key, is_secret = _one_of(secret_key, "--secret-key", private_key, "--private-key")
    with _explained():
        stored, more = token_keys.read_key(key), _headers(headers)
        if is_secret:
            token = token_keys.signed_with_secret(stored, claims, more, chosen)
        else:
            token = token_keys.signed_with_private(stored, claims, more, chosen)
        if output is None:
            click.echo(token)
            return
        write_new(Path(output), token.encode())
    click.echo(f"token: {output}", err=True)


def _source(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for the source of a token."""
    from_file = click.option("-f", "--token-file", metavar="FILE", help="Read it from a file.")
    from_input = click.option(
        "-i", "--stdin", "from_stdin", is_flag=True, help="Read it from standard input."
    )
    return click.argument("token", required=False)(from_input(from_file(command)))


@tokens.command()
@_source
def show(token: str | None, from_stdin: bool, token_file: str | None) -> None:
    """Print header and claims of a TOKEN, without checking it.

    Without one, of that in the environment variable TOKEN.
    """
    with _explained():
        header, claims = token_keys.parts_of(_token(token, from_stdin, token_file))
    click.echo(f"{json.dumps(header)}\n---\n{json.dumps(claims)}")


@tokens.command()
@_algorithm(ALGORITHMS, None)
@_source
@click.option("-sk", "--secret-key", metavar="KEY", help="The secret key that signed it.")
@click.option(
    "-pk", "--public-key", metavar="KEY", help="The public key of the one that signed it."
)
def validate(
    algorithm: str | None,
    token: str | None,
    from_stdin: bool,
    token_file: str | None,
    secret_key: str | None,
    public_key: str | None,
) -> None:
    """Check a TOKEN, and print its claims; without one, that of the variable TOKEN.

    Exits with 1 if it is not valid, or not any more.
    """
    text = _token(token, from_stdin, token_file)
    key, is_secret = _one_of(secret_key, "--secret-key", public_key, "--public-key")
    with _explained():
        used = token_keys.parts_of(text)[0].get("alg")
        if algorithm is not None and used != algorithm.upper():
            raise TokenProblem(f"the token is not signed with {algorithm}")
        stored = token_keys.read_key(key)
        if is_secret:
            claims = token_keys.claims_with_secret(text, stored)
        else:
            claims = token_keys.claims_with_public(text, stored)
    click.echo(json.dumps(claims))


@contextmanager
def _explained() -> Iterator[None]:
    """Turn an error of keys, tokens or files into a line of text."""
    try:
        yield
    except (TokenProblem, FileProblem) as error:
        raise click.ClickException(str(error)) from None


def _one_of(first: str | None, its: str, second: str | None, others: str) -> tuple[str, bool]:
    """Return the given key, and whether it is the first of the two."""
    if first is not None and second is None:
        return first, True
    if second is not None and first is None:
        return second, False
    raise click.UsageError(f"give either {its} or {others}")


def _token(given: str | None, from_stdin: bool, file: str | None) -> str:
    named = given if given is not None else None if from_stdin or file else os.environ.get("TOKEN")
    if sum((named is not None, from_stdin, file is not None)) != 1:
        raise click.UsageError("give a TOKEN, --stdin, or --token-file")
    if named is not None:
        return named.strip()
    if from_stdin:
        return sys.stdin.read().strip()
    try:
        return Path(file or "").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--token-file {file}: {error}") from None


def _seconds(text: str) -> int:
    try:
        seconds = parse_seconds(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--expiry-time") from None
    if not 0 < seconds <= MOST_SECONDS:
        raise click.BadParameter(
            f"{text!r} is not between a second and 1000 years", param_hint="--expiry-time"
        )
    return seconds


def _headers(given: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not separator or not name or name in ("alg", "typ"):
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--headers")
        found[name] = value
    return found
