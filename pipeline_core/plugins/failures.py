"""The two ways in which a call goes wrong: the plugin was not to be had, or it answered badly."""

from __future__ import annotations

from pipeline_core.errors import PipelineError


class CallFailed(PipelineError):
    """The call brought no answer that can be used. `cause` is a short sentence, free of secrets."""

    def __init__(self, cause: str, *, attempts: int = 0) -> None:
        super().__init__(cause)
        self.cause = cause
        self.attempts = attempts


class NotToBeHad(CallFailed):
    """The plugin could not be reached or asked to be left alone; asking later may help.

    `attempts` counts the requests that were made, `retry_after` is how many seconds to wait if anyone said so.
    """

    def __init__(self, cause: str, *, attempts: int = 0, retry_after: float | None = None) -> None:
        super().__init__(cause, attempts=attempts)
        self.retry_after = retry_after


class NoRoom(NotToBeHad):
    """As many calls of the plugin as are allowed are under way. It says nothing about the plugin."""


class CircuitOpen(NotToBeHad):
    """The plugin failed so often that it is left alone for a while."""


class BadAnswer(CallFailed):
    """The plugin answered, but not with what was asked for; asking again would not help."""


class AddressRefused(BadAnswer):
    """The plugin's address may not be called."""
