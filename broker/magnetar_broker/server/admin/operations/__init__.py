"""What the REST API has the process that serves a topic do: functions of its broker and values.

Their arguments and results could be sent to another process; `owners.py` has them called.
"""
