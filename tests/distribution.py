"""How the tests are spread over the processes of pytest-xdist: each process has servers and installations of its own.

A file stays in one process, so that what it shares is started once. A folder whose tests share an installation is cut into
as many parts as there are CPUs, each with an installation of its own: in one part it would take longer than all others together.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.waiting import CPUS

ROOT = Path(__file__).parents[1]
# Those that wait most come first: what is left at the end is short, and there is something to do beside the waiting.
ORDER = ("chaos", "failover", "kubernetes", "bench", "integration", "unit")
WAITING_PROCESSES = 2 * CPUS


class ByWhatIsShared(LoadScopeScheduling):
    """Hands out the tests of a file, or of a part of a folder that shares fixtures, together, in the order of collection."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        folder = file.rpartition("/")[0]
        return f"{folder} part {_part(file)}" if _shares_fixtures(folder) else file


@cache
def _part(file: str) -> int:
    files = sorted((ROOT / file).parent.glob("test_*.py"))
    return files.index(ROOT / file) % CPUS


@cache
def _shares_fixtures(folder: str) -> bool:
    conftest = ROOT / folder / "conftest.py"
    return conftest.exists() and 'scope="package"' in conftest.read_text()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return ByWhatIsShared(config, log)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """So many processes `-n auto` starts: none for a single file, or when the output is to be seen as it comes.

    Unit tests use the CPU all the time, and so do those that start processes again and again."""
    if config.option.capture == "no" or (len(config.args) == 1 and ".py" in config.args[0]):
        return 0
    suites = {suite for words in config.args for suite in Path(words).parts}
    return CPUS if suites & {"unit", "chaos", "failover"} else WAITING_PROCESSES


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put what takes longest first where tests are spread; otherwise the order stays as it is."""
    if hasattr(config, "workerinput"):
        items.sort(key=_rank)


def _rank(item: pytest.Item) -> tuple[int, bool, bool, int]:
    file = item.nodeid.partition("::")[0]
    path = file.split("/")
    suite = path[1] if len(path) > 2 else ""
    shared = _shares_fixtures(file.rpartition("/")[0])
    return (
        ORDER.index(suite) if suite in ORDER else len(ORDER),
        not shared,
        item.get_closest_marker("slow") is None and not shared,
        _part(file) if shared else 0,
    )
