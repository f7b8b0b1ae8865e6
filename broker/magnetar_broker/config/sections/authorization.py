"""What authenticated roles may do."""

from typing import Annotated

from magnetar_broker.config.domains import FLAG
from magnetar_broker.config.sections.section import section
from magnetar_broker.config.values import Key, Text, Texts

PROVIDER = "org.apache.pulsar.broker.authorization.PulsarAuthorizationProvider"


@section
class Authorization:
    """Grants of namespaces, topics and subscriptions; deny by default."""

    authorization_enabled: Annotated[
        bool,
        Key(
            "authorizationEnabled",
            FLAG,
            "Check every command and every HTTP request against the permissions of its role. "
            "Needs `authenticationEnabled`.",
        ),
    ] = False
    authorization_provider: Annotated[
        str,
        Key(
            "authorizationProvider",
            Text(
                r"(org\.apache\.pulsar\.broker\.authorization\.)?PulsarAuthorizationProvider",
                PROVIDER,
            ),
            "The class that decides in Pulsar; this broker has the rules of this one.",
        ),
    ] = PROVIDER
    super_user_roles: Annotated[
        tuple[str, ...],
        Key(
            "superUserRoles",
            Texts(Text(r".+", "the name of a role")),
            "Roles that may do everything.",
            dynamic=True,
        ),
    ] = ()
    authorization_allow_wildcards_matching: Annotated[
        bool,
        Key(
            "authorizationAllowWildcardsMatching",
            FLAG,
            "Grants to `prefix*` and `*suffix` are grants to all roles that match.",
        ),
    ] = False
