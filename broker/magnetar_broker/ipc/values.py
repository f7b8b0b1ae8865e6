"""Plain values as bytes, in a format that other machines and later versions read.

A value is a tag of one byte and what the tag says.  Sizes, numbers of items and numbers are
big-endian:

    0x00-0x7f   the int 0 to 127
    0x80-0xbf   a str of 0 to 63 bytes, in UTF-8
    0xc0-0xdf   a tuple of 0 to 31 values
    0xe0        None
    0xe1, 0xe2  False, True
    0xe3        an int: 8 bytes, signed
    0xe4        an int: its size in 4 bytes, then the number, signed
    0xe5        a float: 8 bytes
    0xe6        a str: its size in 4 bytes, then UTF-8
    0xe7        bytes: their size in 4 bytes, then the bytes
    0xe8-0xea   a tuple, a list, a set: its length in 4 bytes, then its items
    0xeb        a dict: its length in 4 bytes, then each key and its value

Other tags are for later versions; a decoder refuses them.  A str may contain surrogates, which
stand for bytes in names of files.  Whoever wrote the bytes, a decoder makes nothing but these
values: not deeper than `DEPTH`, and not more of them than there are bytes.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Any

DEPTH = 32
"""The most containers that a value may be within."""
LARGEST_INT_BYTES = 1024
"""The most bytes of an int: what is done with a longer one, such as printing it, takes long."""

_STR, _TUPLE = 0x80, 0xC0
_SHORT_STR, _SHORT_TUPLE = 64, 32
"""The lengths from which these have a tag with a length of four bytes."""
_NONE, _FALSE, _TRUE, _INT, _LONG_INT, _FLOAT, _LONG_STR, _BYTES = range(0xE0, 0xE8)
_LONG_TUPLE, _LIST, _SET, _DICT = range(0xE8, 0xEC)
_CONSTANTS = {None: bytes([_NONE]), False: bytes([_FALSE]), True: bytes([_TRUE])}
_SMALL = tuple(bytes([number]) for number in range(_STR))
_TAGS = tuple(bytes([tag]) for tag in range(256))

_INCOMPLETE = "it ends within a value"

_SIZED = Struct(">BI")
_SIZE = Struct(">I")
_TAGGED_INT = Struct(">Bq")
_INT64 = Struct(">q")
_TAGGED_FLOAT = Struct(">Bd")
_FLOAT64 = Struct(">d")


def encode_value(value: Any) -> bytes:
    """Return a value as bytes; `ValueError` if it is not a plain one, or nested too deeply."""
    parts: list[bytes] = []
    _encode(value, parts, DEPTH)
    return b"".join(parts)


def decode_value(data: bytes) -> Any:
    """Return the value that `data` is; `ValueError` for anything else."""
    decoder = _Decoder(data)
    try:
        value = decoder.value(DEPTH)
    except IndexError as error:
        raise ValueError(_INCOMPLETE) from error
    # promise: bytes after a value are not ignored
    if decoder.at != len(data):
        raise ValueError(f"{len(data) - decoder.at} bytes follow the value")
    return value


def _encode(value: Any, parts: list[bytes], depth: int) -> None:
    kind = type(value)  # exactly: a subclass would arrive as another class
    if kind is str:
        text = value.encode("utf-8", "surrogatepass")
        size = len(text)
        parts.append(_TAGS[_STR + size] if size < _SHORT_STR else _SIZED.pack(_LONG_STR, size))
        parts.append(text)
    elif kind is int:
        parts.append(_SMALL[value] if 0 <= value < _STR else _encoded_int(value))
    elif kind is bytes:
        parts.append(_SIZED.pack(_BYTES, len(value)))
        parts.append(value)
    elif kind is float:
        parts.append(_TAGGED_FLOAT.pack(_FLOAT, value))
    elif value is None or kind is bool:
        parts.append(_CONSTANTS[value])
    elif kind is dict:
        parts.append(_SIZED.pack(_DICT, len(value)))
        _encode_items((item for pair in value.items() for item in pair), parts, depth)
    else:
        parts.append(_head_of_items(kind, value))
        _encode_items(value, parts, depth)


def _encode_items(items: Iterable[Any], parts: list[bytes], depth: int) -> None:
    if depth == 0:  # promise: a value that its receiver would refuse is not sent
        raise ValueError(f"values are nested more than {DEPTH} deep")
    for item in items:
        _encode(item, parts, depth - 1)


def _head_of_items(kind: type, value: Any) -> bytes:
    if kind is tuple:
        count = len(value)
        if count < _SHORT_TUPLE:
            return _TAGS[_TUPLE + count]
        return _SIZED.pack(_LONG_TUPLE, count)
    if kind is list:
        return _SIZED.pack(_LIST, len(value))
    if kind is set:
        return _SIZED.pack(_SET, len(value))
    raise ValueError(f"a value of type {kind.__name__} cannot be sent: expected a plain value")


def _encoded_int(value: int) -> bytes:
    if -(1 << 63) <= value < 1 << 63:
        return _TAGGED_INT.pack(_INT, value)
    size = value.bit_length() // 8 + 1
    if size > LARGEST_INT_BYTES:
        raise ValueError(f"an int of {size} bytes: at most {LARGEST_INT_BYTES} are sent")
    return _SIZED.pack(_LONG_INT, size) + value.to_bytes(size, "big", signed=True)


class _Decoder:
    """Reads values from bytes, one after the other."""

    __slots__ = ("_data", "at")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0
        """The offset of the next value."""

    def value(self, depth: int) -> Any:
        """Return the next value, which has at most `depth` levels of values within it."""
        at = self.at
        tag = self._data[at]
        self.at = at + 1
        if tag < _STR:
            return tag
        if tag < _TUPLE:
            return self._taken(tag - _STR).decode("utf-8", "surrogatepass")
        if tag < _NONE:
            return tuple(self._items(tag - _TUPLE, depth))
        return self._tagged(tag, depth)

    def _tagged(self, tag: int, depth: int) -> Any:
        # promise: a value of a later version is refused
        if tag > _DICT:
            raise ValueError(f"the tag 0x{tag:02x} is unknown: a later version may have sent it")
        if tag <= _TRUE:
            return None if tag == _NONE else tag == _TRUE
        if tag == _INT:
            return _INT64.unpack(self._taken(8))[0]
        if tag == _FLOAT:
            return _FLOAT64.unpack(self._taken(8))[0]
        (size,) = _SIZE.unpack(self._taken(4))
        return self._sized(tag, size) if tag < _LONG_TUPLE else self._container(tag, size, depth)

    def _sized(self, tag: int, size: int) -> Any:
        if tag == _LONG_STR:
            return self._taken(size).decode("utf-8", "surrogatepass")
        if tag == _BYTES:
            return self._taken(size)
        return self._long_int(size)

    def _container(self, tag: int, length: int, depth: int) -> Any:
        if tag == _LIST:
            return self._items(length, depth)
        if tag == _LONG_TUPLE:
            return tuple(self._items(length, depth))
        if tag == _SET:
            return self._distinct(set, self._items(length, depth), length)
        items = self._items(length * 2, depth)
        return self._distinct(dict, zip(items[::2], items[1::2], strict=True), length)

    def _taken(self, size: int) -> bytes:
        """Return the next `size` bytes."""
        end = self.at + size
        taken = self._data[self.at : end]
        # promise: bytes that are not there are not taken for shorter ones
        if len(taken) != size:
            raise ValueError(_INCOMPLETE)
        self.at = end
        return taken

    def _items(self, count: int, depth: int) -> list[Any]:
        # promise: deeply nested values do not exhaust the stack
        if depth == 0:
            raise ValueError(f"values are nested more than {DEPTH} deep")
        # As each takes a byte or more, this ends with the data, whatever the count is.
        return [self.value(depth - 1) for _ in range(count)]

    def _long_int(self, size: int) -> int:
        # promise: an int that takes long to work with is refused
        if size > LARGEST_INT_BYTES:
            raise ValueError(f"an int of {size} bytes: at most {LARGEST_INT_BYTES} are read")
        return int.from_bytes(self._taken(size), "big", signed=True)

    def _distinct(self, kind: type, items: Iterable[Any], count: int) -> Any:
        try:
            found = kind(items)
        except TypeError as error:
            raise ValueError(f"a {kind.__name__} with what cannot be in one: {error}") from error
        # promise: a set or dict of which a part would be lost is refused
        if len(found) != count:
            raise ValueError(f"a {kind.__name__} has the same twice")
        return found
