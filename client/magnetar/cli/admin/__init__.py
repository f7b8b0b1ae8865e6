"""The commands of `magnetar admin`.

Commands are declared in `groups/`, one module for each group. `commands.py` turns them into a
command line, `docs.py` into a page of the documentation.
"""
