"""Operations that the REST API requests from the process that serves a topic.

They are functions of its broker and of values.  Their arguments and results can be sent to another
process; `owners.py` calls them.
"""
