"""Makes the authentication of clients from the settings; none of it is imported while it is off."""

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Hashable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from magnetar_broker.authentication.authenticator import AuthenticationRules, Authenticator
from magnetar_broker.authentication.data_urls import Files, content_of, file_of
from magnetar_broker.authentication.provider import Provider
from magnetar_broker.config import ConfigError, Settings
from magnetar_broker.config.authentication import BASIC, OIDC, TLS, TOKEN, providers_of
from magnetar_broker.config.settings import KEYS

T = TypeVar("T")
HASHES = 2
"""The number of passwords that are compared at a time: each takes the interpreter's lock."""


class LocalFiles:
    """Reads the files of this machine for authentication."""

    def read(self, path: str) -> bytes:
        """Return the whole content of a file."""
        return Path(path).read_bytes()

    def stamp(self, path: str) -> Hashable:
        """Return a value that changes with the file: modification time, size and inode number."""
        found = os.stat(path)
        return found.st_mtime_ns, found.st_size, found.st_ino


class Hashing:
    """Computes hashes in threads, a few at a time."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(HASHES)

    async def run(self, compare: Callable[[], bool]) -> bool:
        """Return the result of `compare`, which runs in a thread."""
        async with self._places:
            return await asyncio.to_thread(compare)


class Background:
    """Runs work that nobody waits for."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` as a separate task."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def authenticator_of(settings: Settings) -> Authenticator | None:
    """Return the authenticator that the settings describe; None if authentication is off.

    Raises `ConfigError` if a key or a file of users cannot be used.
    """
    if not settings.authentication_enabled:
        return None
    rules = AuthenticationRules(
        anonymous=settings.anonymous_user_role or "",
        strict=settings.strict_auth_method,
        proxies=frozenset(settings.proxy_roles),
        proves_originals=settings.authenticate_original_auth_data,
        checks_originals=settings.authorization_enabled,
        refresh_seconds=settings.authentication_refresh_check_seconds,
    )
    return Authenticator(list(_providers(settings, LocalFiles())), rules)


def _providers(settings: Settings, files: Files) -> Iterator[Provider]:
    # Imported only where they are configured: cryptographic libraries take memory and time.
    made = {TOKEN: _tokens, BASIC: _passwords, TLS: _certificates, OIDC: _open_id}
    for name in providers_of(settings):
        yield made[name](settings, files)


def _certificates(settings: Settings, files: Files) -> Provider:
    from magnetar_broker.authentication.certificates import Certificates  # noqa: PLC0415

    return Certificates()


def _open_id(settings: Settings, files: Files) -> Provider:
    from magnetar_broker.authentication.issuer_keys import CacheRules, IssuerKeys  # noqa: PLC0415
    from magnetar_broker.authentication.oidc import OpenIdTokens  # noqa: PLC0415
    from magnetar_broker.authentication.tokens import TokenRules  # noqa: PLC0415
    from magnetar_broker.server.clients.fetching import Fetcher  # noqa: PLC0415

    fetcher = _read(
        settings,
        "open_id_token_issuer_trust_certs_file_path",
        lambda: Fetcher(
            settings.open_id_http_connection_timeout_millis / 1000,
            settings.open_id_http_read_timeout_millis / 1000,
            settings.open_id_token_issuer_trust_certs_file_path,
        ),
    )
    cache = CacheRules(
        settings.open_id_cache_size,
        settings.open_id_cache_refresh_after_write_seconds,
        settings.open_id_cache_expiration_seconds,
        settings.open_id_key_id_cache_miss_refresh_seconds,
        settings.open_id_require_issuers_use_https,
    )
    rules = TokenRules(
        settings.open_id_role_claim,
        "aud",
        frozenset(settings.open_id_allowed_audiences),
        settings.open_id_accepted_time_leeway_seconds,
    )
    keys = IssuerKeys(fetcher.fetch, cache, time.time, Background().spawn)
    issuers = frozenset(settings.open_id_allowed_token_issuers)
    return OpenIdTokens(issuers, keys, rules, time.time)


def _tokens(settings: Settings, files: Files) -> Provider:
    from magnetar_broker.authentication import token_keys  # noqa: PLC0415
    from magnetar_broker.authentication.tokens import TokenRules, Tokens  # noqa: PLC0415

    if settings.token_secret_key:
        secret = settings.token_secret_key
        key = _read(
            settings, "token_secret_key", lambda: token_keys.secret_key(content_of(secret, files))
        )
    else:
        text, algorithm = settings.token_public_key or "", settings.token_public_alg
        key = _read(
            settings,
            "token_public_key",
            lambda: token_keys.public_key(content_of(text, files), algorithm),
        )
    rules = TokenRules(
        settings.token_auth_claim,
        settings.token_audience_claim or "",
        frozenset((settings.token_audience or "",)),
        settings.token_allowed_clock_skew_seconds,
    )
    return Tokens(key, rules, time.time)


def _passwords(settings: Settings, files: Files) -> Provider:
    from magnetar_broker.authentication import passwords  # noqa: PLC0415

    text = settings.basic_auth_conf or ""

    def users() -> Callable[[], passwords.Users]:
        path = file_of(text, files)
        if path is not None:
            return passwords.UserFile(path, files)
        parsed = passwords.parse(content_of(text, files))
        return lambda: parsed

    return passwords.Passwords(_read(settings, "basic_auth_conf", users), Hashing().run)


def _read(settings: Settings, field: str, read: Callable[[], T]) -> T:
    """Return the result of `read` for a setting; `ConfigError` names the setting, not its value."""
    try:
        return read()
    except OSError as error:
        why = f"{error.filename}: {error.strerror}"
    except ValueError as error:
        why = str(error)
    source = settings.origins.get(field, "default")
    raise ConfigError(f"{source}: {KEYS[field].name}: {why}")
