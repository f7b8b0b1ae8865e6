"""The decryption of received entries."""

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from magnetar.base.errors import DecryptionFailed
from magnetar.base.unreadable import CONSUME, FAIL
from magnetar.clock import EVENT_LOOP, Clock
from magnetar.encryption.data_keys import decrypt_data_key
from magnetar.encryption.keys import KeyReader
from magnetar.messages import Entry
from magnetar_proto import PulsarApi_pb2 as pb

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MAX_DATA_KEYS = 1000
"""The number of data keys that are remembered."""
REMEMBERED_S = 4 * 3600.0
"""The seconds for which a decrypted data key is remembered."""
MAX_TRIED = 100
"""The most keys of one entry that are tried; each may cost a private-key operation."""


class Decrypting:
    """Decrypts entries with the private keys of a key reader; None: without keys.

    `on_failure` is the option on_undecryptable; `left_out` is called if it is fail.
    """

    def __init__(
        self,
        reader: KeyReader | None,
        on_failure: str = FAIL,
        left_out: Callable[[Entry], None] | None = None,
        clock: Clock = EVENT_LOOP,
    ) -> None:
        self._reader = reader
        self._on_failure = on_failure
        self._left_out = left_out
        self._clock = clock
        # The time at which each data key was decrypted, and its cipher, by the encrypted data key.
        self._known: OrderedDict[bytes, tuple[float, AESGCM]] = OrderedDict()

    def admit(self, entry: Entry) -> None:
        """Decrypt an entry, or with `consume` accept it as it is; else raise DecryptionFailed."""
        try:
            self.decrypt(entry)
        except DecryptionFailed:
            if self._on_failure == CONSUME:
                entry.take_encrypted()
                return
            if self._on_failure == FAIL and self._left_out is not None:
                self._left_out(entry)
            raise

    def decrypt(self, entry: Entry) -> None:
        """Decrypt an entry in place; DecryptionFailed gives the reason if that is not possible."""
        if self._reader is None:
            raise entry.undecryptable("this client has no keys")
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415

        payload, nonce = entry.payload(), entry.metadata.encryption_param
        why = ""
        for index, key in enumerate(entry.metadata.encryption_keys):
            if index == MAX_TRIED:
                why += f"; only the first {MAX_TRIED} keys were tried"
                break
            try:
                entry.decrypted(self._cipher(self._reader, key).decrypt(nonce, payload, None))
                return
            except InvalidTag:
                why = f"it is damaged, or its data key {key.key!r} is another one"
            except Exception as error:  # the application's key reader may raise anything
                why = f"key {key.key!r}: {error or type(error).__name__}"
        raise entry.undecryptable(why)

    def _cipher(self, reader: KeyReader, key: pb.EncryptionKeys) -> "AESGCM":
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

        now_s = self._clock.now_s()
        known = self._known.get(key.value)
        if known is not None and now_s - known[0] < REMEMBERED_S:
            return known[1]
        metadata = {pair.key: pair.value for pair in key.metadata}
        cipher = AESGCM(decrypt_data_key(key.value, reader.private_key(key.key, metadata)))
        self._known.pop(key.value, None)
        while len(self._known) >= MAX_DATA_KEYS:
            self._known.popitem(last=False)
        self._known[key.value] = (now_s, cipher)
        return cipher
