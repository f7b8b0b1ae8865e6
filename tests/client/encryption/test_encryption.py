"""Data keys, key readers, and the encryption of payloads."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

import magnetar
from client.key_pairs import key_pair, key_reader
from fakes.client_clock import ManualClock
from fakes.waiting import until
from magnetar.consuming.options import Subscription
from magnetar.encryption.data_keys import decrypt_data_key, encrypt_data_key
from magnetar.encryption.receiving import MAX_TRIED, Decrypting
from magnetar.encryption.sending import RENEWAL_S, Encrypting
from magnetar.messages import Entry
from magnetar.producing.options import ProducerOptions
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import encode_entry

# What the Java client made of b"from java" with the public key of this one.
CURVE_KEY = """\
-----BEGIN EC PARAMETERS-----
BggqhkjOPQMBBw==
-----END EC PARAMETERS-----
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgKcOdoJ9KBrunmZeS
HV3uBF7eoLIJaei56JSveveY9pKhRANCAATDkLh3mABZEPmwr9SBG6ET+rIWO5b/
IjvGtkDPCFDoJeYOs4qZSzaOSvBfYzhCDcoj22la8E0ux5lQmBA7Qbcw
-----END PRIVATE KEY-----
"""
JAVA_METADATA = bytes.fromhex(
    "0a0170100118026a88010a016b127504208ab6bfe3ee981ee0465703cac69a93544c45228260dd4059fc26ff"
    "5368ae6ce52ae4bd7fc9c46a010b43f52f78fd7cee3f90892cda58f4914b3ff089cfd2b4aff0a179b4cc2e77"
    "1002680eff8bcdc1610e96cfc307c24752af936697bf28a4a1f25ca8d5cde9ed9968e2d704b964fd2272352f"
    "1a0c0a0776657273696f6e1201377a0ca9f329ab42c937bca010d195"
)
JAVA_PAYLOAD = bytes.fromhex("ccf7327c1b05c0058d65a6a6861b69be760be1a6aed9707e23")


def entry_of(metadata: pb.MessageMetadata, payload: bytes) -> Entry:
    return Entry("t", (1, 2, -1), encode_entry(metadata, payload))


def new_metadata() -> pb.MessageMetadata:
    return pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=2)


async def encrypted(
    payload: bytes, reader: magnetar.KeyReader, *names: str
) -> tuple[pb.MessageMetadata, bytes]:
    encrypting = Encrypting("t", reader, names)
    await encrypting.open()
    metadata = new_metadata()
    encrypting.describe(metadata)
    await encrypting.close()
    return metadata, encrypting.encrypt(metadata, payload)


async def test_a_data_key_that_the_java_client_encrypted_for_a_curve() -> None:
    found = []

    def find(name: str, metadata: Mapping[str, str]) -> str:
        found.append((name, dict(metadata)))
        return CURVE_KEY

    entry = entry_of(pb.MessageMetadata.FromString(JAVA_METADATA), JAVA_PAYLOAD)
    Decrypting(magnetar.KeyReader(private=find)).decrypt(entry)
    assert entry.body() == b"from java"
    assert found == [("k", {"version": "7"})]


@pytest.mark.parametrize("kind", ["rsa", "curve"])
async def test_what_is_encrypted_is_decrypted_with_one_of_its_keys(kind: str) -> None:
    reader = key_reader("old", "new", kind=kind)
    metadata, payload = await encrypted(b"secret", reader, "old", "new")
    assert b"secret" not in payload and len(payload) == 6 + 16
    for name in ("old", "new"):
        one = magnetar.KeyReader(private={name: key_pair(name, kind)[1]})
        entry = entry_of(metadata, payload)
        Decrypting(one).decrypt(entry)
        assert entry.body() == b"secret"
        assert not entry.is_encrypted


@pytest.mark.parametrize("kind", ["rsa", "curve"])
async def test_another_key_and_damage_are_told(kind: str) -> None:
    metadata, payload = await encrypted(b"secret", key_reader("a", kind=kind), "a")
    wrong = magnetar.KeyReader(private=key_pair("b", kind)[1])
    with pytest.raises(magnetar.DecryptionFailed, match="key 'a'"):
        Decrypting(wrong).decrypt(entry_of(metadata, payload))
    damaged = bytes([payload[0] ^ 1]) + payload[1:]
    with pytest.raises(magnetar.DecryptionFailed, match="is damaged"):
        Decrypting(key_reader("a", kind=kind)).decrypt(entry_of(metadata, damaged))
    with pytest.raises(magnetar.DecryptionFailed, match="this client has no keys"):
        Decrypting(None).decrypt(entry_of(metadata, payload))


def test_a_data_key_for_another_key_is_not_taken() -> None:
    for kind in ("rsa", "curve"):
        encrypted = encrypt_data_key(bytes(32), magnetar.Key(key_pair("a", kind)[0]))
        right, wrong = (magnetar.Key(key_pair(name, kind)[1]) for name in ("a", "b"))
        assert decrypt_data_key(encrypted, right) == bytes(32)
        with pytest.raises(ValueError):
            decrypt_data_key(encrypted, wrong)


@pytest.mark.parametrize("nonce", [b"", b"short", bytes(500)])
async def test_a_nonce_of_any_size_raises_nothing_else(nonce: bytes) -> None:
    metadata, payload = await encrypted(b"secret", key_reader("a"), "a")
    metadata.encryption_param = nonce
    with pytest.raises(magnetar.DecryptionFailed):
        Decrypting(key_reader("a")).decrypt(entry_of(metadata, payload))


async def test_an_entry_with_very_many_keys_does_not_hold_the_client() -> None:
    asked = []

    def find(name: str, metadata: Mapping[str, str]) -> bytes:
        asked.append(name)
        raise LookupError(name)

    metadata = new_metadata()
    for number in range(10 * MAX_TRIED):
        metadata.encryption_keys.add(key=str(number), value=b"v")
    with pytest.raises(magnetar.DecryptionFailed, match=f"first {MAX_TRIED} keys"):
        Decrypting(magnetar.KeyReader(private=find)).decrypt(entry_of(metadata, b"x"))
    assert len(asked) == MAX_TRIED


async def test_a_private_key_is_asked_for_once_for_each_data_key() -> None:
    asked = []

    def find(name: str, metadata: Mapping[str, str]) -> bytes:
        asked.append(name)
        return key_pair("a")[1]

    decrypting = Decrypting(magnetar.KeyReader(private=find))
    for _ in range(2):
        metadata, payload = await encrypted(b"secret", key_reader("a"), "a")
        for _ in range(3):
            decrypting.decrypt(entry_of(metadata, payload))
    assert asked == ["a", "a"]


def test_keys_come_from_files_texts_and_functions(tmp_path: Path) -> None:
    public, private = key_pair("a")
    path = tmp_path / "a.pem"
    path.write_bytes(public)
    for source in (
        path,
        str(path),
        f"file://{path}",
        public,
        public.decode(),
        magnetar.Key(public),
    ):
        key = magnetar.KeyReader(source).public_key("any")
        pem = key.pem.encode() if isinstance(key.pem, str) else key.pem
        assert pem == public
    by_name = magnetar.KeyReader(private={"a": private})
    assert by_name.private_key("a", {}).pem == private
    with pytest.raises(LookupError, match="there is no private key 'b'"):
        by_name.private_key("b", {})
    with pytest.raises(LookupError, match="there is no public key 'a'"):
        by_name.public_key("a")


async def test_the_data_key_is_renewed_and_never_its_nonce_used_twice(clock: ManualClock) -> None:
    encrypting = Encrypting("t", key_reader("a"), ["a"], clock=clock)

    def described() -> pb.MessageMetadata:
        metadata = new_metadata()
        encrypting.describe(metadata)
        return metadata

    await encrypting.open()
    first, second = described(), described()
    assert first.encryption_keys == second.encryption_keys
    assert first.encryption_param != second.encryption_param
    await asyncio.sleep(0)
    clock.advance(RENEWAL_S - 1)
    assert clock.pauses_s() == [1], "it is not renewed before"
    clock.advance(1)
    await until(lambda: described().encryption_keys != first.encryption_keys, "a new data key")
    await encrypting.close()


async def test_a_renewal_that_fails_leaves_the_last_data_key(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    public = [key_pair("a")[0]]
    reader = magnetar.KeyReader(lambda name, metadata: public.pop())
    encrypting = Encrypting("t", reader, ["a"], clock=clock)
    await encrypting.open()
    await asyncio.sleep(0)
    clock.advance(RENEWAL_S)
    await until(lambda: "the last one stays" in caplog.text, "the failure is logged")
    metadata = new_metadata()
    encrypting.describe(metadata)
    entry = entry_of(metadata, encrypting.encrypt(metadata, b"x"))
    Decrypting(key_reader("a")).decrypt(entry)
    assert entry.body() == b"x"
    await encrypting.close()


async def test_without_a_public_key_nothing_is_opened_unless_it_may_be_sent_anyway(
    caplog: pytest.LogCaptureFixture,
) -> None:
    nothing = magnetar.KeyReader({})
    with pytest.raises(magnetar.EncryptionFailed, match="there is no public key 'a'"):
        await Encrypting("t", nothing, ["a"]).open()
    encrypting = Encrypting("t", nothing, ["a"], "send")
    await encrypting.open()
    metadata = new_metadata()
    encrypting.describe(metadata)
    assert encrypting.encrypt(metadata, b"plain") == b"plain"
    assert not metadata.encryption_keys
    assert "messages are sent unencrypted" in caplog.text
    await encrypting.close()
    assert len(asyncio.all_tasks()) == 1


def test_options_that_are_not_possible() -> None:
    for options, what in (
        ({"encryption_keys": ["a"]}, "needs both encryption_keys"),
        ({"key_reader": magnetar.KeyReader()}, "needs both encryption_keys"),
        ({"encryption_keys": "a", "key_reader": magnetar.KeyReader()}, "a list of names"),
        ({"on_encryption_failure": "ignore"}, "'ignore' is unknown; known are fail, send"),
    ):
        with pytest.raises(ValueError, match=what):
            ProducerOptions(**options)
    with pytest.raises(ValueError, match="'skip' is unknown; known are fail, discard, consume"):
        Subscription("s", on_undecryptable="skip")
