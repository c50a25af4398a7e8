"""URLs of databases."""

from __future__ import annotations

import pytest

from pipeline_core.database.urls import connection_parameters
from pipeline_core.errors import ConfigurationError


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg2"])
def test_a_url_may_have_several_hosts_and_any_parameter_of_libpq(scheme: str) -> None:
    found = connection_parameters(f"{scheme}://me:p%40ss@one:5432,two:5433/name?target_session_attrs=read-write")
    assert found == {
        "user": "me",
        "password": "p@ss",
        "host": "one,two",
        "port": "5432,5433",
        "dbname": "name",
        "target_session_attrs": "read-write",
    }


def test_what_is_no_url_of_a_database_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigurationError) as raised:
        connection_parameters("postgresql://me:secret@host/name?no_such_parameter=1")
    assert "postgresql://user:password@127.0.0.1:5432/pipeline" in raised.value.message
    assert "secret" not in raised.value.message
