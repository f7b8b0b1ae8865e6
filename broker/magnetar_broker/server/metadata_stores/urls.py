"""The values of `metadataStoreUrl` that name a server, such as `etcd:https://host:2379`."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

ETCD_FORM: Final = "etcd:https://host:2379,https://host2:2379[/prefix]"
POSTGRES_FORM: Final = "postgres://user@host:5432/database"
POSTGRES_SCHEMES: Final = ("postgres", "postgresql")
SCHEMA: Final = "magnetar"
"""The schema of PostgreSQL in which the tables are, unless the URL has the option `schema`."""
SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,39}")
SECRET_OPTIONS: Final = frozenset({"password", "sslpassword"})


class MetadataRefused(ValueError):
    """Raised if a URL names no metadata store, or this installation cannot use it."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of one server of etcd."""

    host: str
    port: int
    is_tls: bool

    @property
    def address(self) -> str:
        """The host and the port."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"{'https' if self.is_tls else 'http'}://{self.address}"


@dataclass(frozen=True, slots=True)
class EtcdPlace:
    """A cluster of etcd, and the prefix of all keys in it."""

    endpoints: tuple[Endpoint, ...]
    prefix: str

    @property
    def text(self) -> str:
        """The URL; it has no password."""
        return f"etcd:{','.join(map(str, self.endpoints))}{self.prefix}"


@dataclass(frozen=True, slots=True, repr=False)
class PostgresPlace:
    """A database of PostgreSQL, and the schema of the tables in it."""

    dsn: str
    """The URL for the driver, which may have a password."""
    text: str
    """The URL without passwords."""
    schema: str

    def __repr__(self) -> str:
        return f"PostgresPlace({self.text})"


def scheme_of(url: str) -> str:
    """Return the scheme of a URL in lower case: the part before the first colon, or ""."""
    scheme, colon, _ = url.partition(":")
    return scheme.lower() if colon else ""


def place_text(url: str) -> str:
    """Return a URL without passwords; `MetadataRefused` if it names no metadata store."""
    match scheme_of(url):
        case "etcd":
            return etcd_place(url).text
        case scheme if scheme in POSTGRES_SCHEMES:
            return postgres_place(url).text
        case _:
            raise MetadataRefused(f"expected {ETCD_FORM} or {POSTGRES_FORM}")


def etcd_place(url: str) -> EtcdPlace:
    """Return the parts of an etcd URL; `MetadataRefused` if it is not one."""
    addresses = url.partition(":")[2].split(",")
    last = _split(addresses[-1], ETCD_FORM)
    prefix = unquote(last.path).rstrip("/")
    addresses[-1] = f"{last.scheme}://{last.netloc}"
    if last.query or last.fragment:
        raise MetadataRefused(f"the URL of etcd must not contain ? or #: expected {ETCD_FORM}")
    return EtcdPlace(tuple(map(_endpoint, addresses)), prefix)


def _endpoint(address: str) -> Endpoint:
    parts = _split(address, ETCD_FORM)
    if "@" in parts.netloc:
        raise MetadataRefused(
            "the URL of etcd must not contain credentials: remove the part before @, and set the"
            " user and the password by their settings"
        )
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path:
        raise MetadataRefused(
            f'"{address}" is not an address of etcd: expected {ETCD_FORM}, with https:// or http://'
            " before each host, and the prefix after the last one"
        )
    return Endpoint(parts.hostname, _port(parts, ETCD_FORM) or 2379, parts.scheme == "https")


def postgres_place(url: str) -> PostgresPlace:
    """Return the parts of a PostgreSQL URL; `MetadataRefused` if it is not one.

    No text of an error has a part of the URL that may be a password.
    """
    scheme = scheme_of(url)
    parts = _split(url, POSTGRES_FORM)
    if parts.fragment or not url.lower().startswith(f"{scheme}://"):
        raise MetadataRefused(f"the URL of PostgreSQL is not valid: expected {POSTGRES_FORM}")
    hosts = parts.netloc.rpartition("@")[2]
    for host in hosts.split(","):
        _port(_split(f"//{host}", POSTGRES_FORM), POSTGRES_FORM)
    options = parse_qsl(parts.query, keep_blank_values=True)
    schema = dict(options).get("schema", SCHEMA)
    if not SCHEMA_NAME.fullmatch(schema):
        raise MetadataRefused(
            f'"{schema}" is not a name for the schema of the tables: expected up to 40 lower-case'
            " letters, digits and _, and no digit first"
        )
    rest = [(name, value) for name, value in options if name != "schema"]
    shown = [(name, value) for name, value in options if name not in SECRET_OPTIONS]
    user, at, _ = parts.netloc.rpartition("@")
    # promise[user.partition(":")[0] -> user]: the password in a URL is not shown
    shown_netloc = user.partition(":")[0] + at + hosts
    return PostgresPlace(
        _joined(parts, parts.netloc, rest), _joined(parts, shown_netloc, shown), schema
    )


def _joined(parts: SplitResult, netloc: str, options: list[tuple[str, str]]) -> str:
    # `urlunsplit` would leave out // if there is no host.
    query = urlencode(options, safe="/")
    return f"{parts.scheme}://{netloc}{parts.path}{'?' if query else ''}{query}"


def _split(text: str, form: str) -> SplitResult:
    try:
        return urlsplit(text)
    except ValueError:  # brackets that do not belong there; its text may have the password
        raise MetadataRefused(f"metadataStoreUrl is not a URL: expected {form}") from None


def _port(parts: SplitResult, form: str) -> int | None:
    try:
        return parts.port
    except ValueError:
        raise MetadataRefused(
            f"metadataStoreUrl has a port that is not a number up to 65535: expected {form}"
        ) from None
