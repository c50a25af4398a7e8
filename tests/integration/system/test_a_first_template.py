"""What the walk through templates says, done over the API with the example template and the flow that uses it."""

from __future__ import annotations

import copy

from pipeline_cli.manifest import documents
from tests.installation import Installation
from tests.pages import ROOT, Page
from tests.waiting import wait_for

(TEMPLATE,) = documents(str(ROOT / "examples" / "templates" / "word-count.yaml"))
(FLOW,) = documents(str(ROOT / "examples" / "flows" / "word-count.yaml"))
PAGE = Page("templates.md").text


def run_and_read(service: Installation, **variables: str) -> str:
    """What the last task of a run has printed."""
    run_id = service.post("/v1/flows/word-count/run", {"variables": variables})["runID"]
    run = wait_for(
        lambda: found if (found := service.get(f"/v1/runs/{run_id}"))["finishedAt"] else None, "the run to end"
    )
    assert run["state"] == "succeeded", run
    return service.ask("GET", f"/v1/runs/{run_id}/logs?task=show").text


def test_the_example_template_is_imported_used_replaced_and_deleted(service: Installation) -> None:
    assert service.post("/v1/templates", TEMPLATE) == {"templates": ["word-count"]}
    assert {"word-count", "customize"} <= set(service.get("/v1/templates"))
    assert service.post("/v1/flows/import", FLOW)["flows"] == ["word-count"]

    (shown,) = [line for line in PAGE.splitlines() if "# counted: " in line]
    assert run_and_read(service) == shown.partition("# ")[2] + "\n"
    assert run_and_read(service, TEXT="a rose is a rose is a rose") == "counted: a 3, rose 3\n"

    wrong = copy.deepcopy(FLOW)
    wrong["word-count"]["tasks"][0]["args"]["--top"] = 0
    refused = service.ask("POST", "/v1/flows/import", wrong)
    assert refused.status_code == 400
    ((path, (text,)),) = refused.json()["errors"].items()
    assert f"{path} {text}" in PAGE

    default = copy.deepcopy(TEMPLATE)
    default["word-count"]["job_template_args"]["result"]["--format"]["default"] = "json"
    service.post("/v1/templates", default)
    assert run_and_read(service) == 'counted: {"the": 3, "and": 2}\n'

    assert service.ask("DELETE", "/v1/templates/word-count").status_code == 409
    assert service.ask("DELETE", "/v1/flows/word-count").status_code == 200
    assert service.ask("DELETE", "/v1/templates/word-count").status_code == 200
