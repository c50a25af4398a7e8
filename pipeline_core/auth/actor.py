"""Who does something: the value that goes with every change."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pipeline_core.auth.privileges import Privilege
from pipeline_core.errors import Forbidden

ADMIN = "admin"


@dataclass(frozen=True, kw_only=True, slots=True)
class Actor:
    """The bearer of a token, or the admin, or the service itself (`SYSTEM`).

    `name` is the token's `forwho`. An `own_only` actor sees only what belongs to the user of that name. Tokens that it
    creates are valid no longer than until `expires_at`, if that is set. `address` and `request_id` say where the request
    came from, for the audit log.
    """

    name: str
    token_id: str = ""
    privileges: frozenset[Privilege] = frozenset()
    admin: bool = False
    own_only: bool = False
    expires_at: datetime | None = None
    address: str = ""
    request_id: str = ""

    def may(self, privilege: Privilege) -> bool:
        return self.admin or privilege in self.privileges

    def sees(self, user_id: str) -> bool:
        """Whether jobs, runs, deliveries and tokens of this user are this actor's business."""
        return not self.own_only or user_id == self.name

    def require_may_submit_for(self, user_id: str) -> None:
        """Raises Forbidden when jobs of this user are not this actor's to submit."""
        if not self.sees(user_id):
            raise Forbidden(f'This token may submit for "{self.name}" only, not for userID "{user_id}".')

    def require(self, privilege: Privilege) -> None:
        """Raises Forbidden when the actor lacks the privilege."""
        if not self.may(privilege):
            raise Forbidden(f"This token lacks the privilege {privilege}.")


SYSTEM = Actor(name="pipeline", admin=True)
