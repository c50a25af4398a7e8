"""The directed acyclic graph of tasks. Nothing here is recursive, so flows of any depth work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from pipeline_core.flows.notation.errors import NotationError
from pipeline_core.validation.texts import shown


@dataclass(frozen=True, slots=True)
class Dag:
    """The direct predecessors of each task; the keys are in topological order."""

    upstream: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, upstream: Mapping[str, Sequence[str]]) -> Dag:
        """The DAG of these tasks. Raises NotationError, naming the tasks, for an unknown one and for a cycle."""
        for task, before in upstream.items():
            if unknown := [name for name in before if name not in upstream]:
                raise NotationError(
                    f"names {shown(unknown[0])} upstream of {shown(task)}, which is no task of the flow"
                )
        try:
            order = list(TopologicalSorter(upstream).static_order())
        except CycleError as error:
            raise NotationError(f"has a cycle: {_shown_cycle(error.args[1])}") from None
        return cls({task: tuple(dict.fromkeys(upstream[task])) for task in order})

    def ancestors(self, task: str) -> frozenset[str]:
        """All tasks that come before this one."""
        found: set[str] = set()
        waiting = [*self.upstream[task]]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += self.upstream[name]
        return frozenset(found)

    def __iter__(self) -> Iterator[str]:
        return iter(self.upstream)

    def __len__(self) -> int:
        return len(self.upstream)


def _shown_cycle(cycle: Sequence[str]) -> str:
    shown_names = cycle if len(cycle) <= 12 else [*cycle[:6], "…", *cycle[-5:]]
    return " -> ".join(shown_names)
