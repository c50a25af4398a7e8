"""Encryption of secrets at rest (Fernet), with the keys of `PIPELINE_SECRET_KEY`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline_core.errors import ConfigurationError
from pipeline_core.runtime import part
from pipeline_core.settings import settings

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

# cryptography is imported by its first use: most processes meet no secret in most of their time, and it takes 10 MB.


def encrypt(text: str) -> str:
    """`text` encrypted with the first key. Raises ConfigurationError without a valid key."""
    return _cipher().encrypt(text.encode()).decode()


def decrypt(token: str) -> str:
    """The plain text of what `encrypt` returned, by any of the keys. Raises ConfigurationError when none of them fits."""
    from cryptography.fernet import InvalidToken

    try:
        return _cipher().decrypt(token.encode()).decode()
    except InvalidToken:
        raise ConfigurationError(
            "a stored secret cannot be decrypted with any key of PIPELINE_SECRET_KEY; add the one it was stored with"
        ) from None


def rotate(token: str) -> str:
    """The same secret, encrypted with the first key. Raises ConfigurationError when none of the keys fits it."""
    return encrypt(decrypt(token))


@part
def _cipher() -> MultiFernet:
    from cryptography.fernet import Fernet, MultiFernet

    words = [word.strip() for word in settings().secret_key.split(",") if word.strip()]
    if not words:
        raise ConfigurationError("PIPELINE_SECRET_KEY is not set, so secrets can be neither stored nor read")
    try:
        return MultiFernet([Fernet(word) for word in words])
    except ValueError:
        raise ConfigurationError(
            "PIPELINE_SECRET_KEY must be keys of 32 bytes as URL-safe base64, comma-separated"
        ) from None
