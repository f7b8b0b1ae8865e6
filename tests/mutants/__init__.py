"""Mutations that the tests must notice: each breaks one promise of the sources.

A comment marks the statement that keeps a promise, at the end of its first line or on a line of
its own before it; the sentence may go on in the comment lines behind the mark:

    self._disk.sync_dir("journal")  # promise: a new file has its name after a crash

    # promise[visible_end -> end]: a subscription does not read behind an open transaction
    stop = min(stop, log.visible_end)

The mutation of a mark, by its operator in brackets:

- none: the statement is replaced by `pass`; of `if`, `elif` and `while`, the condition by `False`.
- `never`, `always`: the condition, or the value that is returned or assigned, becomes `False`
  or `True`.
- `swap`: the statement and the one behind it change places.
- `without X`: the text X of the statement is left out.
- `X -> Y`: the text X of the statement is replaced by Y.

X is looked for from the line of the mark to the end of the statement, or of its head; blanks and
line breaks count as one blank. Marks before the same statement are mutations of their own.

Without a mark the syncs, the comparisons of checksums and the cursor records in storage are
mutated (`sites.py`); `hand.py` has what no mark can name.
"""
