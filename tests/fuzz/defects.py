"""What the broker itself takes for a defect, and logs instead of raising."""

import logging


class Defects(logging.Handler):
    """Remembers errors that were logged with their stack."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._found: list[BaseException] = []
        logging.getLogger("magnetar_broker").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is not None and record.exc_info[1] is not None:
            self._found.append(record.exc_info[1])

    def forget(self) -> None:
        self._found.clear()

    def raise_found(self) -> None:
        """The first one."""
        if self._found:
            raise self._found[0]


DEFECTS = Defects()
