"""The requirements besides the client's: the packages of the extra `magnetar[spark]`."""

from importlib import import_module


def require(package: str) -> None:
    """Raise ImportError with the remedy if the package is not installed."""
    try:
        import_module(package)
    except ModuleNotFoundError as error:
        missing = (error.name or package).partition(".")[0]
        raise ImportError(
            f"the Spark source and sink of Magnetar need {missing}, which is not installed: "
            "run pip install 'magnetar[spark]'"
        ) from error
