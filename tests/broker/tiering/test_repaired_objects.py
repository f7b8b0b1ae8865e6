"""`magnetar repair` lists ledgers again that are only in a store of objects."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pulsar
import pytest
from click.testing import CliRunner, Result

import object_servers
from magnetar_broker.cli import verify
from magnetar_broker.commands.repair import repair
from official import connect, take, texts
from running_broker import RunningBroker
from tiered_broker import (
    LEDGER_ENTRIES,
    at_once,
    await_moved,
    objects_in,
    on_request,
    publish,
    read_all,
)

Make = Callable[..., RunningBroker]

EARLIEST = pulsar.InitialPosition.Earliest
ALL = [f"m{number}" for number in range(4 * LEDGER_ENTRIES + 20)]
MORE = [f"n{number}" for number in range(2 * LEDGER_ENTRIES + 20)]
ACKED = LEDGER_ENTRIES + 7
TOPIC = "persistent://public/default/moved"


@pytest.fixture
def prefix() -> str:
    """Return a prefix of the bucket that no other test has used: moto keeps its objects."""
    return uuid4().hex


@pytest.fixture
def endpoint() -> Iterator[str]:
    with object_servers.moto() as endpoint:
        yield endpoint


def configured(broker: RunningBroker, endpoint: str, prefix: str) -> str:
    """Write a configuration file with the store of objects; return its path."""
    path = broker.data_dir.parent / "repair.conf"
    lines = (f"{name}={value}\n" for name, value in on_request(endpoint, prefix).items())
    path.write_text("".join(lines))
    return str(path)


def run(broker: RunningBroker, *options: str) -> Result:
    arguments = [str(broker.data_dir), *options]
    result = CliRunner().invoke(repair, arguments, catch_exceptions=False)
    assert isinstance(result, Result)
    return result


def lose_metadata(broker: RunningBroker) -> None:
    """Stop the broker, and delete its metadata."""
    broker.stop()
    found = list(broker.data_dir.glob("metadata.d*"))
    assert found
    for path in found:
        path.unlink()


def files(directory: Path) -> dict[Path, bytes]:
    paths = (path for path in directory.rglob("*") if path.is_file() and path.name != "LOCK")
    return {path: path.read_bytes() for path in paths}


@pytest.mark.parametrize("workers", ["1", "3"])
def test_everything_is_read_again_after_the_loss_of_the_metadata(
    make_broker: Make, endpoint: str, prefix: str, workers: str
) -> None:
    broker = make_broker(magnetarWorkers=workers, **at_once(endpoint, prefix))
    with_conf = ("--conf", configured(broker, endpoint, prefix))
    client = connect(broker.service_url)
    consumer = client.subscribe(TOPIC, "sub", initial_position=EARLIEST)
    publish(client, TOPIC, ALL)
    first = take(consumer, ACKED)
    consumer.acknowledge_cumulative(first[-1])
    consumer.close()
    moved = await_moved(broker, TOPIC)
    client.close()
    objects = objects_in(endpoint, prefix)
    number = len(moved)
    assert len(objects) == number >= 2
    lose_metadata(broker)

    was = files(broker.data_dir)
    without = run(broker)
    assert without.exit_code == 1 and "No store of objects was asked" in without.output
    dry = run(broker, *with_conf)
    assert (
        dry.exit_code == 1
        and f"{number} ledgers found in stores of objects, {number} of" in dry.output
    )
    assert files(broker.data_dir) == was, "nothing is changed without --apply"
    done = run(broker, "--apply", *with_conf)
    assert done.exit_code == 0 and "no damage" in done.output, done.output
    assert f"{number} segments that are only in a store of objects checked there" in done.output
    assert objects_in(endpoint, prefix) == objects
    checked = CliRunner().invoke(verify, [str(broker.data_dir), "--objects=all", *with_conf])
    assert checked.exit_code == 0 and "no damage" in checked.output, checked.output

    broker.start()
    client = connect(broker.service_url)
    assert read_all(client, TOPIC) == ALL
    consumer = client.subscribe(TOPIC, "sub")
    assert texts(take(consumer, len(ALL) - ACKED)) == ALL[ACKED:]
    consumer.close()
    publish(client, TOPIC, MORE)
    assert set(moved) < set(await_moved(broker, TOPIC))
    client.close()
    assert set(objects) < set(objects_in(endpoint, prefix)), "what was found again stays"
    lose_metadata(broker)

    short = run(broker, *with_conf)
    named = re.search(r"--prefix (\w+) ", short.output)
    assert named is not None and "have the prefix" in short.output, short.output
    again = run(broker, "--apply", "--prefix", named[1], *with_conf)
    assert again.exit_code == 0 and "no damage" in again.output, again.output
    broker.start()
    client = connect(broker.service_url)
    assert read_all(client, TOPIC) == ALL + MORE
    client.close()


def test_a_store_that_is_away_is_an_error_and_nothing_is_changed(
    make_broker: Make, endpoint: str, prefix: str
) -> None:
    broker = make_broker(**at_once(endpoint, prefix))
    with_conf = ("--conf", configured(broker, "http://127.0.0.1:1", prefix))
    client = connect(broker.service_url)
    publish(client, TOPIC, ALL)
    client.close()
    lose_metadata(broker)
    was = files(broker.data_dir)
    result = run(broker, "--apply", *with_conf)
    assert result.exit_code == 2 and "cannot repair" in result.output, result.output
    assert files(broker.data_dir) == was
