"""Writing bytes in pieces to a socket."""

import asyncio
from collections.abc import Iterable


def write_pieces(transport: asyncio.Transport, pieces: Iterable[bytes]) -> None:
    """Write the pieces without joining them; the protocol is paused when too much is buffered.

    The transport's `writelines` would not do that on asyncio's event loop before Python 3.12.9 and
    3.13.2 (CVE-2024-12254), and buffer without limit for a peer that does not read.
    """
    for piece in pieces:
        transport.write(piece)
