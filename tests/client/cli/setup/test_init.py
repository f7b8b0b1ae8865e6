"""`magnetar init --secure`, word for word as a person follows what it prints."""

import asyncio
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest
from click.testing import CliRunner

import magnetar
from magnetar.cli import main
from running_broker import HTTP
from secure_setup import TIMEOUT_S, Prepared, run


@pytest.fixture(scope="module", params=[1, 3], ids=["one worker", "three workers"])
def prepared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prepared]:
    # The directory's name has a space: what is printed can be copied all the same.
    made = Prepared(tmp_path_factory.mktemp("of a user") / "secure", request.param)
    yield made
    made.end()


def test_what_is_printed_works_word_for_word(prepared: Prepared) -> None:
    assert HTTP.search(prepared.banner) is not None, prepared.banner
    assert "  access      with authentication: token, tls\n" in prepared.banner
    tenants, grant = prepared.lines("magnetar admin")
    assert "public" in run(tenants).stdout
    (publish,) = prepared.lines("magnetar produce")
    run(tenants.replace("tenants list", "namespaces create public/closed"))
    refused = run(publish.replace("my-topic", "public/closed/my-topic"), 1)
    assert "AuthorizationError" in refused.stderr
    run(grant)
    run(publish)
    (receive,) = prepared.lines("magnetar consume")
    assert run(receive).stdout.endswith(" hello\n")


def test_the_official_python_client_connects(prepared: Prepared) -> None:
    run(prepared.lines("magnetar admin")[1])
    names: dict[str, Any] = {}
    exec(prepared.program("Python, official (pulsar-client)"), names)
    client = names["client"]
    topic = "persistent://public/default/of-the-official-client"
    consumer = client.subscribe(topic, "s")
    client.create_producer(topic).send(b"here")
    assert consumer.receive(TIMEOUT_S * 1000).data() == b"here"
    client.close()


async def test_our_client_connects(prepared: Prepared) -> None:
    await asyncio.to_thread(run, prepared.lines("magnetar admin")[1])
    names: dict[str, Any] = {}
    exec(prepared.program("Python, asyncio (magnetar)"), names)
    client: magnetar.Client = names["client"]
    topic = "persistent://public/default/of-our-client"
    async with client:
        consumer = await client.subscribe(topic, "s")
        await (await client.producer(topic)).send(b"here")
        assert (await consumer.receive(timeout_s=TIMEOUT_S)).value == b"here"


def test_further_roles_are_made_as_printed(prepared: Prepared) -> None:
    create, more = prepared.lines("magnetar tokens")[0], prepared.lines("magnetar certs")[0]
    admin = prepared.lines("magnetar admin")[0]
    of_admin = run(create.replace("ROLE", "admin")).stdout.strip()
    assert "public" in run(admin, MAGNETAR_AUTH_PARAMS=f"token:{of_admin}").stdout
    of_nobody = run(create.replace("ROLE", "nobody")).stdout.strip()
    assert "HTTP 40" in run(admin, 1, MAGNETAR_AUTH_PARAMS=f"token:{of_nobody}").stderr
    wrong = run(admin, 1, MAGNETAR_AUTH_PARAMS=f"token:{of_admin[:-4]}AAAA")
    assert "HTTP 401" in wrong.stderr and of_admin[:20] not in wrong.stderr
    if not (prepared.directory / "certs" / "operator.cert.pem").exists():
        run(more.replace("ROLE", "operator"))
    certs = prepared.directory / "certs"
    for role, code in (("admin", 0), ("operator", 1)):
        run(
            f"{admin} --json", code,
            MAGNETAR_AUTH_PLUGIN="tls",
            MAGNETAR_AUTH_PARAMS=(
                f"tlsCertFile:{certs}/{role}.cert.pem,tlsKeyFile:{certs}/{role}.key.pem"
            ),
        )  # fmt: skip


def test_who_shows_nothing_is_refused(prepared: Prepared) -> None:
    trust = str(prepared.directory / "certs" / "ca.cert.pem")
    url = next(iter(prepared.lines('"pulsar+ssl://'))).strip('",')
    client = pulsar.Client(
        url, tls_trust_certs_file_path=trust, tls_validate_hostname=True,
        operation_timeout_seconds=2,
    )  # fmt: skip
    with pytest.raises(pulsar.PulsarException):
        client.create_producer("persistent://public/default/t")
    client.close()


def test_files_are_for_their_owner_and_nothing_is_overwritten(tmp_path: Path) -> None:
    runner, directory = CliRunner(), tmp_path / "new"
    assert runner.invoke(main, ["init", str(directory)]).exit_code == 2
    result = runner.invoke(main, ["init", "--secure", "--host", "broker.example", str(directory)])
    assert result.exit_code == 0, result.output
    secret = [path for path in directory.rglob("*") if path.is_file()]
    for path in secret:
        is_public = path.name.endswith((".cert.pem", "public.key"))
        assert stat.S_IMODE(path.stat().st_mode) == (0o644 if is_public else 0o600), path
    conf = (directory / "broker.conf").read_text()
    assert "bindAddress=0.0.0.0\nadvertisedAddress=broker.example\n" in conf
    assert "pulsar+ssl://broker.example:6651" in result.output
    for path in directory.rglob("*.token"):
        assert path.read_text() not in result.output
    before = {path: path.read_bytes() for path in secret}
    again = runner.invoke(main, ["init", "--secure", str(directory)])
    assert (again.exit_code, "is not empty" in again.output) == (1, True)
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("name", ["a,b", "a%20b"])
def test_a_name_that_no_configuration_can_have(name: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["init", "--secure", str(tmp_path / name)])
    assert (result.exit_code, "use a simpler name" in result.output) == (1, True)
    assert not (tmp_path / name).exists()
