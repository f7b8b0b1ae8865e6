"""Policies: their declarations (`table.py`), stored values and effective values (`resolver.py`)."""
