"""What if: which of the stored jobs a feature would take part in if it were registered as given, beside the one that is.

Jobs are matched by their stored headers, with the matchers that the stages use. `tally` counts and does no I/O; `stored_jobs`
reads.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import islice
from typing import Any

from sqlalchemy import Text, cast, select
from sqlalchemy.orm import Session

from pipeline_core.auth.actor import Actor
from pipeline_core.database import transaction
from pipeline_core.database.models import Job, JobDocument
from pipeline_core.errors import Unavailable
from pipeline_core.features import snapshot
from pipeline_core.features.definition import FeatureDefinition
from pipeline_core.jobs import queries
from pipeline_core.jobs.queries import JobFilter
from pipeline_core.plugins.types import PluginType
from pipeline_core.runtime import part
from pipeline_core.selectors import Matcher, SelectorExplanation, compile

MOST_JOBS = 100_000
"""How many jobs are looked at; of more, the latest."""
EXAMPLES = 20
"""How many gained and lost jobs are named, the latest first."""
MOST_GROUPS = 100
"""How many kinds and users are counted by name, those with the most jobs."""
_COLUMNS: tuple[Any, ...] = (Job.id, Job.user_id, Job.kind, Job.created_at, cast(JobDocument.header, Text))
_PAGE = 1000
_REMEMBERED = 10_000
_TURN = 100
"""So many jobs are matched before other threads of the process get their turn: about half a millisecond."""


@dataclass(frozen=True, slots=True)
class StoredJob:
    """What of a stored job is matched and counted. `header` has the presets."""

    id: str
    user_id: str
    kind: str
    day: date
    header: Mapping[str, Any]


@dataclass(slots=True)
class Change:
    """Of some jobs: how many the new selector matches, and how many it gains and loses against the registered one."""

    matched: int = 0
    gained: int = 0
    lost: int = 0

    def count(self, jobs: int, *, before: bool, after: bool) -> None:
        """Count so many jobs that the registered selector matches or not (`before`), and the new one (`after`)."""
        self.matched += jobs * after
        self.gained += jobs * (after and not before)
        self.lost += jobs * (before and not after)

    def to_json(self) -> dict[str, int]:
        return {"matched": self.matched, "gained": self.gained, "lost": self.lost}


@dataclass(slots=True)
class PluginTally:
    """The jobs of one plugin. `after` is the matcher of its new selector, `before` that of the registered one, None for none.

    A plugin that would be removed has no `after`.
    """

    type: PluginType
    after: Matcher | None
    before: Matcher | None
    gained: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    _jobs: Counter[tuple[date, str, str, bool, bool]] = field(default_factory=Counter)

    def add(self, job: StoredJob, *, before: bool, after: bool) -> None:
        """Count a job that the registered selector matches or not (`before`), and the new one (`after`)."""
        if after or before:
            self._jobs[job.day, job.kind, job.user_id, before, after] += 1
        if after is not before:
            examples = self.gained if after else self.lost
            if len(examples) < EXAMPLES:
                examples.append(job.id)

    def to_json(self) -> dict[str, Any]:
        whole = Change()
        days, kinds, users = (defaultdict[str, Change](Change) for _ in range(3))
        for (day, kind, user_id, before, after), jobs in self._jobs.items():
            for change in (whole, days[day.isoformat()], kinds[kind], users[user_id]):
                change.count(jobs, before=before, after=after)
        return {
            "pluginType": self.type,
            "registered": self.before is not None,
            "removed": self.after is None,
            "effectiveJobSelector": self.after.selector.to_json() if self.after else None,
            **whole.to_json(),
            "byDay": [{"day": day, **change.to_json()} for day, change in sorted(days.items())],
            "byKind": _largest("kind", kinds),
            "byUser": _largest("userID", users),
            "gainedJobs": self.gained,
            "lostJobs": self.lost,
        }


class _Verdicts:
    """What a matcher decides, remembered by the texts that it looks at: most jobs differ in others."""

    def __init__(self, matcher: Matcher | None) -> None:
        self._matcher = matcher
        self._known: dict[tuple[str, ...], bool] = {}

    def of(self, header: Mapping[str, Any]) -> bool:
        """Whether it matches a job with this header; not, if there is no matcher."""
        if self._matcher is None:
            return False
        texts = self._matcher.texts(header)
        found = self._known.get(texts)
        if found is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            found = self._known[texts] = self._matcher.matches(header)
        return found


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The tallies by plugin; `complete` unless there were more jobs than are looked at. `explained` has, for one job that was
    asked for, the value of each condition by plugin type."""

    jobs: int
    complete: bool
    plugins: tuple[PluginTally, ...]
    explained: Mapping[PluginType, SelectorExplanation]

    def to_json(self) -> dict[str, Any]:
        return {
            "jobs": self.jobs,
            "complete": self.complete,
            "plugins": [
                {
                    **plugin.to_json(),
                    "explanation": found.to_json() if (found := self.explained.get(plugin.type)) else None,
                }
                for plugin in self.plugins
            ],
        }


def what_if(
    definition: FeatureDefinition, actor: Actor, start_at: datetime | None, end_at: datetime | None, job_id: str | None
) -> WhatIf:
    """Match the jobs submitted in a span of time that the actor may see, the latest MOST_JOBS of them.

    `job_id` is one whose conditions are explained, in the span or not. Raises NotFound when the actor sees no such job, and
    Unavailable while this process answers another one.
    """
    with transaction() as session:
        plugins = _plugins(session, definition)
        header = _header(session, job_id, actor) if job_id else None
    jobs = stored_jobs(JobFilter(start_at=start_at, end_at=end_at), actor)
    if not _one_at_a_time().acquire(blocking=False):
        raise Unavailable("This process looks through the stored jobs for somebody else; try again.", retry_after=5)
    try:
        count = tally(plugins, islice(jobs, MOST_JOBS))
    finally:
        _one_at_a_time().release()
    explained = {} if header is None else {one.type: one.after.explain(header) for one in plugins if one.after}
    return WhatIf(count, next(jobs, None) is None, plugins, explained)


def tally(plugins: Sequence[PluginTally], jobs: Iterable[StoredJob]) -> int:
    """Count all jobs for all plugins. Returns how many jobs there were."""
    verdicts: dict[Any, _Verdicts] = {}
    pairs = [
        tuple(verdicts.setdefault(_rule(matcher), _Verdicts(matcher)) for matcher in (plugin.before, plugin.after))
        for plugin in plugins
    ]
    count = 0
    for count, job in enumerate(jobs, 1):
        decided = {each: each.of(job.header) for each in verdicts.values()}
        for plugin, (before, after) in zip(plugins, pairs, strict=True):
            plugin.add(job, before=decided[before], after=decided[after])
        if count % _TURN == 0:
            # Lets another thread have the interpreter, which otherwise waits for its switch interval each time.
            time.sleep(0)
    return count


def stored_jobs(chosen: JobFilter, actor: Actor) -> Iterator[StoredJob]:
    """The jobs that the actor may see, the latest first; no transaction is open meanwhile."""
    after: str | None = None
    while True:
        with transaction() as session:
            query = queries.matching(select(*_COLUMNS), chosen, actor).join(JobDocument, JobDocument.job_id == Job.id)
            if after is not None:
                query = query.where(Job.id < after)
            rows = session.execute(query.order_by(Job.id.desc()).limit(_PAGE)).all()
        for job_id, user_id, kind, created_at, header in rows:
            yield StoredJob(job_id, user_id, kind, created_at.date(), json.loads(header))
        if len(rows) < _PAGE:
            return
        after = rows[-1].id


@part
def _one_at_a_time() -> threading.Lock:
    return threading.Lock()


def _plugins(session: Session, definition: FeatureDefinition) -> tuple[PluginTally, ...]:
    """The plugins of the feature as given, then those that it is registered with and would lose."""
    enabled, disabled = snapshot.with_disabled(session)
    before = {
        plugin.type: plugin.matcher
        for type in PluginType
        for plugin in (*enabled.of(type), *disabled.of(type))
        if plugin.feature == definition.name
    }
    after = {plugin.type: compile(plugin.effective) for plugin in definition.plugins}
    return tuple(PluginTally(type, after.get(type), before.get(type)) for type in {**after, **before})


def _header(session: Session, job_id: str, actor: Actor) -> Mapping[str, Any]:
    queries.visible(session, job_id, actor)
    header: Mapping[str, Any] = session.scalars(select(JobDocument.header).where(JobDocument.job_id == job_id)).one()
    return header


def _rule(matcher: Matcher | None) -> object:
    """What two matchers that decide the same have in common."""
    return matcher and (matcher.selector.conditions, matcher.selector.expression)


def _largest(name: str, groups: Mapping[str, Change]) -> list[dict[str, Any]]:
    counts = Counter({value: change.matched + change.lost for value, change in groups.items()})
    return [{name: value, **groups[value].to_json()} for value, _ in counts.most_common(MOST_GROUPS)]
