"""The connection options that the source and the sink share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import magnetar
from magnetar.security.credentials import authentication_of
from magnetar.security.security import security_of
from pyspark_magnetar.options.option_table import CLIENT, SERVICE_URL


@dataclass(frozen=True, slots=True)
class Connecting:
    """The connection settings of a process; executors receive them, and read files there."""

    service_url: str
    auth_plugin: str = ""
    auth_params: str = field(default="", repr=False)
    trust_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    allow_insecure: bool = False
    verify_hostname: bool = True
    settings: magnetar.Settings = field(default_factory=magnetar.Settings)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Create the settings from all option values; ValueError names a missing option."""
        if values[SERVICE_URL] is None:
            raise ValueError(f"option {SERVICE_URL!r} is missing, such as pulsar://localhost:6650")

        def client(name: str) -> Any:
            return values[CLIENT + name]

        return cls(
            values[SERVICE_URL],
            client("authPluginClassName") or ("token" if client("authParams") else ""),
            client("authParams") or "",
            client("tlsTrustCertsFilePath"),
            client("tlsCertificateFilePath"),
            client("tlsKeyFilePath"),
            client("tlsAllowInsecureConnection"),
            client("tlsHostnameVerificationEnable"),
            magnetar.Settings(
                connect_timeout_s=client("connectionTimeoutMs") / 1000,
                operation_timeout_s=client("operationTimeoutMs") / 1000,
                keepalive_s=client("keepAliveIntervalSeconds"),
                listener_name=client("listenerName") or "",
            ),
        )

    def client(self) -> magnetar.Client:
        """Create a client; ValueError if credentials or files cannot be used.

        No error contains a secret.
        """
        try:
            auth = authentication_of(self.auth_plugin, self.auth_params)
        except magnetar.CredentialsError as error:
            reason = str(error)
            for theirs, ours in (("--auth-plugin", "authPluginClassName"),
                                 ("--auth-params", "authParams")):  # fmt: skip
                reason = reason.replace(theirs, f"option {CLIENT}{ours}")
            raise ValueError(reason) from None
        return magnetar.Client(
            self.service_url,
            self.settings,
            security_of(self.service_url, auth, self._tls()),
        )

    def _tls(self) -> magnetar.Tls:
        return magnetar.Tls(
            self.trust_file,
            self.cert_file,
            self.key_file,
            self.verify_hostname,
            self.allow_insecure,
        )
