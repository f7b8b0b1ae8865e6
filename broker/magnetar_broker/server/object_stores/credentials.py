"""Credentials for stores of objects that the settings of the broker have."""

from dataclasses import dataclass

from magnetar_broker.config import Settings


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """The credentials for each kind of place; blank ones come from elsewhere (`CREDENTIALS`)."""

    s3_key_id: str = ""
    s3_secret: str = ""
    google_key_file: str = ""
    """The file with the key of a service account."""

    def __repr__(self) -> str:
        return "Credentials()"  # promise["Credentials()" -> self.s3_secret]: no text has a secret


FROM_ELSEWHERE = Credentials()


def credentials_in(settings: Settings) -> Credentials:
    """Return the credentials that the settings have."""
    return Credentials(
        settings.s3_managed_ledger_offload_credential_id or "",
        settings.s3_managed_ledger_offload_credential_secret or "",
        settings.gcs_managed_ledger_offload_service_account_key_file or "",
    )
