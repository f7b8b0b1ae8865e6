"""Compares the locked dependencies with published advisories: `make audit`.

Exit code 0: no dependency is known to be vulnerable.  1: some are, and the list names them.  3:
the advisory service cannot be reached, or has no data on these packages: nothing was checked.  With
`--allow-unchecked` that is 0, too.
"""

import json
import subprocess  # nosec B404
import sys
from pathlib import Path

LOCKED = Path(__file__).parents[1] / "docker" / "requirements.txt"
TIMEOUT_SECONDS = 300
UNKNOWN = 3
ALLOW_UNCHECKED = "--allow-unchecked"


def main() -> int:
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(LOCKED), "--format", "json"]
    command += ["--require-hashes", "--disable-pip", "--progress-spinner", "off", "--timeout", "15"]
    try:
        # A fixed command of this environment, without a shell.
        run = subprocess.run(  # nosec B603
            command, check=False, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
        )
    except subprocess.TimeoutExpired:
        return unknown(f"no answer within {TIMEOUT_SECONDS} s")
    try:
        found = json.loads(run.stdout)["dependencies"]
    except (ValueError, KeyError):
        return unknown((run.stderr.strip().splitlines() or ["no output"])[-1])
    return verdict(found)


def verdict(found: list[dict[str, object]]) -> int:
    """Print the findings, and return the exit code."""
    vulnerable = [one for one in found if one.get("vulns")]
    skipped = [one for one in found if "skip_reason" in one]
    for one in vulnerable:
        print(f"{one['name']} {one.get('version')}: {one['vulns']}")
    if vulnerable:
        print(f"{len(vulnerable)} of {len(found)} locked dependencies have known vulnerabilities")
        return 1
    if skipped:
        return unknown(
            f"{len(skipped)} of {len(found)} packages were not checked: {skipped[0]['skip_reason']}"
        )
    print(f"none of the {len(found)} locked dependencies has a known vulnerability")
    return 0


def unknown(why: str) -> int:
    print(f"NOT CHECKED: the service with the advisories does not answer for them: {why}")
    return 0 if ALLOW_UNCHECKED in sys.argv[1:] else UNKNOWN


if __name__ == "__main__":
    sys.exit(main())
