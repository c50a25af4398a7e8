"""The API's own process (gunicorn, two workers) over a real database and Redis; nobody works off what it takes in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.installation import Installation, installed
from tests.servers import fresh_database
from tests.waiting import wait_for


@pytest.fixture(scope="package")
def api(
    tmp_path_factory: pytest.TempPathFactory, postgres_url: str, migrated_database: str, redis_url: str
) -> Iterator[Installation]:
    """An installation of which only the API runs."""
    directory = tmp_path_factory.mktemp("contract")
    with (
        fresh_database(postgres_url, template=migrated_database) as database_url,
        installed(
            directory,
            database_url,
            redis_url,
            PIPELINE_CLUSTER_DRIVER="null",
            # Every check of an operation sends invalid tokens; how fast depends on the machine.
            PIPELINE_FAILED_LOGINS="100000",
        ) as installation,
    ):
        installation.start("api")
        wait_for(lambda: installation.ask("GET", "/readyz").status_code == 200, "the API")
        yield installation
