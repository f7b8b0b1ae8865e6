"""`magnetar admin` in this process, and places of a broker for it to work on."""

import asyncio
import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner, Result

import magnetar
from admin_http import Admin
from magnetar.cli import main
from running_broker import RunningBroker

TIMEOUT_S = 60.0


def installed(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the installed command `magnetar`."""
    return subprocess.run(
        [str(Path(sys.executable).with_name("magnetar")), *words],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        timeout=TIMEOUT_S,
        check=False,
    )


def admin(broker: RunningBroker, *words: str, stdin: str = "") -> Result:
    """Run `magnetar admin` with these words."""
    environment = {"MAGNETAR_ADMIN_URL": broker.http_url}
    return CliRunner(env=environment).invoke(
        main, ["admin", *words], input=stdin, prog_name="magnetar"
    )


def answered(broker: RunningBroker, *words: str) -> Any:
    """What the command prints as JSON; it must succeed."""
    result = admin(broker, "--json", *words)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout) if result.stdout else None


def done(broker: RunningBroker, *words: str) -> str:
    """What the command prints; it must succeed."""
    result = admin(broker, *words)
    assert result.exit_code == 0, click.unstyle(result.output)
    return result.stdout


class Place(dict[str, str]):
    """Names in a namespace of its own, each created when it is asked for."""

    def __init__(self, broker: RunningBroker) -> None:
        self._broker = broker
        self._admin = Admin(broker)

    def __missing__(self, name: str) -> str:
        self[name] = getattr(self, f"_{name}")()
        return self[name]

    def _tenant(self) -> str:
        name = f"t{uuid.uuid4().hex[:10]}"
        body = {"adminRoles": ["boss"], "allowedClusters": ["standalone"]}
        assert self._admin.put(f"tenants/{name}", body).status == 204
        return name

    def _namespace(self) -> str:
        name = f"{self['tenant']}/ns"
        assert self._admin.put(f"namespaces/{name}").status == 204
        return name

    def _topic(self) -> str:
        """An empty topic with the subscription `sub`."""
        path = f"persistent/{self['namespace']}/orders"
        assert self._admin.put(path).status == 204
        assert self._admin.put(f"{path}/subscription/sub", "latest").status == 204
        return path.replace("/", "://", 1)

    def _inhabited(self) -> str:
        """The namespace, with that topic."""
        return self["topic"] and self["namespace"]

    def _written(self) -> str:
        """The same with a message `one`, and a batch of `two` and `three`."""
        topic = self["topic"]

        async def write() -> None:
            async with magnetar.connect(self._broker.service_url) as client:
                producer = await client.producer(topic)
                await producer.send(b"one", key="k", properties={"a": "b"})
                await producer.send_batch([b"two", b"three"])

        asyncio.run(write())
        return topic

    def _partitioned(self) -> str:
        """Two partitions."""
        path = f"persistent/{self['namespace']}/parts"
        assert self._admin.put(f"{path}/partitions", 2).status == 204
        return path.replace("/", "://", 1)

    def _bundle(self) -> str:
        found = self._admin.get(f"namespaces/{self['namespace']}/bundles").json["boundaries"]
        return f"{found[0]}_{found[1]}"

    def _broker_id(self) -> str:
        return str(self._admin.get("brokers").json[0])
