"""What a check found: for people, as JSON, and as JUnit XML for CI."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline_cli.checking.exchange import Exchange
from pipeline_cli.checking.rules import Finding, Verdict, passed

SHOWN = 2000
"""Characters of a body that are shown."""
_MARKS = {Verdict.HOLDS: "ok  ", Verdict.BROKEN: "FAIL", Verdict.NOT_CHECKED: "-   "}
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def lines(finding: Finding) -> Iterator[str]:
    """A finding for people: a line, and for what is broken the exchange that shows it."""
    yield f"{_MARKS[finding.verdict]}  {finding.rule:<18} {finding.title}"
    if finding.verdict is Verdict.NOT_CHECKED:
        yield f"      {'':<18} not checked: {finding.message}"
    elif finding.verdict is Verdict.BROKEN:
        yield f"      {finding.message}"
        if finding.exchange:
            yield from (f"      {line}" for line in exchanged(finding.exchange))


def exchanged(exchange: Exchange) -> Iterator[str]:
    """What was sent, and what came back."""
    yield f"> POST {exchange.address}"
    yield from (f"> {line}" for line in _message(exchange.headers, exchange.body))
    if exchange.response is None:
        yield f"< {exchange.error}"
        return
    yield f"< status {exchange.response.status}"
    yield from (f"< {line}" for line in _message(exchange.response.headers, exchange.response.body))


def summary(findings: Sequence[Finding]) -> str:
    count = {verdict: sum(one.verdict is verdict for one in findings) for verdict in Verdict}
    return ", ".join(f"{number} {verdict}" for verdict, number in count.items() if number)


def document(url: str, plugin_type: str, findings: Sequence[Finding]) -> dict[str, Any]:
    """All of it as JSON."""
    return {"url": url, "type": plugin_type, "passed": passed(findings), "rules": [_as_json(one) for one in findings]}


def junit(url: str, plugin_type: str, findings: Sequence[Finding]) -> str:
    """All of it as JUnit XML: a test case for each rule."""
    cases = "".join(_case(plugin_type, one) for one in findings)
    failures = sum(one.verdict is Verdict.BROKEN for one in findings)
    skipped = sum(one.verdict is Verdict.NOT_CHECKED for one in findings)
    counts = f'tests="{len(findings)}" failures="{failures}" errors="0" skipped="{skipped}"'
    name = _xml(f"pipeline plugin check {url}")
    suite = f'<testsuite name="{name}" {counts}>\n{cases}</testsuite>'
    return f'<?xml version="1.0" encoding="utf-8"?>\n<testsuites>{suite}</testsuites>\n'


def _case(plugin_type: str, finding: Finding) -> str:
    inner = ""
    if finding.verdict is Verdict.BROKEN:
        shown = "\n".join(exchanged(finding.exchange)) if finding.exchange else ""
        inner = f'<failure message="{_xml(finding.message)}">{_xml(shown)}</failure>'
    elif finding.verdict is Verdict.NOT_CHECKED:
        inner = f'<skipped message="{_xml(finding.message)}"/>'
    name = _xml(f"{finding.rule}: {finding.title}")
    return f'<testcase classname="{_xml(plugin_type)}" name="{name}">{inner}</testcase>\n'


def _as_json(finding: Finding) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": finding.rule, "title": finding.title, "verdict": finding.verdict}
    if finding.message:
        shown["message"] = finding.message
    if (exchange := finding.exchange) is not None:
        shown["sent"] = {"address": exchange.address, "headers": dict(exchange.headers), "body": _text(exchange.body)}
        if exchange.response is not None:
            answer = exchange.response
            shown["answer"] = {"status": answer.status, "headers": dict(answer.headers), "body": _text(answer.body)}
        else:
            shown["answer"] = {"error": str(exchange.error)}
    return shown


def _message(headers: Mapping[str, str], body: bytes) -> Iterator[str]:
    for name, value in headers.items():
        yield _printable(f"{name}: {value}")
    yield ""
    yield from (_printable(line) for line in _text(body).splitlines())


def _text(body: bytes) -> str:
    text = body.decode("utf-8", "replace")
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(body)} bytes)"


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def _xml(text: str) -> str:
    return html.escape(_NOT_IN_XML.sub("�", text))
