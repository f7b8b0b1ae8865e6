"""Compiles the modules that every message passes through, with mypyc.

`make compiled` puts the extension modules beside their sources, where Python imports them instead
of the sources; `build_hook.py` puts them into wheels.  The sources are the reference: they work
without being compiled, and the same tests run on both forms.
"""

import ast
import contextlib
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from mypyc.build import mypycify
from setuptools import Distribution, Extension
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

ROOT = Path(__file__).parents[1]
SOURCE_ROOTS = ("proto", "storage", "broker")
HOT = {
    "proto/magnetar_proto": (
        "acks",
        "batch_scan",
        "broker_metadata",
        "chunks",
        "commands",
        "deliveries",
        "entries",
        "frames",
        "hashes",
        "sends",
        "sticky_key",
        "wire",
    ),
    "storage/magnetar_storage/local": (
        "journal",
        "message_totals",
        "record",
        "rounds",
        "segment_file",
        "segment_writer",
    ),
    "storage/magnetar_storage/log": ("cache", "log", "log_state", "offset_set", "ranges"),
    "broker/magnetar_broker/base": ("traffic",),
    "broker/magnetar_broker/ipc": ("values",),
    "broker/magnetar_broker/limits": ("topic_limits",),
    "broker/magnetar_broker/producers": (
        "appender",
        "broker_metadata",
        "deduplication_state",
        "producer",
        "publish_budget",
        "publish_rules",
        "write_counts",
    ),
    "broker/magnetar_broker/dispatch": (
        "base",
        "chunked",
        "consumer",
        "receivers",
        "new_entries",
        "unsent_buffer",
        "key_queues",
        "key_selection",
        "key_shared",
        "multi_consumer",
        "offset_queue",
        "selection",
        "shared",
        "single_active",
        "unacked_budget",
    ),
    "broker/magnetar_broker/subscriptions": ("acknowledging", "batch_masks"),
    "broker/magnetar_broker/topic": ("delivery", "non_persistent_appender"),
    "broker/magnetar_broker/session": ("acks", "entry_checks", "output", "publishing", "read_gate"),
}
"""The compiled modules by directory: modules that a profile of publishing, dispatching or asking
another process names, and modules that share classes with them.  `check` has the rules for a module
to be listed here."""
GROUP = "magnetar_compiled"
"""The name of the library of all compiled modules, which call each other directly."""
PROBE = "#include <Python.h>\nPyMODINIT_FUNC PyInit_probe(void) { return NULL; }\n"


class NotCompilable(Exception):
    """A module would behave differently when compiled."""


def check(source: str) -> None:
    """Raise NotCompilable for a module that would behave differently when compiled.

    mypyc 2.4 keeps an exception that a coroutine handled, or that passed through its `finally`,
    and raises it again in coroutines that run later.  So no coroutine of a compiled module may
    contain `try`, `with` or `async with`.
    """
    for node in ast.walk(ast.parse((ROOT / source).read_text())):
        if isinstance(node, ast.AsyncFunctionDef) and any(
            isinstance(inner, ast.Try | ast.TryStar | ast.With | ast.AsyncWith)
            for inner in ast.walk(node)
        ):
            raise NotCompilable(
                f"{source}: the coroutine {node.name} handles exceptions, which mypyc compiles "
                "wrongly: move it to a module that is not listed in scripts/compile.py"
            )


def why_no_compiler() -> str | None:
    """Return the reason why this machine cannot compile extension modules; None if it can."""
    with TemporaryDirectory() as directory:
        source = Path(directory, "probe.c")
        source.write_text(PROBE)
        try:
            _build([Extension("probe", [str(source)])], Path(directory))
        except (BaseError, CCompilerError) as error:
            return str(error)
    return None


def compile_to(target: Path, work: Path) -> list[Path]:
    """Compile into `target`, laid out as installed packages; returns paths relative to it.

    `work` is for files that a later run can reuse.
    """
    sources = [f"{directory}/{name}.py" for directory, names in HOT.items() for name in names]
    for source in sources:
        check(source)
    with contextlib.chdir(ROOT):  # mypy finds its configuration and the packages from here
        extensions = mypycify(
            ["--config-file=pyproject.toml", f"--cache-dir={work / 'mypy'}", *sources],
            opt_level="2",
            debug_level="0",
            group_name=GROUP,
            target_dir=str(work / "mypyc"),
        )
        _build(extensions, target)
    return sorted(path.relative_to(target) for path in target.rglob("*.so"))


def _build(extensions: list[Extension], target: Path) -> None:
    """Run the C compiler; object files are removed."""
    with TemporaryDirectory() as objects:
        command = build_ext(Distribution({"name": "magnetar", "ext_modules": extensions}))
        command.build_lib, command.build_temp = str(target), objects
        command.ensure_finalized()
        command.run()


def _beside_source(module: Path) -> Path:
    """Return a module's path in a checkout; the group's library is beside the first package."""
    for root in SOURCE_ROOTS:
        if (ROOT / root / module.parts[0]).is_dir():
            return ROOT / root / module
    return ROOT / SOURCE_ROOTS[0] / module


def main() -> None:
    """Compile the hot modules, as `make compiled` asks."""
    if why := why_no_compiler():
        sys.exit(f"compiling needs a C compiler and Python's header files: {why}")
    with TemporaryDirectory() as target:
        try:
            modules = compile_to(Path(target), ROOT / "build")
        except NotCompilable as error:
            sys.exit(str(error))
        for module in modules:
            _beside_source(module).write_bytes(Path(target, module).read_bytes())
    print(f"compiled {len(modules)} modules; make pure removes them")


if __name__ == "__main__":
    main()
