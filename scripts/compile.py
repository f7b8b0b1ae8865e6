"""`make compiled`: the modules on the way of every message, compiled with mypyc.

The extension modules lie beside their sources and are imported instead of them.  They are
optional: the sources are the reference, and the same tests run on both.
"""

import ast
from pathlib import Path
from tempfile import TemporaryDirectory

from mypyc.build import mypycify
from setuptools import Distribution
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parents[1]
SOURCE_ROOTS = ("proto", "storage", "broker")
HOT = {
    "proto/magnetar_proto": (
        "acks",
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
    "storage/magnetar_storage": (
        "cache",
        "journal",
        "local_segment",
        "offsets",
        "ranges",
        "record",
        "rounds",
        "segment",
    ),
    "broker/magnetar_broker": ("limits",),
    "broker/magnetar_broker/publishing": ("producer", "publish_budget"),
    "broker/magnetar_broker/subscribing": ("consumer",),
    "broker/magnetar_broker/dispatch": (
        "base",
        "chunked",
        "holdings",
        "kept",
        "key_queues",
        "key_selection",
        "key_shared",
        "many_active",
        "replay",
        "selection",
        "shared",
        "single_active",
        "unacked_budget",
    ),
    "broker/magnetar_broker/session": ("publishing", "read_gate"),
}
"""Modules by directory: those that a profile of publishing or dispatching names, and those that
share classes with them; none with a coroutine that handles exceptions (`check`)."""
GROUP = "magnetar_compiled"
"""All of them are one library, so that they call each other directly."""


def check(source: str) -> None:
    """SystemExit for a module that would behave otherwise when compiled.

    An exception that a compiled coroutine handled, or that passed its `finally`, is raised again
    by later ones (mypyc 2.4).
    """
    for node in ast.walk(ast.parse((ROOT / source).read_text())):
        if isinstance(node, ast.AsyncFunctionDef) and any(
            isinstance(inner, ast.Try | ast.With | ast.AsyncWith) for inner in ast.walk(node)
        ):
            raise SystemExit(f"{source}: the coroutine {node.name} handles exceptions")


def build() -> int:
    """Compile, and put the results in place; returns how many modules they are."""
    sources = [f"{directory}/{name}.py" for directory, names in HOT.items() for name in names]
    for source in sources:
        check(source)
    extensions = mypycify(
        ["--config-file=pyproject.toml", *sources],
        opt_level="2",
        debug_level="0",
        group_name=GROUP,
        target_dir="build/mypyc",
    )
    with TemporaryDirectory() as target:
        command = build_ext(Distribution({"name": "magnetar", "ext_modules": extensions}))
        command.build_lib, command.build_temp = target, f"{target}/objects"
        command.ensure_finalized()
        command.run()
        for made in Path(target).rglob("*.so"):
            _home(made.relative_to(target)).write_bytes(made.read_bytes())
    return len(sources)


def _home(module: Path) -> Path:
    """Where a module belongs: in its package, or what is in none beside the first package."""
    for root in SOURCE_ROOTS:
        if (ROOT / root / module.parts[0]).is_dir():
            return ROOT / root / module
    return ROOT / SOURCE_ROOTS[0] / module


if __name__ == "__main__":
    print(f"compiled {build()} modules; make pure removes them")
