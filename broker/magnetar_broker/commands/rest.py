"""Requests to the REST API of a broker, for commands."""

import json
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import click

DEFAULT_ADMIN_URL = "http://localhost:8080"

admin_url_option = click.option(
    "--admin-url", default=DEFAULT_ADMIN_URL, envvar="MAGNETAR_ADMIN_URL", show_default=True,
    help="URL of the broker's HTTP port; also from the environment variable MAGNETAR_ADMIN_URL.",
)  # fmt: skip


class RestError(Exception):
    """A request failed: the text says why, and what to do."""


def ask(url: str, path: str, method: str = "GET", timeout_s: float = 10.0) -> Any:
    """The JSON that the broker answers, or its text if that is no JSON; `RestError` otherwise."""
    try:
        if not url.startswith(("http://", "https://")):
            raise ValueError("its URL begins neither with http:// nor with https://")
        request = Request(url.rstrip("/") + path, method=method)
        with urlopen(request, timeout=timeout_s) as response:  # nosec B310: see above
            body = response.read()
    except HTTPError as error:
        raise RestError(f"{url}: {_reason(error)}") from error
    except (URLError, OSError, ValueError) as error:
        why = getattr(error, "reason", error)
        raise RestError(
            f"cannot reach the broker at {url}: {why}; is it running, and is this its HTTP port "
            "(webServicePort)? Name another one with --admin-url"
        ) from error
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="replace")


def _reason(error: HTTPError) -> str:
    body = error.read()
    try:
        return f"{json.loads(body)['reason']} (status {error.code})"
    except (ValueError, KeyError, TypeError):
        return f"status {error.code} {error.reason}"
