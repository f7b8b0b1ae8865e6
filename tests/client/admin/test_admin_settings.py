"""Where a broker is and how to log in, from flags and `client.conf`."""

from base64 import b64decode
from pathlib import Path

import pytest

from magnetar.admin.settings import AdminSettings, authentication_of, settings_from
from magnetar.base.base_errors import CredentialsError
from magnetar.security.client_conf import SettingsError, read_conf

CONF = """\
# comments, and lines that are none
! webServiceUrl=http://not-this
webServiceUrl=http://broker:8080/
authPlugin = org.apache.pulsar.client.impl.auth.AuthenticationToken
authParams=token:a=b
tlsAllowInsecureConnection=true
tlsEnableHostnameVerification=false
tlsTrustCertsFilePath=
garbage
"""
TOKEN_CLASS = "org.apache.pulsar.client.impl.auth.AuthenticationToken"


def headers_of(settings: AdminSettings) -> dict[str, str]:
    found = authentication_of(settings)
    assert found is not None
    return found.headers()


def test_a_client_conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "client.conf"
    file.write_text(CONF)
    monkeypatch.setenv("PULSAR_CLIENT_CONF", str(file))
    conf = read_conf(None)
    found = settings_from(conf)
    assert found == AdminSettings(
        url="http://broker:8080/",
        auth_plugin=TOKEN_CLASS,
        auth_params="token:a=b",
        tls_allow_insecure=True,
        tls_hostname_verification=False,
    )
    assert headers_of(found) == {"Authorization": "Bearer a=b"}
    flags = settings_from(conf, url="https://x", tls_hostname_verification=True, timeout_s=5.0)
    assert (flags.url, flags.timeout_s, flags.tls_hostname_verification) == ("https://x", 5, True)


def test_without_a_client_conf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PULSAR_CLIENT_CONF", raising=False)
    assert settings_from(read_conf(None)) == AdminSettings()
    assert settings_from({"serviceUrl": "http://old"}).url == "http://old"


@pytest.mark.parametrize("parameters", ["token:abc", "abc", ' {"token": "abc"}', "env:A_TOKEN"])
def test_tokens(parameters: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "abc")
    for plugin in ("token", TOKEN_CLASS):
        settings = AdminSettings(auth_plugin=plugin, auth_params=parameters)
        assert headers_of(settings) == {"Authorization": "Bearer abc"}


def test_a_token_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "a token"
    file.write_text("abc\n")
    for path in (file, str(file).replace(" ", "%20")):
        settings = AdminSettings(auth_plugin="token", auth_params=f"file://{path}")
        assert headers_of(settings) == {"Authorization": "Bearer abc"}
    with pytest.raises(CredentialsError, match="No such file"):
        headers_of(AdminSettings(auth_plugin="token", auth_params=f"file://{file}x"))


@pytest.mark.parametrize(
    "parameters", ['{"userId": "me", "password": "a:b"}', "userId:me,password:a:b"]
)
def test_basic(parameters: str) -> None:
    (header,) = headers_of(AdminSettings(auth_plugin="basic", auth_params=parameters)).values()
    assert b64decode(header.removeprefix("Basic ")) == b"me:a:b"


def test_certificates() -> None:
    parameters = "tlsCertFile:/c,tlsKeyFile:/k"
    settings = AdminSettings("https://x", auth_plugin="tls", auth_params=parameters)
    found = authentication_of(settings)
    assert found is not None and found.certificate == ("/c", "/k")
    with pytest.raises(SettingsError, match="needs https://"):
        authentication_of(AdminSettings(auth_plugin="tls", auth_params=parameters))
    of_conf = settings_from({"tlsCertificateFilePath": "/c", "tlsKeyFilePath": "/k"})
    assert (of_conf.tls_cert_path, of_conf.tls_key_path) == ("/c", "/k")


def test_no_setting_shows_a_secret() -> None:
    settings = AdminSettings(auth_plugin="token", auth_params="token:secret")
    assert "secret" not in f"{settings}{settings!r}{authentication_of(settings)!r}"


@pytest.mark.parametrize("token", ["", "token:", "a b", "ä", "env:DOES_NOT_EXIST", "{x"])
def test_what_is_no_token(token: str) -> None:
    with pytest.raises(SettingsError, match="--auth-params"):
        authentication_of(AdminSettings(auth_plugin="token", auth_params=token))
