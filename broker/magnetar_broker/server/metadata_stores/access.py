"""The settings with which a broker reaches the server of its metadata."""

from dataclasses import dataclass, field

from magnetar_broker.server.metadata_stores.urls import MetadataRefused


@dataclass(frozen=True, slots=True)
class MetadataAccess:
    """Credentials, certificates and time limits; what is blank is not used."""

    user: str = ""
    """The user of etcd, if its authentication is enabled; that of PostgreSQL is in its URL."""
    password: str = field(default="", repr=False)
    password_file: str = ""
    """A file that has the password, without the line break at its end; it is read whenever the
    broker logs in, so that another program may renew it."""
    trusted_certificates_file: str = ""
    """The authorities whose certificates of servers are trusted, as PEM; blank: the system's."""
    certificate_file: str = ""
    """The certificate with which the broker identifies itself, as PEM."""
    key_file: str = ""
    """The private key of `certificate_file`, as PEM, not encrypted."""
    connect_seconds: float = 2
    """The longest time for the connection to one server."""
    request_seconds: float = 3
    """The longest time for a request with its answer: shorter than a lease lasts."""

    def current_password(self) -> str:
        """Return the password, or that of the file; `MetadataRefused` if it cannot be read."""
        if not self.password_file:
            return self.password
        try:
            with open(self.password_file, encoding="utf-8") as file:
                return file.read().rstrip("\r\n")
        except OSError as error:
            raise MetadataRefused(
                f"cannot read the password in {self.password_file}: {error.strerror}"
            ) from error
        except UnicodeDecodeError:
            # The text of the error has the bytes of the password.
            raise MetadataRefused(
                f"cannot read the password in {self.password_file}: it is not UTF-8"
            ) from None


NO_ACCESS = MetadataAccess()
