"""Tables that hold many jobs already, each with its documents and a replica, one submitted every second until now."""

from __future__ import annotations

import json
from contextlib import closing

import psycopg2

from scripts.benchmarks.stand import JOB, Stand

USERS, NAMES = 1000, 5000
GATE = "AccessGate.quota.bench"
SUSPENDED_EVERY, FAILED_EVERY, RUNNING_EVERY = 1000, 20, 500

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
# A ULID: 48 bits of milliseconds, then anything. Hexadecimal digits are digits of its alphabet too.
_ID = "'j' || {} || left(md5(n::text), 16)".format(
    " || ".join(f"substr('{_DIGITS}', (ms >> {shift} & 31)::int + 1, 1)" for shift in range(45, -1, -5))
)
_STATE = f"""CASE WHEN mod(n, {SUSPENDED_EVERY}) = 1 THEN 'suspended' WHEN mod(n, {RUNNING_EVERY}) = 2 THEN 'running'
    WHEN mod(n, {FAILED_EVERY}) = 3 THEN 'failed' ELSE 'succeeded' END"""

_JOBS = f"""
INSERT INTO jobs (id, user_id, name, kind, namespace, state, stage, epoch, reason, event_sequence, attempt, retried,
    created_at, started_at, finished_at, suspended_at, suspended_by, on_timeout, resumer, exit_diagnostics, submitted_by,
    request_id, traceparent)
SELECT {_ID}, 'user-' || mod(n, {USERS}), 'job-' || mod(n, {NAMES}),
    CASE WHEN mod(n, 3) = 0 THEN 'TFJob' ELSE 'TaskSet' END, 'default', state,
    CASE state WHEN 'suspended' THEN 'gates' ELSE 'cluster' END, 0, '', 3, 0, 0,
    at, at, CASE WHEN state IN ('failed', 'succeeded') THEN at END,
    CASE state WHEN 'suspended' THEN at END, CASE state WHEN 'suspended' THEN %(gate)s ELSE '' END, '', '', '', 'bench', '', ''
FROM (
    SELECT n, at, (extract(epoch FROM at) * 1000)::bigint AS ms, {_STATE} AS state
    FROM generate_series(1, %(count)s) AS n, LATERAL (SELECT now() - make_interval(secs => %(count)s - n) AS at)
) AS numbered
"""
_DOCUMENTS = """
INSERT INTO job_documents (job_id, header, submitted, taskset, factors, roles)
SELECT id, %(header)s, %(job)s, %(job)s, '{}', '{"worker": "succeeded"}' FROM jobs
"""
_REPLICAS = """
INSERT INTO replicas (job_id, role, index, job_attempt, attempt, state, reason, diagnostics, container_id, host_ip,
    pod_name, pod_uid, pod_ip, restarts)
SELECT id, 'worker', 0, 0, 0, 'succeeded', '', '', '', '', '', '', '', 0 FROM jobs
"""


def fill(stand: Stand, count: int) -> None:
    """Store so many jobs, and let the planner know of them."""
    values = {
        "count": count,
        "gate": GATE,
        "header": json.dumps(JOB["header"]),
        "job": json.dumps(JOB["job"]),
    }
    with closing(psycopg2.connect(stand.database_url)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        # The service's time-out is that of its role.
        cursor.execute("SET statement_timeout = 0")
        for statement in (_JOBS, _DOCUMENTS, _REPLICAS):
            cursor.execute(statement, values)
        cursor.execute("VACUUM ANALYZE")
