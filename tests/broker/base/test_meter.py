"""Rates from running totals."""

import pytest

from magnetar_broker.base.meter import Meter


def test_a_rate_is_the_growth_within_the_window() -> None:
    meter = Meter(2)
    assert meter.rates == (0.0, 0.0)
    meter.close_window((60, 600), 60)
    assert meter.rates == (1.0, 10.0)
    meter.close_window((60, 1200), 30)
    assert meter.rates == (0.0, 20.0)


def test_the_number_of_totals_does_not_change() -> None:
    with pytest.raises(ValueError, match="zip"):
        Meter(2).close_window((1, 2, 3), 1)
