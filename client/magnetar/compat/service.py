"""The address of a client of the official API."""

from collections.abc import Callable

from magnetar.base.settings import parse_service_url
from magnetar.compat.authentication import Authentication
from magnetar.compat.checks import check, check_or_none
from magnetar.compat.exceptions import unsupported

_REMEDY = (
    "several addresses of one cluster are given as pulsar://host1:6650,host2:6650; for another "
    "cluster open another client"
)


class ServiceInfo:
    """The URL of a cluster with the credentials for it."""

    def __init__(
        self,
        service_url: str,
        authentication: Authentication | None = None,
        tls_trust_certs_file_path: str | None = None,
    ) -> None:
        check(str, service_url, "service_url")
        check_or_none(Authentication, authentication, "authentication")
        check_or_none(str, tls_trust_certs_file_path, "tls_trust_certs_file_path")
        self._service_url = service_url
        self._authentication = authentication
        self._trust_file = tls_trust_certs_file_path

    @classmethod
    def wrap(cls, service_info: "ServiceInfo") -> "ServiceInfo":
        """Return the object itself."""
        return service_info

    @property
    def service_url(self) -> str:
        return self._service_url

    @property
    def use_tls(self) -> bool:
        return parse_service_url(self._service_url)[0].is_tls

    @property
    def tls_trust_certs_file_path(self) -> str | None:
        return self._trust_file

    def __repr__(self) -> str:
        return (
            f"ServiceInfo(service_url={self.service_url!r}, use_tls={self.use_tls!r}, "
            f"tls_trust_certs_file_path={self.tls_trust_certs_file_path!r})"
        )


class ServiceInfoProvider:
    """Names the cluster to connect to, and later another one; not supported."""

    def __init__(self) -> None:
        raise unsupported("ServiceInfoProvider", _REMEDY)

    def initial_service_info(self) -> ServiceInfo:
        """Return the first cluster."""
        raise NotImplementedError

    def initialize(self, on_service_info_update: Callable[[ServiceInfo], None]) -> None:
        """Register a function that is called with every later cluster."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop the provider."""


class AutoClusterFailover:
    """A choice of clusters, for failover when one fails; not supported."""

    def __init__(
        self,
        primary: ServiceInfo,
        secondary: list[ServiceInfo],
        check_interval_ms: int = 5000,
        failover_threshold: int = 1,
        switch_back_threshold: int = 1,
    ) -> None:
        raise unsupported("AutoClusterFailover", _REMEDY)
