"""The singletons of a process: its settings, its database engine, its clients, its caches. They belong to one `Runtime`, so
that they are closed together, made again in a forked child, and replaced as a whole by tests.

A singleton is a part: a function that makes it, decorated with `part`. Calls return the value of the installed runtime,
which is made by the first call:

    @part(close=Engine.dispose)
    def engine() -> Engine:
        return make_engine(settings().database_url)

A process starts with an empty runtime, and has nothing to install. A part's value can also be given:

    install(Runtime({settings: Settings(namespaces=("team",))}))
    give(publisher, publish)

After a fork the child has a runtime of its own: values that were given stay, those that were made are made again, because
their sockets and locks belong to the parent. Use `functools.cache` for pure functions, such as a compiled schema.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from functools import update_wrapper
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class Part(Generic[T]):
    """A function that returns one value per runtime. `close` is called with the value when the runtime is closed."""

    def __init__(self, make: Callable[[], T], close: Callable[[T], object] | None) -> None:
        self._make = make
        self._close = close
        update_wrapper(self, make)

    def __call__(self) -> T:
        return _installed.value(self)

    def make(self) -> T:
        """A new value, which belongs to no runtime."""
        return self._make()

    def close(self, value: T) -> None:
        """Close a value of this part."""
        if self._close:
            self._close(value)


@overload
def part(make: Callable[[], T]) -> Part[T]: ...
@overload
def part(*, close: Callable[[T], object]) -> Callable[[Callable[[], T]], Part[T]]: ...
def part(make: Callable[[], Any] | None = None, *, close: Callable[[Any], object] | None = None) -> Any:
    """Make a function's value once per runtime; see the module's docstring."""
    return Part(make, close) if make else lambda function: Part(function, close)


class Runtime:
    """The parts of one process. `given` has the values of parts that need not be made."""

    def __init__(self, given: Mapping[Part[Any], Any] | None = None) -> None:
        self.given = dict(given or {})
        self._values: dict[Part[Any], Any] = dict(self.given)
        self._lock = threading.RLock()

    def value(self, part: Part[T]) -> T:
        """The part's value, made by the first call. Raises what making it raises; the next call makes it again."""
        try:
            value: T = self._values[part]
        except KeyError:
            with self._lock:
                if part not in self._values:
                    self._values[part] = part.make()
                value = self._values[part]
        return value

    def give(self, part: Part[T], value: T) -> None:
        """Use this value from now on."""
        self.given[part] = self._values[part] = value

    def close(self) -> None:
        """Close what was made, the latest first."""
        with self._lock:
            for part, value in reversed([*self._values.items()]):
                if part not in self.given:
                    part.close(value)
            self._values = dict(self.given)


_installed = Runtime()


def install(runtime: Runtime) -> None:
    """Use this runtime in this process from now on; closes the previous one."""
    global _installed
    before, _installed = _installed, runtime
    before.close()


def give(part: Part[T], value: T) -> None:
    """Use this value for a part of the installed runtime."""
    _installed.give(part, value)


def restart() -> None:
    """Close what was made, so that it is made again at its next use, for example with changed settings."""
    _installed.close()


def _start_in_child() -> None:
    global _installed
    _installed = Runtime(_installed.given)


os.register_at_fork(after_in_child=_start_in_child)
