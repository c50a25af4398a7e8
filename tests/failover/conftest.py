"""Prints what each test promised and measured, at the end of the run."""

from __future__ import annotations

import pytest

COLUMNS = 38


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [report for report in terminalreporter.getreports("passed") if report.user_properties]
    for report in sorted(reports, key=lambda report: report.nodeid):
        terminalreporter.section(report.nodeid.rpartition("/")[2], sep="-")
        for name, value in report.user_properties:
            terminalreporter.write_line(f"{name:<{COLUMNS}}{value}")
