"""API tokens, the admin's password, and the sessions of browsers that signed in with either."""

from __future__ import annotations

from sqlalchemy import ForeignKey
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column
from sqlalchemy.types import Text

from pipeline_core.database.models.base import Base, Timestamp


class Token(Base):
    """A random token, stored as its SHA-256. With `own_only` it gives access only to jobs whose user is `forwho`."""

    __tablename__ = "tokens"

    id: Mapped[str] = mapped_column(primary_key=True)
    hash: Mapped[str] = mapped_column(unique=True)
    forwho: Mapped[str]
    note: Mapped[str] = mapped_column(default="")
    privileges: Mapped[list[str]] = mapped_column(ARRAY(Text))
    own_only: Mapped[bool] = mapped_column(default=False)
    created_at: Mapped[Timestamp]
    expires_at: Mapped[Timestamp | None]
    last_used_at: Mapped[Timestamp | None]


class AdminPassword(Base):
    """A single row, once the admin's password was stored. `version` grows with every change."""

    __tablename__ = "admin_password"

    id: Mapped[int] = mapped_column(primary_key=True, default=1)
    hash: Mapped[str]
    version: Mapped[int] = mapped_column(default=1)
    changed_at: Mapped[Timestamp]


class BrowserSession(Base):
    """A browser that signed in; `hash` is the SHA-256 of what its cookie contains.

    It has either the token that it signed in with, or, if it is the admin's, the hash (argon2id) of the password then.
    """

    __tablename__ = "browser_sessions"

    hash: Mapped[str] = mapped_column(primary_key=True)
    token_id: Mapped[str | None] = mapped_column(ForeignKey("tokens.id", ondelete="CASCADE"), index=True)
    password_hash: Mapped[str | None]
    created_at: Mapped[Timestamp]
    seen_at: Mapped[Timestamp] = mapped_column(index=True)
