"""Measures the 95th percentile of the same queries over the API and as bare SQL."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg2
import requests
from psycopg2.extensions import cursor as Cursor

from scripts.benchmarks.results import percentile
from scripts.benchmarks.stand import Stand, a_token

WARM_UP = 3


@dataclass(frozen=True)
class Case:
    """A GET of a path below `/v1/job`, and the SQL statements with the same result."""

    path: str
    parameters: Mapping[str, Any]
    statements: Sequence[str]


@dataclass(frozen=True)
class Asker:
    """One connection to each."""

    url: str
    client: requests.Session
    cursor: Cursor

    def figures(self, case: Case, samples: int) -> dict[str, float]:
        """The 95th percentiles of both, in ms, and their ratio."""

        def over_http() -> None:
            self.client.get(f"{self.url}/v1/job/{case.path}", params=case.parameters).raise_for_status()

        def bare() -> None:
            for statement in case.statements:
                self.cursor.execute(statement)
                self.cursor.fetchall()

        service, baseline = p95(over_http, samples), p95(bare, samples)
        return {"p95": service, "bare_p95": baseline, "ratio": service / baseline}


@contextmanager
def asking(stand: Stand) -> Iterator[Asker]:
    """An `Asker` whose token may read all jobs. Its database connection has the planner settings of the service."""
    with (
        requests.Session() as client,
        closing(psycopg2.connect(stand.database_url, options="-c jit=off")) as connection,
        connection.cursor() as cursor,
    ):
        connection.autocommit = True
        client.headers["token"] = a_token()
        yield Asker(stand.url, client, cursor)


def p95(ask: Callable[[], None], samples: int) -> float:
    """The 95th percentile of the durations of `ask`, in milliseconds."""
    took = []
    for _ in range(WARM_UP + samples):
        started = time.perf_counter()
        ask()
        took.append((time.perf_counter() - started) * 1000)
    return percentile(took[WARM_UP:], 95)
