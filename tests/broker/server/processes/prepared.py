"""A broker of several processes that serve nothing: a program for test_several.py.

python prepared.py DATA_DIR PORT WORKERS
"""

import sys

from magnetar_broker.config import Settings
from magnetar_broker.config.load import Loaded
from magnetar_broker.server.processes.multi_process import Prepared, serve_several
from magnetar_broker.server.runtime.logs import log_to_stderr
from magnetar_broker.server.runtime.phases import Phases, began_at
from magnetar_broker.server.runtime.ports import port_of
from magnetar_broker.server.supervision.children import Context
from magnetar_broker.server.supervision.control import Ready, Stop


def run(prepared: Prepared, context: Context) -> None:
    ports = port_of(context.sockets)
    print(f"{context.name} {prepared.settings.data_dir} {ports}\n", end="", flush=True)
    context.control.send(Ready())
    while not any(isinstance(message, Stop) for message in context.control.receive()):
        pass


def main() -> None:
    data_dir, port, workers = sys.argv[1:]
    log_to_stderr("supervisor")
    settings = Settings(data_dir=data_dir, broker_service_port=int(port), web_service_port=0)
    loaded, phases = Loaded(settings, []), Phases(began_at())
    raise SystemExit(
        serve_several(settings, lambda: loaded, int(workers), run, run, cores=8, phases=phases)
    )


if __name__ == "__main__":
    main()
