"""Calls of etcd over its JSON gateway: several endpoints, authentication, errors.

The gateway is part of etcd (3.4 and later) and on its client port.  Libraries for its gRPC port
need grpcio, whose threads a process must not have before it forks, and know one endpoint only.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

from magnetar_broker.server.metadata_stores.access import MetadataAccess
from magnetar_broker.server.metadata_stores.etcd_errors import (
    TURNING_AWAY,
    UNAUTHENTICATED,
    GatewayError,
    NotEtcd,
    decoded,
    error_in,
    explained,
)
from magnetar_broker.server.metadata_stores.etcd_http import Answer, HttpPool, NoAnswer
from magnetar_broker.server.metadata_stores.urls import EtcdPlace, MetadataRefused
from magnetar_storage.errors import Unavailable

NOT_ETCD: Final = (
    "the answer is not one of etcd's gateway: check the address and whether it begins with"
    " https://, and that etcd was not started with --enable-grpc-gateway=false"
)
AUTHENTICATE: Final = "/v3/auth/authenticate"


class Gateway:
    """The calls; every one may raise the errors of `etcd_errors.explained`.

    One endpoint is used until it fails, then the next one.
    """

    def __init__(self, place: EtcdPlace, access: MetadataAccess) -> None:
        """Prepare the calls; `MetadataRefused` if a file of the settings cannot be used."""
        self._place = place
        self._access = access
        context = tls_context(access) if any(one.is_tls for one in place.endpoints) else None
        self._pools = [
            HttpPool(one, context if one.is_tls else None, access.connect_seconds)
            for one in place.endpoints
        ]
        self._token: str | None = None

    async def call(self, path: str, message: dict[str, Any]) -> dict[str, Any]:
        """Make a call that has one answer; a stream's first one counts."""
        try:
            return await self._authenticated(path, message)
        except GatewayError as error:
            raise explained(error, f"{self._place.text} refused a request") from None

    async def stream(self, path: str, message: dict[str, Any]) -> AsyncGenerator[dict[str, Any]]:
        """Make a call with answers without an end; returns when the server ends them."""
        if self._access.user and not self._token:
            await self._log_in()
        pool = self._pools[0]
        status, line = 0, b""
        try:
            async with aclosing(
                pool.stream(path, self._headers(), json.dumps(message).encode())
            ) as pieces:
                async for status, piece in pieces:
                    *lines, line = (line + piece).split(b"\n")
                    for one in filter(bytes.strip, lines):
                        yield self._result(Answer(status, one))
            if line.strip():
                yield self._result(Answer(status, line))
        except NoAnswer as error:
            self._turn(pool)
            raise Unavailable(_failure(pool, error)) from None
        except NotEtcd:
            raise Unavailable(f"{pool.endpoint}: {NOT_ETCD}") from None
        except GatewayError as error:
            if error.code == UNAUTHENTICATED:
                self._token = None
            self._turn(pool)
            raise explained(error, f"{pool.endpoint} ended a stream") from None

    def close(self) -> None:
        """Close all connections."""
        for pool in self._pools:
            pool.abort()

    async def _authenticated(self, path: str, message: dict[str, Any]) -> dict[str, Any]:
        if not self._access.user:
            return await self._call(path, message)
        if not self._token:
            await self._log_in()
        try:
            return await self._call(path, message)
        except GatewayError as error:
            # The token has expired, or the server that issued it has restarted; nothing was done.
            if error.code != UNAUTHENTICATED and "invalid auth token" not in str(error):
                raise
        await self._log_in()
        return await self._call(path, message)

    async def _log_in(self) -> None:
        try:
            credentials = {
                "name": self._access.user,
                "password": self._access.current_password(),
            }
            self._token = None
            answer = await self._call(AUTHENTICATE, credentials)
        except MetadataRefused as error:
            raise Unavailable(str(error)) from None
        except GatewayError as error:
            what = f"{self._place.text} refused user {self._access.user}"
            raise explained(error, what) from None
        self._token = str(answer.get("token", ""))

    async def _call(self, path: str, message: dict[str, Any]) -> dict[str, Any]:
        """Make a call at the first endpoint that can be reached."""
        body = json.dumps(message).encode()
        reasons: list[str] = []
        for _ in self._pools:
            pool = self._pools[0]
            try:
                async with asyncio.timeout(self._access.request_seconds):
                    answer = await pool.request(path, self._headers(), body)
                return self._result(answer)
            except TimeoutError:
                self._turn(pool)
                raise Unavailable(
                    f"{pool.endpoint}: no answer within {self._access.request_seconds:g} seconds"
                ) from None
            except GatewayError as error:
                if error.code in TURNING_AWAY:
                    self._turn(pool)
                raise
            except NotEtcd:
                raise Unavailable(f"{pool.endpoint}: {NOT_ETCD}") from None
            except NoAnswer as error:
                self._turn(pool)
                # promise[error.was_sent -> False]: a call that may have taken place is not repeated
                if error.was_sent:
                    raise Unavailable(_failure(pool, error)) from None
                reasons.append(_failure(pool, error))
        raise Unavailable("etcd cannot be reached: " + "; ".join(reasons))

    def _result(self, answer: Answer) -> dict[str, Any]:
        """Return the object of an answer, or of one part of a stream."""
        # The answer to a call of a stream may have several lines: the first one counts.
        found = decoded(answer.body.strip().split(b"\n")[0] or b"{}")
        if answer.status != 200 or "error" in found:
            raise error_in(found)
        result: dict[str, Any] = found.get("result", found)
        return result

    def _headers(self) -> dict[str, str]:
        # A member without a leader ends its streams rather than to be silent.
        headers = {"content-type": "application/json", "grpc-metadata-hasleader": "true"}
        return headers | ({"authorization": self._token} if self._token else {})

    def _turn(self, pool: HttpPool) -> None:
        """Use the next endpoint; streams of the failed one end, and begin again elsewhere."""
        if pool is self._pools[0]:
            self._pools = [*self._pools[1:], pool]
            pool.abort()


def _failure(pool: HttpPool, error: NoAnswer) -> str:
    hint = "" if pool.endpoint.is_tls else " (if etcd uses TLS, begin its address with https://)"
    return f"{pool.endpoint}: {error}{hint if error.was_sent else ''}"


def tls_context(access: MetadataAccess) -> ssl.SSLContext:
    """Return the TLS settings of a client; `MetadataRefused` if a file cannot be used."""
    file = access.trusted_certificates_file
    try:
        context = ssl.create_default_context(cafile=file or None)
        if access.certificate_file:
            file = access.certificate_file
            # Without a password: asking for one on the terminal would wait for ever.
            context.load_cert_chain(file, access.key_file or None, password=lambda: "")
    except OSError as error:
        reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
        raise MetadataRefused(
            f"cannot use {file} for TLS with the metadata store: {reason}"
        ) from None
    return context
