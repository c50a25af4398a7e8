"""Selectors as they were declared."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline_core.states import JobState, parse_states

MAX_CONDITIONS = 200
ANY_STATE = "*"


@dataclass(frozen=True, slots=True)
class Condition:
    """The text that `key` finds in a job's header is what `expect` describes."""

    name: str
    key: str
    expect: str

    def to_json(self) -> dict[str, object]:
        return {"name": self.name, "key": self.key, "expect": self.expect}


@dataclass(frozen=True, slots=True)
class Selector:
    """What one side declared, or both sides merged. An empty `expression` is none; `states` None was left out."""

    conditions: tuple[Condition, ...] = ()
    expression: str = ""
    states: tuple[str, ...] | None = None

    @property
    def job_states(self) -> frozenset[JobState]:
        """The states whose events a LifeHook is told of; all when none are named."""
        if self.states is None or self.states == (ANY_STATE,):
            return frozenset(JobState)
        return frozenset().union(*map(parse_states, self.states))

    def to_json(self) -> dict[str, object]:
        """The selector as plain JSON; `states` only when it was declared."""
        raw: dict[str, object] = {
            "conditions": [condition.to_json() for condition in self.conditions],
            "expression": self.expression,
        }
        if self.states is not None:
            raw["states"] = list(self.states)
        return raw
