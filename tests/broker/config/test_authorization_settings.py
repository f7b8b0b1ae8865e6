"""Settings of authorization that the start refuses."""

import pytest

from magnetar_broker.config import ConfigError, Settings
from magnetar_broker.config.load import interpret

AUTHENTICATED = (
    "authenticationEnabled=true\nauthenticationProviders=token\ntokenSecretKey="
    "data:;base64,MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n"
)
PROVIDER = "org.apache.pulsar.broker.authorization.PulsarAuthorizationProvider"


def read(text: str) -> Settings:
    return interpret("a.conf", text, {}, {}).settings


def test_authorization_without_authentication_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"authorizationEnabled=true.*authenticationEnabled"):
        read("authorizationEnabled=true\n")
    assert read(f"{AUTHENTICATED}authorizationEnabled=true\n").authorization_enabled


@pytest.mark.parametrize("name", ["", PROVIDER, "PulsarAuthorizationProvider"])
def test_the_provider_may_be_named_as_in_pulsar(name: str) -> None:
    read(f"authorizationProvider={name}\n")


def test_another_provider_is_refused() -> None:
    why = rf"authorizationProvider=com\.example\.AllowAll: .*{PROVIDER}.*remove the key"
    with pytest.raises(ConfigError, match=why):
        read("authorizationProvider=com.example.AllowAll\n")


def test_several_super_users() -> None:
    assert read("superUserRoles=localhost, superUser,admin\n").super_user_roles == (
        "localhost",
        "superUser",
        "admin",
    )
