"""The error of a start that a process other than the first one has failed."""


class StartFailed(Exception):
    """A process could not start; the text names it and the reason."""
