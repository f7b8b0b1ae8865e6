"""What to record is named on the command line; a wrong name must not record nothing in silence."""

import pytest

from conformance.groups import all_traces
from conformance.record import main


def test_an_unknown_group_is_refused_with_the_groups_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["magnetar", "acks", "nonsense"])
    printed = capsys.readouterr().err
    assert "no group nonsense; there are" in printed
    assert all(one.group in printed for one in all_traces())


def test_an_unknown_side_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["nonsense"])
    assert "original" in capsys.readouterr().err
