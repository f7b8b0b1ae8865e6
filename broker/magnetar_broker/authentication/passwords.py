"""Users and passwords: the provider of the method `basic`."""

import hashlib
import logging
import re
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from passlib.hash import apr_md5_crypt, des_crypt

from magnetar_broker.authentication.data_urls import Files
from magnetar_broker.authentication.identity import Identity
from magnetar_broker.authentication.provider import Credentials, InvalidCredentials, basic_of

logger = logging.getLogger(__name__)

INVALID: Final = "INVALID_AUTH_DATA"
LONGEST: Final = 128
"""The most bytes of a password: the time of a hash grows with it, and anyone may try one."""
CACHED: Final = 1024
"""The most verified pairs of user and password that are kept, which saves hashing them again."""
_APR1: Final = re.compile(r"\$apr1\$[./0-9A-Za-z]{1,8}\$[./0-9A-Za-z]{22}")
_DES: Final = re.compile(r"[./0-9A-Za-z]{13}")

Users = Mapping[str, str]
"""Hashes of passwords by user."""
Blocking = Callable[[Callable[[], bool]], Awaitable[bool]]
"""Calls a function that takes milliseconds of processor time without blocking other work."""


def parse(content: bytes) -> Users:
    """Return the users of a `.htpasswd`; `ValueError` names a bad line, but not its content."""
    try:
        lines = content.decode().splitlines()
    except UnicodeDecodeError:
        raise ValueError("the users and passwords are not UTF-8") from None
    users = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        user, colon, hashed = line.strip().partition(":")
        if not user or not colon or ":" in hashed:
            raise ValueError(f"line {number}: expected user:hash")
        if not (_APR1.fullmatch(hashed) or _DES.fullmatch(hashed)):
            raise ValueError(
                f"line {number}: expected a hash that htpasswd -m or htpasswd -d has made"
            )
        users[user] = hashed
    return users


def matches(password: bytes, hashed: str) -> bool:
    """Whether a password has this hash.  The time that it takes does not tell how much of it."""
    kind = apr_md5_crypt if hashed.startswith("$apr1$") else des_crypt
    try:
        # promise[hashed)) -> hashed)) or True]:
        #   a password that cannot be hashed is wrong
        return bool(kind.verify(password, hashed))
    except ValueError:  # the password is too long or contains a NUL
        return False


class UserFile:
    """The users in a password file, which is read again when it has changed."""

    def __init__(self, path: str, files: Files) -> None:
        """Read the file; raises `OSError` or `ValueError` if it cannot be used."""
        self._path = path
        self._files = files
        self._stamp = files.stamp(path)
        self._users = parse(files.read(path))
        self._problem = ""

    def __call__(self) -> Users:
        """Return the users at present; if the file cannot be used any more, those it had before."""
        try:
            stamp = self._files.stamp(self._path)
            if stamp != self._stamp:
                self._stamp = stamp
                self._users = parse(self._files.read(self._path))
                logger.info("basicAuthConf: %d users after a change", len(self._users))
        except (OSError, ValueError) as error:
            if self._problem != str(error):
                self._problem = str(error)
                logger.error("basicAuthConf: the former users stay, because: %s", error)
        else:
            self._problem = ""
        return self._users


class Passwords:
    """Proves roles by passwords; the role is the user's name."""

    name = "AuthenticationProviderBasic"
    method = "basic"

    def __init__(self, read: Callable[[], Users], blocking: Blocking) -> None:
        """`read` returns the present users."""
        self._read = read
        self._blocking = blocking
        self._users: Users | None = None
        self._right: OrderedDict[bytes, None] = OrderedDict()
        self._key = secrets.token_bytes(32)
        self._nobody = apr_md5_crypt.hash(secrets.token_urlsafe())
        self._nobody_des = des_crypt.hash(secrets.token_urlsafe())
        self._has_des = False
        """Whether a user has a hash by DES."""

    def data_of(self, headers: Mapping[str, str]) -> bytes:
        """Return user and password."""
        return basic_of(headers)

    async def identify(self, credentials: Credentials) -> Identity:
        """Return the identity of the user; `InvalidCredentials` if the password is wrong."""
        data = credentials.data
        if not data:
            raise InvalidCredentials("there is no user and password", "EMPTY_AUTH_DATA")
        user, _, password = data.partition(b":")
        if len(password) > LONGEST:
            raise InvalidCredentials(f"the password has more than {LONGEST} bytes", INVALID)
        if not user or not password or b":" in password:
            raise InvalidCredentials("it is not user:password, with one colon", INVALID)
        try:
            role = user.decode()
        except UnicodeDecodeError:
            raise InvalidCredentials("the user's name is not UTF-8", INVALID) from None
        users = self._read()
        if users is not self._users:
            self._users = users
            self._has_des = not all(map(_APR1.fullmatch, users.values()))
            self._right.clear()  # promise: a user that was removed is forgotten
        digest = hashlib.blake2b(data, key=self._key).digest()
        if digest not in self._right:
            if not await self._blocking(partial(self._is_right, password, users.get(role))):
                raise InvalidCredentials("there is no such user, or the password is wrong", INVALID)
            if users is not self._users:  # they have changed meanwhile
                return await self.identify(credentials)
            self._right[digest] = None
            while len(self._right) > CACHED:
                self._right.popitem(last=False)
        return Identity(role, self.method)

    def _is_right(self, password: bytes, hashed: str | None) -> bool:
        """Return whether the password is right; as slow for a user that does not exist (None).

        So nobody learns which users exist: each attempt takes a hash of each kind in use.
        """
        right = hashed is not None and matches(password, hashed)
        is_des = hashed is not None and not _APR1.fullmatch(hashed)
        # promise: a user that does not exist is refused as slowly as others
        if hashed is None or is_des:
            matches(password, self._nobody)
        # promise: a user with an older hash is refused as fast as others
        if self._has_des and not is_des:
            matches(password, self._nobody_des)
        return right
