"""The files of a development authority in a directory."""

import re
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from magnetar.cli.setup.files import PUBLIC, FileProblem, make_directory, replace_file, write_new

if TYPE_CHECKING:
    from magnetar.cli.setup.authority import Authority, Issued

AUTHORITY: Final = "ca"
SERVER: Final = "broker"
ALWAYS: Final = ("localhost", "127.0.0.1", "::1")
HOST: Final = re.compile(r"[A-Za-z0-9_*](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9])?|[0-9A-Fa-f:.]{2,45}")
ROLE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,62}")


class CertFiles:
    """The certificates and keys of one directory: `NAME.cert.pem` and `NAME.key.pem`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def cert(self, name: str) -> Path:
        """Return the path of the certificate of this name, which for clients is the role."""
        return self.directory / f"{name}.cert.pem"

    def key(self, name: str) -> Path:
        """Return the path of the key of this name."""
        return self.directory / f"{name}.key.pem"

    @property
    def has_authority(self) -> bool:
        """Whether the directory has an authority."""
        return self.cert(AUTHORITY).exists() or self.key(AUTHORITY).exists()

    def create(self, hosts: Iterable[str], days: int) -> None:
        """Create an authority, and a certificate for the broker; FileProblem if there is one."""
        from magnetar.cli.setup.authority import Authority  # noqa: PLC0415 (heavy)

        make_directory(self.directory)
        for name in (AUTHORITY, SERVER):
            for path in (self.cert(name), self.key(name)):
                if path.exists():
                    raise FileProblem(
                        f"{path} exists, and is not overwritten: --client ROLE adds a certificate, "
                        "--renew replaces the broker's, and another directory starts over"
                    )
        authority = Authority.new(f"Magnetar development authority of {socket.gethostname()}"[:64])
        self._write(AUTHORITY, authority.as_issued)
        self._write(SERVER, authority.server(_with_usual(hosts), days))

    def add_client(self, role: str, days: int) -> None:
        """Add a certificate for clients of this role."""
        if not ROLE.fullmatch(role) or role in (AUTHORITY, SERVER):
            raise FileProblem(
                f"the role {role!r} cannot be a file's name: expected letters, digits, _ . @ and "
                f"-, and neither {AUTHORITY} nor {SERVER}"
            )
        self._write(role, self._authority().client(role, days))

    def renew(self, hosts: Iterable[str], days: int) -> None:
        """Replace the certificate for the broker's key, for the former hosts and these.

        Only one file changes, so a broker that reads both at any time finds a matching pair.
        """
        from magnetar.cli.setup.authority import hosts_of  # noqa: PLC0415 (heavy)

        authority = self._authority()
        try:
            former = hosts_of(self.cert(SERVER).read_bytes())
            named = list(dict.fromkeys([*former, *_checked(hosts)]))
            issued = authority.server(named, days, self.key(SERVER).read_bytes())
        except (OSError, ValueError, TypeError) as error:
            raise FileProblem(f"{self.cert(SERVER)}: {error}") from None
        replace_file(self.cert(SERVER), issued.certificate, PUBLIC)

    def _authority(self) -> "Authority":
        from magnetar.cli.setup.authority import Authority  # noqa: PLC0415 (heavy)

        try:
            return Authority.load(
                self.cert(AUTHORITY).read_bytes(), self.key(AUTHORITY).read_bytes()
            )
        except OSError as error:
            raise FileProblem(
                f"{error.filename}: {error.strerror}; `magnetar certs {self.directory}` makes an "
                "authority"
            ) from None
        except (ValueError, TypeError) as error:
            raise FileProblem(f"the authority in {self.directory}: {error}") from None

    def _write(self, name: str, issued: "Issued") -> None:
        write_new(self.key(name), issued.key)
        write_new(self.cert(name), issued.certificate, PUBLIC)


def _with_usual(hosts: Iterable[str]) -> list[str]:
    """Return the given hosts, the usual ones of this machine, and its own name."""
    own = [name for name in [socket.gethostname()] if HOST.fullmatch(name)]
    return list(dict.fromkeys([*_checked(hosts), *ALWAYS, *own]))


def _checked(hosts: Iterable[str]) -> list[str]:
    found = list(hosts)
    for host in found:
        if not HOST.fullmatch(host):
            raise FileProblem(
                f"the host {host!r} is not valid: expected a DNS name or an IP address"
            )
    return found
