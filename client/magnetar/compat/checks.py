"""Checks of arguments, with the exception that the official client raises: ValueError."""


def check(kind: type | tuple[type, ...], value: object, name: str) -> None:
    """Raise ValueError unless `value` is of the kind; a bool does not count as a number."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if isinstance(value, kinds) and (not isinstance(value, bool) or bool in kinds):
        return
    wanted = " or ".join(one.__name__ for one in kinds).replace("NoneType", "None")
    raise ValueError(f"{name} must be of type {wanted}, but is {value!r}")


def check_or_none(kind: type | tuple[type, ...], value: object, name: str) -> None:
    """Raise ValueError unless `value` is None or of the kind."""
    if value is not None:
        check(kind, value, name)
