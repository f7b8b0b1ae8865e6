"""Authorization of authenticated roles."""

from magnetar_broker.config.domains import FLAG
from magnetar_broker.config.sections.section import section, setting
from magnetar_broker.config.values import Text, Texts


@section("Authorization")
class Authorization:
    """Grants of namespaces, topics and subscriptions; deny by default."""

    authorization_enabled: bool = setting(
        FLAG,
        "Check every command and every HTTP request against the permissions of its role. "
        "Needs `authenticationEnabled`.",
        default=False,
    )
    super_user_roles: tuple[str, ...] = setting(
        Texts(Text(r".+", "the name of a role")),
        "Roles that may do everything.",
        default=(),
        dynamic=True,
    )
    authorization_allow_wildcards_matching: bool = setting(
        FLAG,
        "Whether grants to `prefix*` and `*suffix` apply to all matching roles.",
        default=False,
    )
