"""Plays scenarios against Apache Pulsar: `python -m clients.original java|go [NAME...]`.

A scenario that fails on Magnetar and not here shows a fault of Magnetar's; one that fails here asks
for too much. NAME is the beginning of one or more.  Those that need certificates are left out.
"""

import itertools
import sys
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from clients import go_driver, java_driver, secured
from clients.stage import Stage
from conformance.original.pulsar import RunningPulsar
from conformance.trace import Target, warm_up

PORT, HTTP_PORT = 16_850, 18_280


class Original:
    """An Apache Pulsar that starts as a RunningBroker does."""

    def __init__(self, number: int, folder: Path, **settings: str) -> None:
        ports = (PORT + number, HTTP_PORT + number)
        self._pulsar = RunningPulsar(*ports, folder / f"data{number}", settings=settings)
        self._target = Target(*ports, settle_seconds=0)
        self.service_url = f"pulsar://127.0.0.1:{ports[0]}"
        self.http_url = f"http://127.0.0.1:{ports[1]}"

    def start(self) -> "Original":
        self._pulsar.start()
        warm_up(self._target)
        return self

    def kill(self) -> None:
        self._pulsar.stop(kill=True)


def main(language: str, *names: str) -> None:
    """Play them one by one, and print how each ended."""
    numbers = itertools.count()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))

        def make(until: ExitStack, **settings: str) -> Original:
            made = Original(next(numbers), folder, **settings).start()
            until.callback(made.kill)
            return made

        shared = make(stack)
        driver: go_driver.GoDriver | java_driver.JavaDriver
        if language == "go":
            driver, scenarios = go_driver.GoDriver(), go_driver.scenarios()
        else:
            driver, scenarios = java_driver.JavaDriver(folder / "log"), java_driver.scenarios()
        stack.callback(driver.close)
        for scenario in secured.without(scenarios):
            if scenario.startswith(names or ("",)):
                with ExitStack() as own:
                    topic = f"persistent://public/default/{scenario}"
                    failure = driver.play(scenario, Stage(shared, partial(make, own), topic))
                print(f"{scenario}: {failure or 'ok'}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
