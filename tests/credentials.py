"""Credentials for tests: keys, tokens, users with passwords, and settings of brokers with them."""

import base64
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
from passlib.hash import apr_md5_crypt, des_crypt

SECRET = b"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
PASSWORD = "password-of-alice"
OTHER_PASSWORD = "secret-b"


def token(role: str | None, seconds: float | None = None, **claims: Any) -> str:
    """A token of `SECRET` for a role, which expires in so many seconds."""
    if role is not None:
        claims["sub"] = role
    if seconds is not None:
        claims["exp"] = int(time.time() + seconds)
    return jwt.encode(claims, SECRET, "HS256")


def in_setting(content: bytes) -> str:
    """Content as the value of a setting."""
    return f"data:;base64,{base64.b64encode(content).decode()}"


def password_file(folder: Path) -> Path:
    """Users `alice` and `bob`, with hashes of both kinds."""
    file = folder / "htpasswd"
    alice, bob = apr_md5_crypt.hash(PASSWORD), des_crypt.hash(OTHER_PASSWORD)
    file.write_text(f"alice:{alice}\nbob:{bob}\n")
    return file


def settings(folder: Path, **others: str) -> dict[str, str]:
    """Of a broker with the providers token and basic."""
    return {
        "authenticationEnabled": "true",
        "authenticationProviders": "token,basic",
        "tokenSecretKey": in_setting(SECRET),
        "basicAuthConf": str(password_file(folder)),
        **others,
    }


async def at_once(compare: Callable[[], bool]) -> bool:
    """Compares a password without a thread."""
    return compare()


def basic(user: str, password: str) -> str:
    """The value of the header `Authorization`."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
