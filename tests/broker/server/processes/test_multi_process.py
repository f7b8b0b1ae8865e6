"""The preparations of a broker of several processes before it forks them; these do nothing."""

import re
import socket
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("prepared.py")


def start(data: Path, port: int = 0) -> subprocess.Popen[str]:
    command = [sys.executable, str(PROGRAM), str(data), str(port), "3"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def banner_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("  durability"):
            break
    return "".join(lines)


def refusal(data: Path, port: int = 0) -> str:
    """Return the last line of the error of a start that must fail."""
    process = start(data, port)
    output, error = process.communicate()
    assert process.returncode == 1 and not output
    return error.splitlines()[-1]


def test_the_processes_share_a_data_directory_and_ports(tmp_path: Path) -> None:
    data = tmp_path / "data"
    process = start(data)
    try:
        banner = banner_of(process)
        assert banner.count(" is ready") == 1
        assert "\n  processes   3 workers on 8 cores, and a controller\n" in banner
        found = re.search(r"clients     pulsar://127\.0\.0\.1:([0-9]+)\n", banner)
        assert found is not None
        for worker in range(3):
            assert f"worker-{worker} {data} {found[1]}\n" in banner
        found = re.search(r"HTTP        http://127\.0\.0\.1:([0-9]+)\n", banner)
        assert found is not None and f"controller {data} {found[1]}\n" in banner
        assert sorted(path.name for path in (data / "workers").iterdir()) == ["1", "2"]
        assert f"in use by process {process.pid}" in refusal(data)
    finally:
        process.terminate()
        process.communicate()
    assert process.returncode == 0
    again = start(data)
    assert " is ready" in banner_of(again)
    again.terminate()
    again.communicate()


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        text = refusal(tmp_path / "data", other.getsockname()[1])
    assert "address already in use" in text
