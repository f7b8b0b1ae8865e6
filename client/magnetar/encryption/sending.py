"""The encryption of sent messages."""

import asyncio
import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import Closed, EncryptionFailed
from magnetar.clock import EVENT_LOOP, Clock
from magnetar.encryption.data_keys import DATA_KEY_BYTES, encrypt_data_key
from magnetar.encryption.keys import KeyReader
from magnetar_proto import PulsarApi_pb2 as pb

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

logger = logging.getLogger(__name__)

FAIL, SEND = "fail", "send"
ON_ENCRYPTION_FAILURE = (FAIL, SEND)
RENEWAL_S = 4 * 3600.0
"""The seconds for which a data key is used, as in other clients."""
RETRY_S = 60.0
"""The time after which a failed renewal is tried again."""
NONCE_BYTES = 12
TAG_BYTES = 16


class Encrypting:
    """Creates data keys for the named public keys, and encrypts payloads with them.

    While no public key is available, with `on_failure` send messages are sent unencrypted, and with
    fail `open` raises EncryptionFailed.  If a renewal fails, it is logged and the data key stays.
    """

    def __init__(
        self,
        topic: str,
        reader: KeyReader,
        names: Sequence[str],
        on_failure: str = FAIL,
        renewal_s: float = RENEWAL_S,
        clock: Clock = EVENT_LOOP,
    ) -> None:
        self._topic = topic
        self._reader = reader
        self._names = tuple(dict.fromkeys(names))
        self._on_failure = on_failure
        self._renewal_s = renewal_s
        self._clock = clock
        self._cipher: AESGCM | None = None
        self._keys: Sequence[pb.EncryptionKeys] = ()
        self._renewing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Create the first data key, and renew it until `close`."""
        is_made = await self._renew()
        self._renewing = asyncio.create_task(self._renew_on(is_made))

    async def close(self) -> None:
        """Create no more data keys; the last one stays usable."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)

    def forked(self, error: Closed) -> None:
        """Drop the task in a forked child: it is the parent's."""
        self._renewing = None

    async def _renew_on(self, is_made: bool) -> None:
        while True:
            await self._clock.sleep(self._renewal_s if is_made else RETRY_S)
            is_made = await self._renew()

    async def _renew(self) -> bool:
        """Create and use a new data key; tell whether that worked."""
        try:
            # In a thread: key readers may wait for files or other services.
            made = await asyncio.to_thread(self._make)
        except Exception as error:  # the application's key reader may raise anything
            failure = EncryptionFailed(
                f"{self._topic}: no data key can be made for {', '.join(self._names)}: "
                f"{type(error).__name__}: {error}"
            )
            # promise: without a public key nothing is sent unencrypted
            if self._cipher is None and self._on_failure == FAIL:
                raise failure from error
            what = "messages are sent unencrypted" if self._cipher is None else "the last one stays"
            logger.warning("%s; %s", failure, what)
            return False
        self._cipher, self._keys = made
        return True

    def _make(self) -> "tuple[AESGCM, list[pb.EncryptionKeys]]":
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

        data_key = os.urandom(DATA_KEY_BYTES)
        keys = []
        for name in self._names:
            public = self._reader.public_key(name)
            described = pb.EncryptionKeys(key=name, value=encrypt_data_key(data_key, public))
            for about, text in public.metadata.items():
                described.metadata.add(key=about, value=text)
            keys.append(described)
        return AESGCM(data_key), keys

    @property
    def overhead(self) -> int:
        """The number of bytes by which encryption makes a payload longer."""
        return TAG_BYTES if self._cipher is not None else 0

    def describe(self, metadata: pb.MessageMetadata) -> None:
        """Add the keys and a new nonce to the metadata."""
        if self._cipher is not None:
            if not metadata.encryption_keys:
                metadata.encryption_keys.extend(self._keys)
            # promise[os.urandom -> bytes]: each message has a nonce of its own
            metadata.encryption_param = os.urandom(NONCE_BYTES)

    def encrypt(self, metadata: pb.MessageMetadata, payload: bytes) -> bytes:
        """Encrypt the payload with the nonce in the metadata."""
        if self._cipher is None:
            return payload
        return self._cipher.encrypt(metadata.encryption_param, payload, None)


class Options(Protocol):
    """The options of a producer for encryption."""

    @property
    def encryption_keys(self) -> Sequence[str]: ...
    @property
    def key_reader(self) -> KeyReader | None: ...
    @property
    def on_encryption_failure(self) -> str: ...


async def opened_for(topic: str, options: Options, clock: Clock) -> Encrypting | None:
    """Create and open the encryption of a producer; None if it does not encrypt."""
    if options.key_reader is None:
        return None
    encrypting = Encrypting(
        topic,
        options.key_reader,
        options.encryption_keys,
        options.on_encryption_failure,
        clock=clock,
    )
    await encrypting.open()
    return encrypting
