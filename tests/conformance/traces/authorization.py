"""What roles may do: `alice` has the grants that a trace names, `bob` none, `root` may do all."""

from typing import Any, Final

from conformance import authenticated
from conformance.authenticated import token
from conformance.differences import Difference, differs
from conformance.trace import Peer, Trace, open_topic
from conformance.traces.seeks import EMPTY
from magnetar_proto import PulsarApi_pb2 as pb

SETTINGS: Final = {
    **authenticated.SETTINGS,
    "authorizationEnabled": "true",
    "superUserRoles": "root,broker",
    "proxyRoles": "proxy",
}
SCHEMAS: Final = Difference(
    "schemas of a topic, for a role without a grant on it",
    "are answered, and may be added",
    "AuthorizationError",
)
OF_BROKERS: Final = Difference(
    "`__change_events` of a namespace, for a role with `produce` on the namespace",
    "may be published to",
    "AuthorizationError: only super-users may",
)
ALL: Final = Difference(
    "`clearBacklog` and `expireMessages` of all subscriptions, where one is for other roles",
    "skip the messages of that one, too",
    "are refused, and skip nothing; the reason names the subscription",
)
TEXT: Final = pb.Schema(name="", type=pb.Schema.String, schema_data=b"")


def _credentials(role: str, **fields: Any) -> dict[str, Any]:
    return {"auth_method_name": "token", "auth_data": token(role), **fields}


def _connects(t: Trace, role: str, **fields: Any) -> Peer:
    """A client with this role."""
    t.lines.append(" ".join([f"- the role of the next client is {role}", *fields.values()]))
    return t.connects(**_credentials(role, **fields))


def _is(t: Trace, role: str) -> None:
    """Whose the requests over HTTP are from now on; nobody's if it is blank."""
    t.lines.append(f"- the role of the next requests is {role}" if role else "- nobody's requests")
    t.headers = {"Authorization": f"Bearer {token(role).decode()}"} if role else {}


def _granted(t: Trace, **actions: str) -> str:
    """A namespace with these grants, in which the topic of the trace will be."""
    namespace = f"public/{t.token}"
    _is(t, "root")
    t.rest("PUT", f"namespaces/{namespace}", {"bundles": {"numBundles": 1}})
    for role, granted in actions.items():
        t.rest("POST", f"namespaces/{namespace}/permissions/{role}", granted.split())
    open_topic(t.target, f"persistent://{namespace}/warm-up", **_credentials("root"))
    t.topic = f"persistent://{namespace}/topic"
    t.path = f"persistent/{namespace}/topic"
    return namespace


# Commands of a role without grants ------------------------------------------------------


def a_lookup_of_a_role_without_grants(t: Trace) -> None:
    _granted(t)
    _connects(t, "bob").looks_up(t.topic)


def the_partitions_for_a_role_without_grants(t: Trace) -> None:
    _granted(t)
    _connects(t, "bob").asks_partitions(t.topic)


def a_producer_of_a_role_without_grants(t: Trace) -> None:
    _granted(t, alice="consume")
    for role in ("bob", "alice"):
        _connects(t, role).produces()


def a_consumer_of_a_role_without_grants(t: Trace) -> None:
    _granted(t, alice="produce")
    for role in ("bob", "alice"):
        _connects(t, role).subscribes()


def the_topics_of_a_namespace_for_a_role_without_grants(t: Trace) -> None:
    namespace = _granted(t)
    command = pb.CommandGetTopicsOfNamespace(request_id=0, namespace=namespace)
    _connects(t, "bob").asks(command)


def a_watch_of_topics_by_a_role_without_grants(t: Trace) -> None:
    namespace = _granted(t)
    pattern = f"persistent://{namespace}/.*"
    command = pb.CommandWatchTopicList(
        request_id=0, watcher_id=1, namespace=namespace, topics_pattern=pattern
    )
    _connects(t, "bob").asks(command)


@differs(SCHEMAS)
def a_schema_for_a_role_without_grants(t: Trace) -> None:
    _granted(t)
    _connects(t, "bob").asks(pb.CommandGetSchema(request_id=0, topic=t.topic))


@differs(SCHEMAS)
def a_new_schema_of_a_role_without_grants(t: Trace) -> None:
    _granted(t)
    command = pb.CommandGetOrCreateSchema(request_id=0, topic=t.topic, schema=TEXT)
    _connects(t, "bob").asks(command)


def commands_for_consumers_that_a_refused_client_does_not_have(t: Trace) -> None:
    _granted(t)
    a = _connects(t, "bob")
    a.subscribes()
    a.asks(pb.CommandSeek(consumer_id=1, request_id=0, message_publish_time=1))
    a.asks(pb.CommandUnsubscribe(consumer_id=1, request_id=0))
    a.asks(pb.CommandGetLastMessageId(consumer_id=1, request_id=0))


def a_refused_client_goes_on(t: Trace) -> None:
    _granted(t, alice="produce")
    a = _connects(t, "alice")
    a.subscribes()
    a.produces()
    a.publishes()


def a_topic_of_a_namespace_that_does_not_exist(t: Trace) -> None:
    _granted(t)
    a = _connects(t, "bob")
    a.looks_up(f"persistent://public/{t.token}-none/topic")
    a.asks_partitions(f"persistent://public/{t.token}-none/topic")


# Commands of a role with grants ---------------------------------------------------------


def what_produce_permits(t: Trace) -> None:
    _granted(t, alice="produce")
    a = _connects(t, "alice")
    a.looks_up(t.topic)
    a.asks_partitions(t.topic)
    a.produces()
    a.publishes()
    a.produces(producer_id=2, initial_subscription_name="initial")


@differs(EMPTY)
def what_consume_permits(t: Trace) -> None:
    _granted(t, alice="consume")
    a = _connects(t, "alice")
    a.looks_up(t.topic)
    a.asks_partitions(t.topic)
    a.subscribes()
    a.asks(pb.CommandGetLastMessageId(consumer_id=1, request_id=0))
    a.asks(pb.CommandUnsubscribe(consumer_id=1, request_id=0))


def a_seek_of_a_role_with_consume(t: Trace) -> None:
    _granted(t, alice="consume", carol="produce")
    b = _connects(t, "carol")
    b.produces()
    b.publishes(2)
    a = _connects(t, "alice")
    a.subscribes()
    a.asks(pb.CommandSeek(consumer_id=1, request_id=0, message_id=b.published[1]))
    a.awaits(pb.BaseCommand.CLOSE_CONSUMER)


def a_grant_on_a_topic_that_does_not_exist(t: Trace) -> None:
    _granted(t)
    t.rest("POST", f"{t.path}/permissions/alice", ["produce"])
    a = _connects(t, "alice")
    a.looks_up(t.topic)
    a.produces()
    a.produces(f"{t.topic}-other", producer_id=2)
    a.produces(f"{t.topic}-partition-0", producer_id=3)


def a_super_user_needs_no_grant(t: Trace) -> None:
    namespace = _granted(t)
    a = _connects(t, "root")
    a.looks_up(t.topic)
    a.produces()
    a.subscribes()
    a.asks(pb.CommandGetTopicsOfNamespace(request_id=0, namespace=namespace))


def a_subscription_of_other_roles(t: Trace) -> None:
    namespace = _granted(t, alice="consume", carol="consume")
    t.rest("POST", f"namespaces/{namespace}/permissions/subscription/sub", ["carol"])
    _connects(t, "carol").subscribes(pb.CommandSubscribe.Shared)
    a = _connects(t, "alice")
    a.subscribes(pb.CommandSubscribe.Shared)
    a.subscribes(pb.CommandSubscribe.Shared, 2, subscription="other")


def names_of_subscriptions_that_must_begin_with_the_role(t: Trace) -> None:
    namespace = _granted(t, alice="consume")
    t.rest("POST", f"namespaces/{namespace}/subscriptionAuthMode", "Prefix")
    a = _connects(t, "alice")
    a.subscribes()
    a.subscribes(consumer_id=2, subscription="alice-sub")


def a_proxy_and_its_client_need_the_permission(t: Trace) -> None:
    _granted(t, alice="produce", proxy="produce consume")
    a = _connects(t, "proxy", original_principal="alice")
    a.produces()
    a.subscribes()
    _connects(t, "proxy", original_principal="bob").produces()


@differs(OF_BROKERS)
def topics_that_brokers_keep_for_themselves(t: Trace) -> None:
    namespace = _granted(t, alice="produce consume")
    a = _connects(t, "alice")
    a.produces(f"persistent://{namespace}/__change_events")


# Requests over HTTP ---------------------------------------------------------------------


def _requests(t: Trace, namespace: str) -> None:
    """One of each kind; all of them are refused to ordinary roles."""
    space, topic = f"namespaces/{namespace}", t.path
    t.web("GET", "tenants")
    t.web("GET", "tenants/public")
    t.web("PUT", f"tenants/{t.token}", {"adminRoles": [], "allowedClusters": ["standalone"]})
    t.web("DELETE", "tenants/public")
    t.web("GET", "namespaces/public")
    t.web("GET", space)
    t.web("PUT", f"{space}-other", {})
    t.web("DELETE", space)
    t.web("GET", f"{space}/permissions")
    t.web("POST", f"{space}/permissions/bob", ["produce"])
    t.web("GET", f"{space}/retention")
    t.web("POST", f"{space}/messageTTL", 60)
    t.web("PUT", f"{space}/unload")
    t.web("DELETE", topic)
    t.web("PUT", f"{topic}/unload")
    t.web("POST", f"{topic}/terminate")
    t.web("GET", f"{topic}/permissions")
    t.web("POST", f"{topic}/permissions/bob", ["produce"])
    t.web("GET", "clusters/standalone")
    t.web("PUT", "clusters/other", {"serviceUrl": "http://localhost:1"})
    t.web("GET", "brokers/configuration/values")
    t.web("POST", "brokers/configuration/maxConcurrentLookupRequest/1")


def requests_of_a_role_without_grants(t: Trace) -> None:
    namespace = _granted(t)
    _is(t, "bob")
    _requests(t, namespace)


def requests_without_credentials(t: Trace) -> None:
    namespace = _granted(t)
    _is(t, "")
    _requests(t, namespace)


def requests_of_an_ordinary_role(t: Trace) -> None:
    namespace = _granted(t, alice="produce consume")
    _is(t, "alice")
    _requests(t, namespace)


def _of_subscriptions(t: Trace, namespace: str) -> None:
    space, topic = f"namespaces/{namespace}", t.path
    t.web("GET", f"{topic}/stats", types=True)
    t.web("GET", f"{topic}/subscriptions")
    t.web("PUT", f"{topic}/subscription/own", "latest")
    t.web("POST", f"{topic}/subscription/sub/skip_all")
    t.web("POST", f"{topic}/subscription/sub/resetcursor/1")
    t.web("DELETE", f"{topic}/subscription/sub")
    t.web("POST", f"{space}/clearBacklog/sub")
    t.web("POST", f"{space}/unsubscribe/none")
    t.web("GET", f"/lookup/v2/topic/{topic}")
    t.web("GET", f"{topic}/partitions")


def requests_for_subscriptions_of_a_role_without_grants(t: Trace) -> None:
    namespace = _granted(t)
    _connects(t, "root").subscribes()
    _is(t, "bob")
    _of_subscriptions(t, namespace)


def requests_for_subscriptions_of_a_role_that_may_only_produce(t: Trace) -> None:
    namespace = _granted(t, alice="produce")
    _connects(t, "root").subscribes()
    _is(t, "alice")
    for method, path in (
        ("GET", f"{t.path}/subscriptions"),
        ("PUT", f"{t.path}/subscription/own"),
        ("POST", f"{t.path}/subscription/sub/skip_all"),
        ("POST", f"{t.path}/subscription/sub/resetcursor/1"),
        ("DELETE", f"{t.path}/subscription/sub"),
        ("POST", f"namespaces/{namespace}/clearBacklog/sub"),
        ("POST", f"namespaces/{namespace}/clearBacklog"),
    ):
        t.web(method, path, "latest" if method == "PUT" else None)


def requests_for_a_subscription_of_other_roles(t: Trace) -> None:
    namespace = _granted(t, alice="consume", carol="consume")
    t.rest("POST", f"namespaces/{namespace}/permissions/subscription/sub", ["carol"])
    _connects(t, "carol").subscribes()
    _is(t, "alice")
    for method, path in (
        ("POST", f"{t.path}/subscription/sub/skip_all"),
        ("POST", f"{t.path}/subscription/sub/resetcursor/1"),
        ("POST", f"{t.path}/subscription/sub/expireMessages/1"),
        ("DELETE", f"{t.path}/subscription/sub"),
    ):
        t.web(method, path)


@differs(ALL)
def requests_for_all_subscriptions_where_one_is_of_other_roles(t: Trace) -> None:
    namespace = _granted(t, alice="consume", carol="consume")
    t.rest("POST", f"namespaces/{namespace}/permissions/subscription/sub", ["carol"])
    a = _connects(t, "root")
    a.produces()
    a.publishes()
    _connects(t, "carol").subscribes()
    _is(t, "alice")
    t.web("POST", f"namespaces/{namespace}/clearBacklog")
    _is(t, "carol")
    t.web("POST", f"namespaces/{namespace}/clearBacklog")
