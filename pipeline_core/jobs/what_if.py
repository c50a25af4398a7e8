"""What if: which of the stored jobs a feature would take part in if it were registered as given, beside the one that is.

PostgreSQL groups the jobs by what of their headers the selectors look at, so that each group is matched once, with the matchers
that the stages use. `tally` counts and does no I/O; `stored_jobs` reads.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from sqlalchemy import Date, Label, Text, cast, func, select
from sqlalchemy.dialects.postgresql import ARRAY, aggregate_order_by
from sqlalchemy.orm import InstrumentedAttribute, Session

from pipeline_core.auth.actor import Actor
from pipeline_core.database import transaction
from pipeline_core.database.models import Job, JobDocument
from pipeline_core.errors import Unavailable
from pipeline_core.features import registry, snapshot
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
_PAGE = 1000
_TURN = 50
"""So many groups are matched before other threads of the process get their turn: about half a millisecond."""
_PRESETS: Mapping[str, InstrumentedAttribute[str]] = {
    "userID": Job.user_id,
    "jobKind": Job.kind,
    "jobName": Job.name,
    "jobID": Job.id,
}
"""The fields of headers that the service writes itself, and the columns that have them too."""


@dataclass(frozen=True, slots=True)
class JobGroup:
    """So many (`count`) stored jobs of one user, kind and day that have in common what the selectors look at, which `header` has.

    `latest` are the IDs of the last EXAMPLES of them, the latest first.
    """

    user_id: str
    kind: str
    day: date
    header: Mapping[str, Any]
    count: int
    latest: Sequence[str]


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

    def add(self, jobs: JobGroup, *, before: bool, after: bool) -> None:
        """Count jobs that the registered selector matches or not (`before`), and the new one (`after`)."""
        if after or before:
            self._jobs[jobs.day, jobs.kind, jobs.user_id, before, after] += jobs.count
        if after is not before:
            examples = self.gained if after else self.lost
            examples[:] = sorted([*examples, *jobs.latest], reverse=True)[:EXAMPLES]

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

    `job_id` is one whose conditions are explained, in the span or not. Raises NotFound when the actor sees no such job,
    WrongParameter when the feature could not be registered because of a shadow, and Unavailable while this process answers
    another one.
    """
    with transaction() as session:
        registry.check_modes(session, definition)
        plugins = _plugins(session, definition)
        header = _header(session, job_id, actor) if job_id else None
    chosen = JobFilter(start_at=start_at, end_at=end_at)
    if not _one_at_a_time().acquire(blocking=False):
        raise Unavailable("This process looks through the stored jobs for somebody else; try again.", retry_after=5)
    try:
        with transaction() as session:
            count = tally(plugins, stored_jobs(session, fields_of(plugins), chosen, actor))
            complete = count < MOST_JOBS or not _more(session, chosen, actor)
    finally:
        _one_at_a_time().release()
    explained = {} if header is None else {one.type: one.after.explain(header) for one in plugins if one.after}
    return WhatIf(count, complete, plugins, explained)


def fields_of(plugins: Sequence[PluginTally]) -> frozenset[str]:
    """The fields of headers that the selectors of plugins look at, the registered ones included."""
    matchers = (matcher for plugin in plugins for matcher in (plugin.before, plugin.after) if matcher)
    return frozenset().union(*(matcher.fields for matcher in matchers))


def tally(plugins: Sequence[PluginTally], groups: Iterable[JobGroup]) -> int:
    """Count all jobs for all plugins. Returns how many jobs there were."""
    matchers = {_rule(matcher): matcher for plugin in plugins for matcher in (plugin.before, plugin.after)}
    count = 0
    for number, group in enumerate(groups, 1):
        decided = {rule: matcher is not None and matcher.matches(group.header) for rule, matcher in matchers.items()}
        for plugin in plugins:
            plugin.add(group, before=decided[_rule(plugin.before)], after=decided[_rule(plugin.after)])
        count += group.count
        if number % _TURN == 0:
            # Lets another thread have the interpreter, which otherwise waits for its switch interval each time.
            time.sleep(0)
    return count


def stored_jobs(session: Session, fields: Collection[str], chosen: JobFilter, actor: Actor) -> Iterator[JobGroup]:
    """The latest MOST_JOBS jobs that the actor may see, in groups whose headers have these fields in common."""
    presets = [name for name in _PRESETS if name in fields]
    others = sorted(fields - _PRESETS.keys())
    # As text, since values of the type json cannot be compared.
    texts = [cast(JobDocument.header[name], Text) for name in others]
    columns: list[Label[Any]] = [
        column.label(f"column{number}")
        for number, column in enumerate(
            [Job.user_id, Job.kind, cast(Job.created_at, Date), *(_PRESETS[name] for name in presets), *texts]
        )
    ]
    latest = queries.matching(select(Job.id, *columns), chosen, actor)
    if others:
        latest = latest.join(JobDocument, JobDocument.job_id == Job.id)
    jobs = latest.order_by(Job.id.desc()).limit(MOST_JOBS).subquery()
    common = [jobs.c[column.name] for column in columns]
    ids = func.array_agg(aggregate_order_by(jobs.c.id, jobs.c.id.desc()), type_=ARRAY(Text))
    query = select(*common, func.count(), ids[1:EXAMPLES]).group_by(*common)
    for user_id, kind, day, *values, count, examples in session.execute(query, execution_options={"yield_per": _PAGE}):
        header = dict(zip(presets, values, strict=False))
        header.update(
            (name, json.loads(text))
            for name, text in zip(others, values[len(presets) :], strict=True)
            if text is not None
        )
        yield JobGroup(user_id, kind, day, header, count, examples)


def _more(session: Session, chosen: JobFilter, actor: Actor) -> bool:
    """Whether there are more than MOST_JOBS."""
    beyond = queries.matching(select(Job.id), chosen, actor).order_by(Job.id.desc()).offset(MOST_JOBS).limit(1)
    return session.scalar(beyond) is not None


@part
def _one_at_a_time() -> threading.Lock:
    return threading.Lock()


def _plugins(session: Session, definition: FeatureDefinition) -> tuple[PluginTally, ...]:
    """The plugins of the feature as given, then those that it is registered with and would lose."""
    enabled, disabled = snapshot.with_disabled(session)
    before = {
        plugin.type: plugin.matcher
        for type in PluginType
        for plugin in (*enabled.of(type), *enabled.shadows(type), *disabled.of(type), *disabled.shadows(type))
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
