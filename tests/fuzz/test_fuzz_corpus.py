"""Every stored input of every fuzz target again: what was found once stays mended."""

import pytest

from fuzz import corpus


@pytest.mark.parametrize("name", corpus.names())
def test_seeds(name: str) -> None:
    target = corpus.target(name)
    seeds = list(target.seeds())
    assert seeds
    for seed in [b"", *seeds]:
        target.run(seed)


@pytest.mark.parametrize("name", corpus.names())
def test_stored_inputs(name: str) -> None:
    target = corpus.target(name)
    stored = corpus.stored(name)
    assert stored, "nothing is stored: `python -m fuzz keep` after a run"
    for path in stored:
        try:
            target.run(path.read_bytes())
        except Exception as error:
            error.add_note(f"repeat with: PYTHONPATH=tests python -m fuzz repeat {name} {path}")
            raise


def test_the_stored_inputs_stay_small() -> None:
    sizes = [path.stat().st_size for name in corpus.names() for path in corpus.stored(name)]
    assert sum(sizes) < 1 << 20
