"""What a check prints and writes."""

from __future__ import annotations

import json
from xml.etree import ElementTree

from pipeline_cli.checking import report
from pipeline_cli.checking.exchange import Exchange
from pipeline_cli.checking.rules import Finding, Verdict
from pipeline_core.plugins.errors import PluginUnavailable
from pipeline_core.plugins.transport import Response

EXCHANGE = Exchange(
    "http://p/", {"X-Job-ID": "j1"}, b'{"a": 1}', Response(200, {"X": "y"}, b'{"decision": "PASS\x1b"}')
)
LOST = Exchange("http://p/", {}, b"x" * 5000, error=PluginUnavailable("no answer within 1 s"))
FINDINGS = [
    Finding("reachable", "it can be called", Verdict.HOLDS),
    Finding("answer", "its answer", Verdict.BROKEN, "`decision` is <PASS>", EXCHANGE),
    Finding("in-time", "in time", Verdict.BROKEN, "no answer", LOST),
    Finding("garbage", "garbage", Verdict.NOT_CHECKED, "`answer` does not hold"),
]


def test_people_see_the_exchange_of_what_is_broken() -> None:
    text = "\n".join(line for finding in FINDINGS for line in report.lines(finding))
    for part in (
        "ok    reachable",
        "FAIL  answer",
        "> POST http://p/",
        '> {"a": 1}',
        "< status 200",
        "< no answer within 1 s",
    ):
        assert part in text
    assert '{"decision": "PASS\\x1b"}' in text, "control characters are shown, not sent to the terminal"
    assert "(5000 bytes)" in text
    assert "not checked: `answer` does not hold" in text
    assert report.summary(FINDINGS) == "1 holds, 2 broken, 1 not checked"


def test_programs_get_all_of_it() -> None:
    document = json.loads(json.dumps(report.document("http://p/", "AccessGate", FINDINGS)))
    assert document["passed"] is False
    assert [rule["verdict"] for rule in document["rules"]] == ["holds", "broken", "broken", "not checked"]
    assert document["rules"][1]["answer"]["status"] == 200
    assert document["rules"][2]["answer"] == {"error": "no answer within 1 s"}


def test_ci_gets_a_test_case_for_each_rule() -> None:
    (suite,) = ElementTree.fromstring(report.junit("http://p/?a&b", "AccessGate", FINDINGS))
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("4", "2", "1")
    cases = {str(case.get("name")).partition(":")[0]: case for case in suite}
    failure = cases["answer"].find("failure")
    assert failure is not None
    assert failure.get("message") == "`decision` is <PASS>"
    assert "status 200" in (failure.text or "")
    assert cases["garbage"].find("skipped") is not None
