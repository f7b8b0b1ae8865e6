"""Faults of the routes of the admin API, what is said about them, and the audit log."""

from mutants.fault import Fault

AUDIT = "broker/magnetar_broker/server/audit.py"
OF_AUDIT = ("tests/broker/server/test_audit.py",)
OF_ROUTES = ("tests/broker/server/test_routes.py",)

REST_FAULTS: tuple[Fault, ...] = (
    Fault(
        "broker/magnetar_broker/server/admin/brokers.py",
        "a route names another process than the one it runs in",
        'health", SUPER_USER, ALL, health',
        'health", SUPER_USER, CONTROLLER, health',
        OF_ROUTES,
    ),
    Fault(
        "broker/magnetar_broker/server/admin/topic_properties.py",
        "a parameter of the query is not declared",
        "remove_property, query=(KEY,)",
        "remove_property, query=()",
        OF_ROUTES,
    ),
    Fault(
        "broker/magnetar_broker/server/http/errors.py",
        "kinds of a refusal do not have its status",
        "next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)",
        "STATUSES.get(type(error), 500)",
        ("tests/broker/server/test_http_errors.py",),
    ),
    Fault(
        "broker/magnetar_broker/server/admin/clusters.py",
        "empty texts of a cluster are taken for values",
        'if value is None or value == "":',
        "if value is None:",
        ("tests/broker/server/test_clusters.py",),
    ),
    Fault(
        "broker/magnetar_broker/policies/document.py",
        "empty texts of a namespace's policies are taken for values",
        'if value not in (None, "", member.when_unset):',
        "if value not in (None, member.when_unset):",
        ("tests/broker/server/test_permissions.py",),
    ),
    Fault(
        AUDIT,
        "reads that lack a permission are not in the audit log",
        "if not changes and status not in NO_PERMISSION:",
        "if not changes:",
        OF_AUDIT,
    ),
    Fault(
        AUDIT,
        "refusals fill the audit log without a limit",
        "if self._refused <= self._refusals_per_second:",
        "if self._refused:",
        OF_AUDIT,
    ),
    Fault(
        AUDIT,
        "changes are left out of the audit log where many requests are refused",
        "if refused and not self._may_write_refusal():",
        "if not self._may_write_refusal():",
        OF_AUDIT,
    ),
    Fault(
        AUDIT,
        "a request can forge lines of the audit log",
        'written["reason"] = (why or _reason(response))[:LONGEST]\n'
        "        logger.log(logging.WARNING if refused else logging.INFO, json.dumps(written))",
        'written["reason"] = (why or _reason(response))[:LONGEST]\n'
        "        logger.log(logging.WARNING if refused else logging.INFO, str(written))",
        OF_AUDIT,
    ),
    Fault(
        "broker/magnetar_broker/server/http_server.py",
        "reads by POST are in the audit log",
        "            changes = route.changes(request.query)\n",
        "",
        OF_AUDIT,
    ),
)
