"""Faults of `magnetar admin`."""

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
)
