"""Links between machines over real sockets: made, refused, limited, lost and made again."""

import asyncio
import logging
import shutil
import socket
import ssl
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from broker.server.cluster.machines import Machine, greeting
from certificates import Authority, Files
from fakes.loops import on_both_loops
from fakes.waiting import HANGS_SECONDS, until
from magnetar_broker.config.load import ConfigError
from magnetar_broker.ipc.frames import encode
from magnetar_broker.ipc.handshake import Handshake
from magnetar_broker.ipc.keep_alive import INTERVAL_SECONDS, SILENCES
from magnetar_broker.ipc.link import Link
from magnetar_broker.ipc.successive import SuccessiveLinks
from magnetar_broker.server.cluster import link_listener
from magnetar_broker.server.cluster.link_connection import (
    HANDSHAKE_SECONDS,
    LinkConnection,
    LinkRefused,
)
from magnetar_broker.server.cluster.link_security import LinkSecurity

LATER = 5.0
"""Seconds after which every pause between attempts is over."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("other"), "other")


def security(authority: Authority, files: Files | None = None, *names: str) -> LinkSecurity:
    files = files or authority.peer("127.0.0.1")
    return LinkSecurity(files.certificate, files.key, authority.trust, frozenset(names))


async def present(links: SuccessiveLinks) -> Link:
    await until(lambda: links.latest is not None and not links.latest.has_ended, "there is a link")
    assert links.latest is not None
    return links.latest


async def refused(
    left: Machine, right: Machine, texts: list[str], log: pytest.LogCaptureFixture
) -> None:
    """Connect `left` to `right`; there must be no link, and the log must have these texts."""
    async with right.listening() as port, left.connecting("b2", port) as links:
        for text in texts:
            await until(lambda text=text: text in log.text, text)  # type: ignore[misc]
        assert links.latest is None


# Links -------------------------------------------------------------------------------


@pytest.mark.parametrize("uses_tls", [True, False])
@on_both_loops
async def test_both_sides_ask_and_know_each_other(uses_tls: bool, authority: Authority) -> None:
    secured = security(authority) if uses_tls else LinkSecurity()
    left, right = Machine(greeting("b1"), secured), Machine(greeting("b2"), secured)
    async with right.listening() as port, left.connecting("b2", port) as links:
        there = await present(links)
        assert await there.request("add", 1, 2) == 3
        ((peer, here),) = right.made
        assert peer == left.side.own and left.made[0][0] == right.side.own
        assert await asyncio.gather(*(here.request("add", n, 1) for n in range(500))) == list(
            range(1, 501)
        )
        assert await there.request("add", bytes(3 << 20), b"!") == bytes(3 << 20) + b"!"


@on_both_loops
async def test_a_link_that_was_lost_is_made_again() -> None:
    left, right = Machine(greeting("b1")), Machine(greeting("b2"))
    async with right.listening() as port, left.connecting("b2", port) as links:
        for number in range(1, 4):
            link = await present(links)
            assert await link.request("add", number, 1) == number + 1
            right.made[-1][1].close()
            await link.ended()
            await until(lambda: left.clock.waiting, "the connector pauses")
            left.clock.advance(LATER)
        await present(links)
        assert len(right.made) == 4


@on_both_loops
async def test_a_link_is_made_when_the_other_side_is_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    left, right = Machine(greeting("b1")), Machine(greeting("b2"))
    async with right.listening() as port:
        pass
    async with left.connecting("b2", port) as links:
        for _ in range(3):
            await until(lambda: left.clock.waiting, "the connector pauses")
            left.clock.advance(LATER)
        assert f"no link to broker b2 at 127.0.0.1:{port}: " in caplog.text
        async with right.listening(port=port):
            while links.latest is None:
                left.clock.advance(LATER)
                await asyncio.sleep(0.001)
            assert await (await present(links)).request("add", 1, 1) == 2


# Refusals ----------------------------------------------------------------------------


@on_both_loops
async def test_another_cluster_is_refused_at_both_ends(caplog: pytest.LogCaptureFixture) -> None:
    left, right = Machine(greeting("b1", "c-1")), Machine(greeting("b2", "c-2"))
    why = (
        "worker-0 of broker b1 (version 0.1.0) belongs to cluster c-1, and worker-0 of broker b2 "
        "(version 0.1.0) belongs to cluster c-2: all brokers of a cluster use the same metadata "
        "store"
    )
    texts = [f": {why}; trying again", f"no link to a broker at 127.0.0.1: {why}\n"]
    await refused(left, right, texts, caplog)
    assert not left.made and not right.made


@on_both_loops
async def test_another_level_is_refused_at_both_ends(caplog: pytest.LogCaptureFixture) -> None:
    left, right = Machine(greeting("b1", level=3)), Machine(greeting("b2", level=1))
    why = "has feature levels 3 to 3, and worker-0 of broker b2"
    await refused(left, right, [f"127.0.0.1: {left.side.own} {why}"], caplog)
    assert caplog.text.count(why) == 2


@on_both_loops
async def test_the_wrong_broker_at_an_address_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    left, right = Machine(greeting("b1")), Machine(greeting("b3"))
    why = f"{right.side.own} answers at the address of broker b2"
    await refused(left, right, [f": {why}; trying", f"{left.side.own} refuses it: {why}"], caplog)


@on_both_loops
async def test_certificates_of_another_authority_are_refused(
    authority: Authority, other: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    mine, theirs = security(authority), security(other)
    await refused(
        Machine(greeting("b1"), mine), Machine(greeting("b2"), theirs),
        ["broker b2 at 127.0.0.1:", ": its certificate is not accepted: "],
        caplog,
    )  # fmt: skip
    trusting = replace(theirs, trust=authority.trust)
    await refused(
        Machine(greeting("b1"), trusting), Machine(greeting("b2"), mine),
        ["no link to a broker at 127.0.0.1: its certificate is not accepted"], caplog,
    )  # fmt: skip


@on_both_loops
async def test_a_certificate_of_a_client_or_of_another_host_is_refused(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    mine = security(authority)
    await refused(
        Machine(greeting("b1"), mine),
        Machine(greeting("b2"), security(authority, authority.peer("elsewhere.example"))),
        ["its certificate is not accepted: IP address mismatch"], caplog,
    )  # fmt: skip
    await refused(
        Machine(greeting("b1"), security(authority, authority.server("127.0.0.1"))),
        Machine(greeting("b2"), mine),
        ["no link to a broker at 127.0.0.1: its certificate is not accepted: un"], caplog,
    )  # fmt: skip


@on_both_loops
async def test_certificates_without_an_expected_name_are_refused(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    named = security(authority, authority.peer("127.0.0.1", "broker.example"), "broker.example")
    unnamed = security(authority)
    why = "its certificate is of 127.0.0.1: expected broker.example"
    await refused(
        Machine(greeting("b1"), unnamed), Machine(greeting("b2"), named),
        [f"no link to a broker at 127.0.0.1: {why}", f"refuses it: {why}; trying"], caplog,
    )  # fmt: skip
    left, right = Machine(greeting("b1"), named), Machine(greeting("b2"), named)
    async with right.listening() as port, left.connecting("b2", port) as links:
        await present(links)


@on_both_loops
async def test_a_side_without_a_certificate_is_refused(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    right = Machine(greeting("b2"), security(authority))
    async with right.listening() as port:
        context = ssl.create_default_context(cafile=authority.trust)
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(encode(("magnetar-link", {})))
        with pytest.raises((ssl.SSLError, ConnectionError)):
            while await reader.read(1000):
                raise AssertionError("it is not greeted")
            raise ConnectionResetError
        writer.close()
        await until(lambda: "a side without a certificate gets no link" in caplog.text, "refused")


@pytest.mark.parametrize("who", ["left", "right"])
@on_both_loops
async def test_tls_on_one_side_only_is_refused(
    who: str, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    sides = {"left": LinkSecurity(), "right": LinkSecurity(), who: security(authority)}
    left, right = (Machine(greeting(f"b{n}"), sides[s]) for n, s in ((1, "left"), (2, "right")))
    text = "no link to broker b2" if who == "left" else "no link to a broker at"
    async with right.listening() as port, left.connecting("b2", port) as links:
        await until(lambda: text in caplog.text, text)
        assert links.latest is None
        if who == "right":
            assert "only one of the two sides uses TLS" in caplog.text


@on_both_loops
async def test_a_process_that_is_no_broker_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    right = Machine(greeting("b2"))
    async with right.listening() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        await ended(reader)
        writer.close()
        await until(lambda: "it does not greet as a broker does" in caplog.text, "refused")
    assert not right.made


# Without TLS -------------------------------------------------------------------------


@on_both_loops
async def test_links_without_tls_stay_on_the_machine() -> None:
    with pytest.raises(ConfigError, match=r"cannot be accepted at 0\.0\.0\.0: a link to another"):
        async with Machine(greeting("b2")).listening("0.0.0.0"):
            pass
    allowed = LinkSecurity(allows_plaintext=True)
    left, right = Machine(greeting("b1")), Machine(greeting("b2"), allowed)
    async with right.listening("0.0.0.0") as port, left.connecting("b2", port) as links:
        await present(links)


@pytest.mark.parametrize(
    ("host", "allowed"),
    [("127.0.0.1", True), ("::1", True), ("10.0.0.1", False), ("fe80::1%eth0", False),
     ("0.0.0.0", False), ("::", False)],
)  # fmt: skip
def test_addresses_of_links_without_tls(host: str, allowed: bool) -> None:
    assert (LinkSecurity().why_not(host) == "") is allowed
    assert LinkSecurity(allows_plaintext=True).why_not(host) == ""


class Wire(asyncio.Transport):
    """The transport of a connection from another machine, without TLS."""

    def __init__(self) -> None:
        super().__init__({"peername": ("10.0.0.1", 5000)})
        self.written = b""
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True


@on_both_loops
async def test_a_machine_without_tls_is_told_nothing_and_gets_no_link() -> None:
    machine, wire = Machine(greeting("b1")), Wire()
    connection = LinkConnection(machine.side)
    connection.connection_made(wire)
    with pytest.raises(LinkRefused, match="a link to another machine needs TLS"):
        await connection.link
    peer = greeting("b2")
    connection.data_received(encode(("magnetar-link", asdict(peer))) + encode(("",)))
    assert wire.closed and not wire.written and not machine.made


# Files -------------------------------------------------------------------------------


def test_files_that_cannot_be_used_are_named(authority: Authority, tmp_path: Path) -> None:
    good = security(authority)
    good.check()
    LinkSecurity().check()
    for changed, text in (
        ({"certificate": str(tmp_path / "none")}, "none and its key"),
        ({"key": security(authority).key}, "key values mismatch"),
        ({"trust": str(tmp_path / "none")}, "No such file"),
        ({"trust": good.key}, "no certificate or crl found"),
        ({"trust": None}, "cannot use None"),
    ):
        with pytest.raises(ConfigError, match=text):
            replace(good, **changed).check()


@on_both_loops
async def test_replaced_files_are_used_for_new_links(authority: Authority, tmp_path: Path) -> None:
    files = Files(str(tmp_path / "own.pem"), str(tmp_path / "own.key.pem"))
    serials = []
    left = Machine(greeting("b1"), security(authority))
    right = Machine(greeting("b2"), replace(security(authority, files)))
    context = security(authority).connecting()
    for _ in range(2):
        for now, path in zip(authority.peer("127.0.0.1"), files, strict=True):
            shutil.copy(now, path)
        async with right.listening() as port:
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            serials.append(writer.get_extra_info("peercert")["serialNumber"])
            writer.close()
    assert len(set(serials)) == 2 and not left.made


# Limits and losses -------------------------------------------------------------------


@pytest.mark.parametrize("uses_tls", [True, False])
@on_both_loops
async def test_a_peer_that_says_nothing_is_given_up(
    uses_tls: bool, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    right = Machine(greeting("b2"), security(authority) if uses_tls else LinkSecurity())
    async with right.listening() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await until(lambda: right.clock.waiting, "it was accepted")
        right.clock.advance(HANDSHAKE_SECONDS - 1)
        assert not caplog.text
        right.clock.advance(1)
        await ended(reader)
        writer.close()
        await until(lambda: "not completed its handshake within 10 s" in caplog.text, "given up")


async def ended(reader: asyncio.StreamReader) -> None:
    """Wait for the end of a stream, whatever comes before."""
    with suppress(ConnectionError):
        async with asyncio.timeout(HANGS_SECONDS):
            await reader.read()


@on_both_loops
async def test_connections_that_are_no_links_have_a_limit(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(link_listener, "HANDSHAKES", 2)
    left, right = Machine(greeting("b1")), Machine(greeting("b2"))
    async with right.listening() as port:
        streams = []
        for number in (1, 2):
            streams.append(await asyncio.open_connection("127.0.0.1", port))
            await until(lambda number=number: right.clock.waiting == number, "accepted")  # type: ignore[misc]
        async with left.connecting("b2", port) as links:
            await present(links)
            await ended(streams[0][0])
            assert "more than 2 connections have not become links" in caplog.text
            assert not streams[1][0].at_eof()
        for _, writer in streams:
            writer.close()


@on_both_loops
async def test_the_stop_ends_handshakes_and_keeps_links() -> None:
    left, right = Machine(greeting("b1")), Machine(greeting("b2"))
    listening = right.listening()
    port = await listening.__aenter__()
    async with left.connecting("b2", port) as links:
        link = await present(links)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await until(lambda: right.clock.waiting > 1, "it was accepted")
        right.close = lambda: None  # type: ignore[method-assign]
        await listening.__aexit__(None, None, None)
        await ended(reader)
        writer.close()
        assert await link.request("add", 1, 2) == 3


@on_both_loops
async def test_a_machine_that_vanishes_is_noticed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    right = Machine(greeting("b2"))
    async with right.listening() as port:
        with socket.create_connection(("127.0.0.1", port)) as peer:
            peer.setblocking(False)
            reader, writer = await asyncio.open_connection(sock=peer)
            handshake = Handshake(greeting("b1"), writer.write, lambda _: "")
            handshake.begin()
            while not handshake.is_over:
                handshake.receive(await reader.read(1000))
            await until(lambda: right.made, "there is a link")
            ((_, link),) = right.made
            right.clock.advance(SILENCES * INTERVAL_SECONDS)
            assert not link.has_ended
            right.clock.advance(INTERVAL_SECONDS)
            await until(lambda: link.has_ended, "the link has ended")
            await ended(reader)
            writer.close()
