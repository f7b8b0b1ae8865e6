"""Options of the crash tests."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cycles", type=int, default=10, help="how many times the broker is killed under load"
    )
