"""Passwords of a server of metadata, and the files of TLS."""

from pathlib import Path

import pytest

from certificates import Authority
from magnetar_broker.server.metadata_stores.access import MetadataAccess
from magnetar_broker.server.metadata_stores.etcd_gateway import tls_context
from magnetar_broker.server.metadata_stores.urls import MetadataRefused


def test_a_password_is_not_in_a_representation() -> None:
    assert "s3cret" not in repr(MetadataAccess(user="me", password="s3cret"))


def test_a_password_file_is_read_each_time(tmp_path: Path) -> None:
    file = tmp_path / "password"
    access = MetadataAccess(password="other", password_file=str(file))
    for text, password in (("one\n", "one"), ("two \r\n", "two "), ("é", "é")):
        file.write_bytes(text.encode())
        assert access.current_password() == password
    assert MetadataAccess(password="other").current_password() == "other"


def test_a_password_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    missing = MetadataAccess(password_file=str(tmp_path / "missing"))
    with pytest.raises(MetadataRefused, match="missing: No such file"):
        missing.current_password()
    (tmp_path / "binary").write_bytes(b"s3cret\xff")
    with pytest.raises(MetadataRefused, match="it is not UTF-8") as caught:
        MetadataAccess(password_file=str(tmp_path / "binary")).current_password()
    assert "s3cret" not in repr(caught.value)


def test_files_of_tls_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = authority.client("me")
    (tmp_path / "none").write_text("no certificate")
    for access, name in (
        (MetadataAccess(trusted_certificates_file=str(tmp_path / "missing")), "missing"),
        (MetadataAccess(trusted_certificates_file=str(tmp_path / "none")), "none"),
        (MetadataAccess(certificate_file=str(tmp_path / "none")), "none"),
        (MetadataAccess(certificate_file=str(tmp_path / "missing")), "missing"),
    ):
        with pytest.raises(MetadataRefused, match=f"cannot use .*/{name} for TLS"):
            tls_context(access)
    right = MetadataAccess(
        trusted_certificates_file=authority.trust,
        certificate_file=files.certificate,
        key_file=files.key,
    )
    assert len(tls_context(right).get_ca_certs()) == 1
