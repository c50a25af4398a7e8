"""Schedules: the points of a cron expression in a time zone.

An expression is read by cronsim, and means local times. A local time that a change of the clock skips is due at the first
instant after the gap. One that occurs twice is due the first time; if the minute or the hour has `*` or a step, both times.
Points that coincide because of that are one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from pipeline_core.common.clock import parse_rfc3339
from pipeline_core.flows.notation.errors import NotationError
from pipeline_core.validation.texts import shown

NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
"""Names that stand for expressions."""

MAX_BACKFILL = 10_000
"""Points that one backfill may have."""

YEARS = range(1970, 2200)
"""The years of times that are accepted."""

_FIELDS = (
    ("minute", range(60)),
    ("hour", range(24)),
    ("day", range(1, 32)),
    ("month", range(1, 13)),
    ("weekday", range(8)),
)
_FORMAT = "%Y-%m-%d %H:%M:%S"
_SECOND = timedelta(seconds=1)
# An expression with any point has one within the 50 years that cronsim searches from here.
_ANY_TIME = datetime.fromisoformat("2000-01-01")


@dataclass(frozen=True, slots=True)
class Schedule:
    """A cron expression in a time zone. Instants that go in are aware, those that come out are in UTC."""

    cron: str
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        """Raises NotationError when the expression is none, can never be due, or there is no such time zone."""
        check_timezone(self.timezone)
        try:
            never = next(CronSim(_fields(self.cron), _ANY_TIME), None) is None
        except CronSimError as error:
            # To CronSim a day that its months never have is no day.
            if _is_valid_in_any_month(self.cron):
                raise NotationError(f"is {shown(self.cron)}, which never comes") from None
            raise NotationError(
                f"must be `minute hour day month weekday` or one of {', '.join(NICKNAMES)}, not {shown(self.cron)}: {error}"
            ) from None
        if never:
            raise NotationError(f"is {shown(self.cron)}, which never comes")
        _check_steps(self.cron)

    def same_points(self, other: Schedule) -> bool:
        """Whether the other schedule has the same points, however its expression is spelled."""
        return self.timezone == other.timezone and _meaning(self.cron) == _meaning(other.cron)

    def after(self, instant: datetime) -> Iterator[datetime]:
        """The points after `instant`, in their order."""
        zone = ZoneInfo(self.timezone)
        repeats = _repeats(self.cron)
        # A second earlier, to include local times that a gap ending at this instant skips.
        start = (instant - _SECOND).astimezone(zone)
        # The local times that are still to come a second time begin with the repeated hour.
        local = start.replace(tzinfo=None) - (_repeated(start.replace(tzinfo=None), zone) if repeats else timedelta())
        latest = instant
        again: deque[datetime] = deque()
        for time in CronSim(_fields(self.cron), local):
            point = first_instant(time, zone)
            while again and again[0] < point:
                if (second := again.popleft()) > latest:
                    latest = second
                    yield second
            if point > latest:
                latest = point
                yield point
            if repeats and (overlap := _repeated(time, zone)):
                again.append(point + overlap)

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """The points from `start` to `end`, both inclusive, in their order."""
        for point in self.after(start - timedelta(microseconds=1)):
            if point > end:
                return
            yield point

    def next(self, instant: datetime, count: int) -> list[datetime]:
        """The next `count` points after `instant`; fewer only when the calendar ends."""
        return list(islice(self.after(instant), count))

    def missing(self, start: datetime, end: datetime, have: Container[datetime], limit: int) -> list[datetime]:
        """The first `limit` points from `start` to `end`, both inclusive, that are not in `have`, oldest first."""
        return list(islice((point for point in self.between(start, end) if point not in have), limit))

    def backfill(self, start: datetime, end: datetime) -> list[datetime]:
        """All points from `start` to `end`, both inclusive. Raises NotationError for more than MAX_BACKFILL."""
        if start > end:
            raise NotationError(f"begins at {start:{_FORMAT}}, after its end at {end:{_FORMAT}}")
        points = list(islice(self.between(start, end), MAX_BACKFILL + 1))
        if len(points) > MAX_BACKFILL:
            raise NotationError(
                f"has more than {MAX_BACKFILL} points; the last of them would be {points[MAX_BACKFILL - 1]:{_FORMAT}} UTC"
            )
        return points


def check_timezone(name: str) -> str:
    """The name itself. Raises NotationError unless it is one of the IANA database."""
    if name not in _timezones():
        raise NotationError(f"must be a time zone, as UTC or Asia/Shanghai, not {shown(name)}")
    return name


def read_instant(text: str, timezone: str) -> datetime:
    """The instant of a local time `%Y-%m-%d %H:%M:%S` in that time zone, in UTC. Raises NotationError."""
    try:
        local = datetime.strptime(text, _FORMAT).replace(tzinfo=UTC).replace(tzinfo=None)
    except ValueError:
        raise NotationError(f"must be of the form 2026-03-01 00:00:00, not {shown(text)}") from None
    _check_year(local, text)
    return first_instant(local, ZoneInfo(timezone))


def read_moment(text: str, timezone: str) -> datetime:
    """The instant that an RFC 3339 text names, or else what `read_instant` makes of it, in UTC. Raises NotationError."""
    try:
        instant = parse_rfc3339(text)
    except ValueError:
        try:
            return read_instant(text, timezone)
        except NotationError as error:
            raise NotationError(f"{error}; or as 2026-03-01T00:00:00Z") from None
    _check_year(instant, text)
    return instant


def execution_date(instant: datetime, timezone: str) -> str:
    """The local time of an instant in the flow's time zone, as the variable `execution_date` has it."""
    return instant.astimezone(ZoneInfo(timezone)).strftime(_FORMAT)


def first_instant(local: datetime, zone: ZoneInfo) -> datetime:
    """The first instant, in UTC, at which a clock in the zone shows `local`, or the end of the gap that skips it."""
    instant = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if instant.astimezone(zone).replace(tzinfo=None, fold=0) == local:
        return instant
    # With the offset after the gap, the time is before the change; with the offset before it, after the change.
    before, behind = local.replace(tzinfo=zone, fold=1).astimezone(UTC), instant
    old = before.astimezone(zone).utcoffset()
    while behind - before > _SECOND:
        middle = before + (behind - before) // 2
        if middle.astimezone(zone).utcoffset() == old:
            before = middle
        else:
            behind = middle
    return behind.replace(microsecond=0)


def _repeated(local: datetime, zone: ZoneInfo) -> timedelta:
    """How much later a clock in the zone shows `local` again; 0 for a time that it shows once or never."""
    first, second = (local.replace(tzinfo=zone, fold=fold).utcoffset() or timedelta() for fold in (0, 1))
    return max(first - second, timedelta())


def _repeats(cron: str) -> bool:
    """Whether the expression goes on through an hour that the clock shows twice."""
    minute, hour, *_ = _fields(cron).split()
    return any(mark in field for field in (minute, hour) for mark in "*/")


def _check_steps(cron: str) -> None:
    """Raises NotationError for a step that is greater than its field can hold."""
    for field, (name, values) in zip(_fields(cron).split(), _FIELDS, strict=True):
        for term in field.split(","):
            step = term.partition("/")[2]
            if step and int(step) > values[-1]:
                raise NotationError(
                    f"is {shown(cron)}, whose step {int(step)} in the {name} is too large: "
                    f"the {name} is from {values[0]} to {values[-1]}, and each {name} begins anew"
                )


def _meaning(cron: str) -> tuple[object, ...]:
    """What the expression means: equal for two that have the same points."""
    parsed = CronSim(_fields(cron), _ANY_TIME)
    days: set[object] = set(parsed.days)
    weekdays: set[object] = {
        0 if day == 7 else (0, day[1]) if isinstance(day, tuple) and day[0] == 7 else day for day in parsed.weekdays
    }
    any_day, any_weekday = days >= set(range(1, 32)), weekdays >= set(range(7))
    when: tuple[object, ...]
    if (any_day and any_weekday) or ((any_day or any_weekday) and not parsed.day_and):
        when = ("any",)
    elif any_day:
        when = ("weekday", frozenset(weekdays))
    elif any_weekday:
        when = ("day", frozenset(days))
    else:
        when = ("both" if parsed.day_and else "either", frozenset(days), frozenset(weekdays))
    return (frozenset(parsed.minutes), frozenset(parsed.hours), frozenset(parsed.months), when, _repeats(cron))


def _check_year(time: datetime, text: str) -> None:
    if time.year not in YEARS:
        raise NotationError(f"must lie in the years {YEARS[0]} to {YEARS[-1]}, not {shown(text)}")


def _is_valid_in_any_month(cron: str) -> bool:
    minute, hour, day, _, weekday = _fields(cron).split()
    try:
        CronSim(f"{minute} {hour} {day} * {weekday}", _ANY_TIME)
    except CronSimError:
        return False
    return True


def _fields(cron: str) -> str:
    text = NICKNAMES.get(cron.strip().lower(), cron)
    if len(text.split()) != 5:
        raise NotationError(
            f"must be `minute hour day month weekday` or one of {', '.join(NICKNAMES)}, not {shown(cron)}"
        )
    return text


@cache
def _timezones() -> frozenset[str]:
    return frozenset(available_timezones()) - {"localtime"}
