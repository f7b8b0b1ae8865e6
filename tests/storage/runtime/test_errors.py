"""Errors that are raised repeatedly."""

import pytest

from magnetar_storage.errors import Corrupt, DiskFull, StorageError


@pytest.mark.parametrize(
    "error", [StorageError(), DiskFull("no room"), Corrupt("file", 7, "torn", segment=3)]
)
def test_an_error_raised_again_has_the_same_text_and_names_the_first(error: StorageError) -> None:
    with pytest.raises(StorageError):
        raise error
    fresh = error.again()
    assert fresh is not error
    assert (type(fresh), str(fresh), vars(fresh)) == (type(error), str(error), vars(error))
    assert fresh.__cause__ is error
    assert (fresh.__traceback__, fresh.__context__) == (None, None)
