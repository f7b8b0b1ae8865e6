"""Policies: declarations (`table.py`), stored (`stored.py`) and effective values (`view.py`)."""
