from __future__ import annotations

from flask.testing import FlaskClient

from api.console.types import HEAD, TARGET, document, hash_of


def test_the_types_are_those_of_the_api(client: FlaskClient) -> None:
    first = TARGET.read_text().splitlines()[0]
    wanted = hash_of(document(client.get("/openapi.json").get_json()))
    assert first == f"{HEAD}{wanted}", (
        "schemas that the console uses have changed: run scripts/console-types (it needs npm)"
    )
