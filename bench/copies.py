"""Benchmark of deduplication: publishing with it and without."""

from dataclasses import replace

from bench.connection import connected, open_producer
from bench.frames import Shape
from bench.scenarios import Trial, publish
from bench.usage import Measures, cpu_ratio


def deduplicate(trial: Trial, shape: Shape, entries: int) -> Measures:
    """Publish with deduplication, between two runs without: how rate and CPU compare."""

    async def create() -> Measures:
        async with connected(trial.server.port) as connection:
            await open_producer(connection, trial.topic)
        return {}

    before = publish(replace(trial, topic=f"{trial.topic}-before"), shape, entries)
    trial.run(create)
    trial.server.deduplicate(trial.topic)
    measures = publish(trial, shape, entries)
    after = publish(replace(trial, topic=f"{trial.topic}-after"), shape, entries)
    rate, cpu = ((before[name] + after[name]) / 2 for name in ("msg_per_s", "cpu_us"))
    return measures | {
        "of_plain": measures["msg_per_s"] / rate,
        "cpu_of_plain": cpu_ratio(measures["cpu_us"], cpu),
    }
