"""Stores of objects and of metadata that brokers share, and the brokers on them."""

import contextlib
import itertools
import json
import sys
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import metadata_servers
import object_servers
from fakes.waiting import HANGS_SECONDS, LOOK_SECONDS
from metadata_servers import Etcd, MetadataServer, Postgres
from object_servers import Versitygw
from running_broker import RunningBroker

LEASE_SECONDS: Final = 5
ENGINES: Final = ("etcd", "postgres")


def why_not(engine: str) -> str:
    """Return why the servers for an engine of metadata cannot be run, or "" if they can."""
    reasons = {"etcd": metadata_servers.why_no_etcd, "postgres": metadata_servers.why_no_postgres}
    return object_servers.why_no_versitygw() or reasons[engine]()


class Stores:
    """One server of objects and one of metadata."""

    def __init__(self, directory: Path, engine: str) -> None:
        (directory / "metadata").mkdir()
        self._numbers = defaultdict[Path, int](itertools.count(1).__next__)
        self.objects = Versitygw(directory / "objects")
        self.metadata: MetadataServer = (
            Etcd(directory / "metadata") if engine == "etcd" else Postgres()
        )

    def start(self) -> None:
        """Start the servers that do not run."""
        self.objects.start()
        self.metadata.start()

    def settings_of(self, data_dir: Path) -> dict[str, str]:
        """Return the settings of a broker that has other data than those of other directories."""
        return self.settings(self._numbers[data_dir])

    def settings(self, number: int = 1) -> dict[str, str]:
        """Return the settings of brokers; `number` names their data."""
        endpoint = self.objects.endpoint
        return {
            "metadataStoreUrl": self.metadata.place(number),
            "magnetarSegmentStore": f"{object_servers.place_at(endpoint, f'data-{number}')}",
            "s3ManagedLedgerOffloadCredentialId": object_servers.KEY,
            "s3ManagedLedgerOffloadCredentialSecret": object_servers.SECRET,
            "magnetarLeaseSeconds": str(LEASE_SECONDS),
            "magnetarWalLingerMs": "5",
            "magnetarWorkers": "1",
        }

    def end(self) -> None:
        """End the servers, and delete what is outside the directory of the test."""
        self.objects.kill()
        self.metadata.kill()
        if isinstance(self.metadata, Postgres):
            self.metadata.remove()


@contextlib.contextmanager
def running_stores(directory: Path, engine: str) -> Iterator[Stores]:
    """Run both servers; the test is skipped if this machine cannot."""
    if why := why_not(engine):
        pytest.skip(why)
    stores = Stores(directory, engine)
    try:
        stores.start()
        yield stores
    finally:
        stores.end()


def url_of(*brokers: RunningBroker) -> str:
    """Return the service URL with which clients find the one that serves."""
    return "pulsar://" + ",".join(f"127.0.0.1:{broker.port}" for broker in brokers)


def serves(broker: RunningBroker) -> bool:
    """Return whether this broker is ready for clients now."""
    try:
        with urllib.request.urlopen(f"{broker.http_url}/admin/v2/brokers/ready") as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError):
        return False


def await_serving(*brokers: RunningBroker) -> RunningBroker:
    """Return the first of these brokers that serves."""
    give_up_at = time.monotonic() + HANGS_SECONDS
    while True:
        for broker in brokers:
            if serves(broker):
                return broker
        assert time.monotonic() < give_up_at, "".join(broker.log for broker in brokers)
        time.sleep(LOOK_SECONDS)


def main(directory: str, engine: str) -> None:
    """Run both servers until the input ends; print the settings of a broker as a line of JSON."""
    if why := why_not(engine):
        raise SystemExit(why)
    stores = Stores(Path(directory), engine)
    try:
        stores.start()
        print(json.dumps(stores.settings()), flush=True)
        sys.stdin.read()
    finally:
        stores.end()


if __name__ == "__main__":
    main(*sys.argv[1:])
