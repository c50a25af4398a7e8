"""Changes of the status of deliveries, put into the feed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from string import Template

from sqlalchemy import TextClause, text
from sqlalchemy.orm import Session

from pipeline_core.database.models import FeedKind

# Whose a change is: the user of the job, or of an alert the runner and the creator of the run.
_NOTING = Template(
    "INSERT INTO feed_changes (kind, user_id, creator, occurred_at, document)"
    " SELECT '$kind', coalesce(jobs.user_id, runs.runner, ''), coalesce(runs.creator, ''),"
    " CAST(:moment AS timestamptz), json_build_object("
    "'jobID', jobs.id, 'runID', coalesce(jobs.run_id, runs.id), 'userID', coalesce(jobs.user_id, runs.runner, ''),"
    " 'deliveryID', $source.id, 'plugin', $source.plugin_key, 'sequence', $source.sequence,"
    " 'status', $source.status, 'attempts', $source.attempts, 'lastAnswer', $source.last_answer)"
    " FROM $source LEFT JOIN jobs ON jobs.id = $source.subject_id LEFT JOIN runs ON runs.id = $source.subject_id"
)


def noting(source: str) -> str:
    """An INSERT of a change for each delivery of `source`, which has the columns of deliveries, at the time `:moment`."""
    return _NOTING.substitute(kind=FeedKind.DELIVERY, source=source)


_NOTE: TextClause = text(f"{noting('deliveries')} WHERE deliveries.id = ANY (:ids)")


def note(session: Session, delivery_ids: Sequence[str], moment: datetime) -> None:
    """Put the present status of these deliveries into the feed."""
    if delivery_ids:
        session.execute(_NOTE, {"ids": list(delivery_ids), "moment": moment})
