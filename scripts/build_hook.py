"""Puts compiled modules into wheels; hatchling calls it.

The environment variable MAGNETAR_BUILD chooses the form of the wheel: `compiled` requires it and
fails without a C compiler, `pure` leaves the sources alone, and unset compiles if there is a
compiler.  Source distributions and editable installs are always pure Python.
"""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE = "MAGNETAR_BUILD"
FORMS = ("compiled", "pure")
COMPILERS = ["mypy[mypyc]>=2.4,<2.5", "setuptools>=70", "types-protobuf"]
"""mypy is pinned to the minor version: it decides which code shapes are compiled correctly."""


class BuildHook(BuildHookInterface[Any]):
    """Compiles while a wheel is built."""

    def dependencies(self) -> list[str]:
        """Return the build requirements; mypyc also reads the types of imported packages."""
        if _wanted() == "pure":
            return []
        return [*COMPILERS, *self.metadata.core.dependencies]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the compiled modules to the wheel, and set its platform."""
        wanted = _wanted()
        if version == "editable":
            if wanted == "compiled":
                raise RuntimeError(f"an editable install is never compiled: unset {VARIABLE}")
            return self._announce("pure Python, as every editable install")
        if wanted == "pure":
            return self._announce("pure Python, as requested")
        sys.path.insert(0, str(Path(self.root, "scripts")))
        import compile  # noqa: PLC0415 (needs what `dependencies` names)

        if why := compile.why_no_compiler():
            if wanted == "compiled":
                raise RuntimeError(f"{VARIABLE}=compiled, but no module can be compiled: {why}")
            return self._announce(f"pure Python, for lack of a working C compiler: {why}")
        self._built = TemporaryDirectory(prefix="magnetar-build-")
        modules, work = Path(self._built.name, "modules"), Path(self._built.name, "work")
        try:
            built = compile.compile_to(modules, work)
        except SystemExit as error:  # mypyc's way to report errors of types
            raise RuntimeError(f"mypyc failed; {VARIABLE}=pure builds without it") from error
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        for module in built:
            build_data["force_include"][str(modules / module)] = str(module)
        self._announce(f"compiled, {len(built)} extension modules")

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the compiled modules, which the wheel contains now."""
        if hasattr(self, "_built"):
            self._built.cleanup()

    def _announce(self, form: str) -> None:
        self.app.display_info(f"Magnetar's wheel: {form} ({VARIABLE}={_wanted() or 'unset'})")


def _wanted() -> str | None:
    wanted = os.environ.get(VARIABLE) or None
    if wanted is not None and wanted not in FORMS:
        raise ValueError(f"{VARIABLE}={wanted}: expected {' or '.join(FORMS)}, or unset")
    return wanted
