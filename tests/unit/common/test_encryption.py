from __future__ import annotations

from collections.abc import Callable

import pytest
from cryptography.fernet import Fernet

from pipeline_core.common.encryption import decrypt, encrypt
from pipeline_core.errors import ConfigurationError

OLD, NEW = (Fernet.generate_key().decode() for _ in range(2))


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch, fresh_runtime: Callable[[], None]) -> Callable[[str], None]:
    def set_keys(keys: str) -> None:
        monkeypatch.setenv("PIPELINE_SECRET_KEY", keys)
        fresh_runtime()

    return set_keys


def test_a_secret_comes_back_and_does_not_show(use) -> None:
    use(NEW)
    assert "hush" not in encrypt("hush ä")
    assert decrypt(encrypt("hush ä")) == "hush ä"


def test_an_old_key_still_decrypts_and_the_first_encrypts(use) -> None:
    use(OLD)
    stored = encrypt("hush")
    use(f"{NEW}, {OLD}")
    assert decrypt(stored) == "hush"
    again = encrypt("hush")
    use(NEW)
    assert decrypt(again) == "hush"
    with pytest.raises(ConfigurationError, match="cannot be decrypted with any key"):
        decrypt(stored)


@pytest.mark.parametrize(("keys", "words"), [("", "is not set"), (" , ", "is not set"), ("short", "32 bytes")])
def test_without_a_key_the_error_names_the_variable(use, keys: str, words: str) -> None:
    use(keys)
    with pytest.raises(ConfigurationError, match=f"PIPELINE_SECRET_KEY.*{words}"):
        encrypt("hush")
