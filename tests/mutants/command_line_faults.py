"""Faults of `magnetar admin`, of what clients check and show, and of who may connect."""

from mutants.fault import Fault

ADMIN = "client/magnetar/admin"
TESTS = "tests/client/admin"

COMMAND_LINE_FAULTS: tuple[Fault, ...] = (
    Fault(
        f"{ADMIN}/client.py",
        "a connection that the broker closed while it was idle is not opened again",
        '            if reused and method == "GET" and isinstance(error, ConnectionError):\n',
        "            if False:\n",
        (f"{TESTS}/test_admin_client.py",),
    ),
    Fault(
        f"{ADMIN}/client.py",
        "a change goes over a connection that may be closed",
        '        if method != "GET":\n            self.close()\n',
        "",
        (f"{TESTS}/test_admin_client.py",),
    ),
    Fault(
        f"{ADMIN}/client.py",
        "a redirect from https leads to http, with the token",
        "if leaves_tls or where",
        "if where",
        (f"{TESTS}/test_admin_ways.py",),
    ),
    Fault(
        f"{ADMIN}/units.py",
        "less than a unit becomes 0, which has another meaning",
        "    if amount < unit:\n",
        "    if amount < 0:\n",
        (f"{TESTS}/test_units.py",),
    ),
    Fault(
        f"{ADMIN}/settings.py",
        "the host in a certificate is not checked",
        '"tlsEnableHostnameVerification", tls_hostname_verification, True',
        '"tlsEnableHostnameVerification", tls_hostname_verification, False',
        (f"{TESTS}/test_admin_settings.py",),
    ),
    Fault(
        f"{ADMIN}/groups/tenants.py",
        "what is not given is removed from a tenant",
        '            values["admin_roles"] = found["adminRoles"]\n',
        '            values["admin_roles"] = []\n',
        (f"{TESTS}/test_admin_usage.py",),
    ),
    Fault(
        "client/magnetar/connection.py",
        "a client asked for new credentials shows the former ones",
        "self._security.credentials(renewed=True)",
        "self._security.credentials()",
        ("tests/client/test_connection.py",),
    ),
    Fault(
        "client/magnetar/connection.py",
        "a renewal that is refused ends what the application has open",
        "            expired = isinstance(error, NotAuthenticated)\n",
        "            expired = False\n",
        ("tests/client/test_connection.py",),
    ),
    Fault(
        "client/magnetar/oauth2.py",
        "a token of an issuer is used until it has expired",
        "fetched_s + life_s * (1 - LEFT_OF_LIFE)",
        "fetched_s + life_s",
        ("tests/client/test_oauth2.py",),
    ),
    Fault(
        "client/magnetar/oauth2.py",
        "the secret of a client goes to an issuer without TLS",
        '    if where.scheme == "http" and _is_here(host):\n',
        '    if where.scheme == "http":\n',
        ("tests/client/test_oauth2.py",),
    ),
    Fault(
        "client/magnetar/setup/files.py",
        "a key file that exists is overwritten",
        "os.O_WRONLY | os.O_CREAT | os.O_EXCL",
        "os.O_WRONLY | os.O_CREAT",
        ("tests/client/setup/test_tokens.py",),
    ),
    Fault(
        "broker/magnetar_broker/config/exposure.py",
        "a broker that asks nobody who they are is open to other machines",
        "        or settings.allow_unauthenticated_bind\n",
        "        or True\n",
        ("tests/broker/server/test_exposure.py",),
    ),
    Fault(
        "client/magnetar/tls.py",
        "the client accepts a certificate of another host",
        "    if tls.allow_insecure or not tls.verify_hostname:\n",
        "    if True:\n",
        ("tests/client/test_client_tls.py",),
    ),
    Fault(
        "client/magnetar/tls.py",
        "the client accepts a certificate of any authority",
        "    if tls.allow_insecure:\n        context.verify_mode",
        "    if True:\n        context.check_hostname = False\n        context.verify_mode",
        ("tests/client/test_client_tls.py",),
    ),
    Fault(
        "client/magnetar/pool.py",
        "a lookup leads a client with TLS to an address without",
        "if self._is_tls and not address.is_tls:",
        "if False:",
        ("tests/client/test_client_tls.py",),
    ),
    Fault(
        "client/magnetar/pool.py",
        "a client with TLS follows the address without it",
        "(tls_url or plain_url) if self._is_tls else",
        "(plain_url or tls_url) if self._is_tls else",
        ("tests/client/test_client_tls.py",),
    ),
)
