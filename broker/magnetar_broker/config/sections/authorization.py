"""Authorization of authenticated roles."""

from typing import Annotated

from magnetar_broker.config.domains import FLAG
from magnetar_broker.config.sections.section import section
from magnetar_broker.config.values import Key, Text, Texts


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
            "Whether grants to `prefix*` and `*suffix` apply to all matching roles.",
        ),
    ] = False
