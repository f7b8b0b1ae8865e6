"""Credentials for stores of objects that the settings of the broker have."""

from dataclasses import dataclass


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
