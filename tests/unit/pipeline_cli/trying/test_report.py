"""What a trial found, for people and as JSON."""

from __future__ import annotations

from typing import Any

from pipeline_cli.trying import report
from pipeline_cli.trying.comparison import Comparison, Decision, Outcome, Verdict
from tests.builders import taskset


def decided(decision: str = "", reason: str = "", value: Any = None, outcome: Outcome = Outcome.ANSWERED) -> Decision:
    return Decision(outcome, decision, reason, value)


SAME = Comparison("j1", Verdict.SAME, "AccessGate.f.a", decided("pass"), decided("pass"))
DIFFERENT = Comparison("j2", Verdict.DIFFERENT, "AccessGate.f.a", decided("pass", "fine"), decided("stop"))
LEFT = Comparison("j3", Verdict.NOT_COMPARED, message="it was not translated")


def changed(script: str) -> Comparison:
    then, now = decided(value=taskset()), decided(value=taskset(script))
    return Comparison("j4", Verdict.DIFFERENT, "TemplateDecorator.f.a", then, now)


def test_only_what_is_not_the_same_has_lines() -> None:
    assert list(report.lines(SAME)) == []
    assert list(report.lines(LEFT)) == ["j3  not compared: it was not translated"]
    assert list(report.lines(DIFFERENT)) == ["j2  different", "  then  pass: fine  AccessGate.f.a", "  now   stop"]


def test_a_taskset_is_shown_as_a_diff_which_has_an_end() -> None:
    lines = list(report.lines(changed("false")))
    assert [line.strip() for line in lines if line.startswith(("  +", "  -"))][:2] == ["--- then", "+++ now"]
    assert any(line.startswith("  -") and "true" in line for line in lines)
    assert any(line.startswith("  +") and "false" in line for line in lines)
    many = [{"topic": f"t{number}", "advice": number} for number in range(200)]
    found = list(report.difference(decided(value=[]), decided(value=many)))
    assert len(found) == report.MOST_LINES + 1
    assert found[-1].endswith("more lines")


def test_a_failure_is_said_in_place_of_a_diff() -> None:
    failed = decided(reason="it does not answer", outcome=Outcome.FAILED)
    found = Comparison("j5", Verdict.DIFFERENT, "TemplateDecorator.f.a", decided(value=taskset()), failed)
    assert list(report.lines(found))[1:] == [
        "  then  answered  TemplateDecorator.f.a",
        "  now   failed: it does not answer",
    ]


def test_the_json_has_all_jobs_and_whether_they_agree() -> None:
    document = report.document("http://x/", "AccessGate", [SAME, DIFFERENT, LEFT, changed("false")])
    assert (document["agrees"], document["counts"]) == (False, {"same": 1, "different": 2, "not compared": 1})
    assert document["jobs"][1]["then"] == {"outcome": "answered", "decision": "pass", "reason": "fine"}
    assert document["jobs"][2] == {
        "jobID": "j3",
        "verdict": "not compared",
        "plugin": "",
        "message": "it was not translated",
        "then": None,
        "now": None,
    }
    (operation,) = document["jobs"][3]["patch"]
    assert operation["op"] == "replace"
    assert report.agrees([SAME])
    assert not report.agrees([SAME, LEFT])


def test_the_summary_counts() -> None:
    assert report.summary([SAME, SAME, DIFFERENT, LEFT]) == "4 past jobs: 2 same, 1 different, 1 not compared"
    assert report.summary([SAME]) == "1 past job: 1 same"
