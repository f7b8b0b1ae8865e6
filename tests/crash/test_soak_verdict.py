"""The soak's verdict distinguishes growth from noise."""

import random

import pytest

from crash.soak import SAMPLE_SECONDS, Sample, table, verdict


def samples(count: int, **growth: float) -> list[tuple[float, Sample]]:
    """Noisy figures; what is named grows by so much over the whole run."""
    chance = random.Random(0)
    made = []
    for number in range(count):
        grown = {name: by * number / count for name, by in growth.items()}
        figures = {
            "memory": 200 + chance.uniform(-10, 10),
            "descriptors": 60 + chance.randint(-3, 3),
            "threads": 10,
            "disk": 300 + chance.uniform(-60, 60),
        }
        values = {name: value + grown.get(name, 0) for name, value in figures.items()}
        values["resident"] = values["memory"] + grown.get("free", 0)
        sample = Sample(**values, heap=100, connections=40, backlog=0, published=9)
        made.append((number * SAMPLE_SECONDS, sample))
    return made


def test_noise_is_flat() -> None:
    text, flat = verdict(samples(180))
    assert flat and text.count("flat") == 4


@pytest.mark.parametrize(
    ("name", "by"), [("memory", 60), ("descriptors", 20), ("threads", 3), ("disk", 300)]
)
def test_growth_is_reported(name: str, by: float) -> None:
    text, flat = verdict(samples(180, **{name: by}))
    assert not flat
    assert [line.split()[0] for line in text.splitlines() if "GROWS" in line] == [name]


def test_what_grows_only_at_first_is_flat() -> None:
    warm = [(s, x._replace(memory=x.memory - (50 if s < 500 else 0))) for s, x in samples(180)]
    assert verdict(warm)[1]


def test_free_memory_of_the_heap_is_no_growth_until_it_is_as_much_as_is_in_use() -> None:
    assert verdict(samples(180, free=120))[1]
    text, flat = verdict(samples(180, free=180))
    assert not flat and "GROWS" not in text
    assert [line.split()[0] for line in text.splitlines() if "TOO MUCH" in line] == ["free"]


def test_too_few_samples_are_no_proof() -> None:
    assert not verdict(samples(3))[1]


def test_the_table_has_a_line_a_sample() -> None:
    assert len(table(samples(5)).splitlines()) == 6
