"""Benchmark of authorization: publishing with it and without."""

import base64
from dataclasses import replace

from bench.frames import Shape
from bench.scenarios import Trial, publish
from bench.servers import Magnetar
from bench.usage import Measures, cpu_ratio

ROLE = "bench"
SWITCHES = ("authenticationEnabled", "authorizationEnabled")
SETTINGS = {
    "authenticationProviders": "token",
    "tokenSecretKey": f"data:;base64,{base64.b64encode(bytes(32)).decode()}",
    "anonymousUserRole": ROLE,
}
"""Connections without credentials have a role, so every producer is authorized when it opens."""


def authorize(trial: Trial, shape: Shape, entries: int) -> Measures:
    """Publish with authorization, between two runs without: how rate and CPU compare."""
    server = trial.server
    assert isinstance(server, Magnetar)
    server.configure({**SETTINGS, "superUserRoles": ROLE})
    before = publish(replace(trial, topic=f"{trial.topic}-before"), shape, entries)
    _switch(server, "true")
    measures = publish(trial, shape, entries)
    _switch(server, "false")
    after = publish(replace(trial, topic=f"{trial.topic}-after"), shape, entries)
    rate, cpu = ((before[name] + after[name]) / 2 for name in ("msg_per_s", "cpu_us"))
    return measures | {
        "of_plain": measures["msg_per_s"] / rate,
        "cpu_of_plain": cpu_ratio(measures["cpu_us"], cpu),
    }


def _switch(server: Magnetar, value: str) -> None:
    server.configure(dict.fromkeys(SWITCHES, value))
    server.restart()
