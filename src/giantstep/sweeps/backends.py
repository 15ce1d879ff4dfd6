"""Backends: where tasks run. In this process, in worker processes (`processes.py`), on a Dask cluster (`clusters.py`).

A backend takes tasks from a function that returns the next one (None: none just now) and yields finished ones, as many
as are ready at a time. Losing a worker loses no task: it runs again, and fails only where it costs several workers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from giantstep.errors import InputError
from giantstep.sweeps.tasks import Done, NotLoaded, Orders, Task, attempt, threads_here

Source = Callable[[], Task | None]
Finished = list[tuple[Task, Done]]

TOGETHER = 0.1
"""Seconds of work of this process that are stored together, and may be lost where it is killed."""


class Backend(Protocol):
    """Where tasks run."""

    def run(self, source: Source) -> Iterator[Finished]:
        """Run tasks until there are none; yield those that are done, as they come."""

    def close(self) -> None:
        """Stop the workers, whatever they are at."""


class InProcess:
    """Runs tasks here, one after the other."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders

    def run(self, source: Source) -> Iterator[Finished]:
        """Run tasks until there are none; short ones are yielded together, as storing takes its time."""
        done: Finished = []
        since = time.monotonic()
        with threads_here(self._orders.threads):
            while (task := source()) is not None or done:
                try:
                    done += [] if task is None else [(task, attempt(task, self._orders))]
                except KeyboardInterrupt:
                    yield done  # Ctrl-C loses nothing that is done
                    raise
                if task is None or time.monotonic() - since >= TOGETHER:
                    yield done  # what is stored may bring new tasks
                    done, since = [], time.monotonic()

    def close(self) -> None:
        """Do nothing: there are no workers."""


def pickle_task(task: Task, dumps: Callable[[Any], bytes]) -> bytes:
    """Return a task as bytes; a scenario that cannot be sent is refused with a sentence."""
    try:
        return dumps(task)
    except Exception as error:
        raise _not_loadable(f"{type(error).__name__}: {error}", task) from None


def check_answer(answer: Done | NotLoaded, task: Task) -> Done:
    """Return what a worker gave; where it could not load the scenario, say so in a sentence."""
    if isinstance(answer, NotLoaded):
        raise _not_loadable(answer.reason, task)
    return answer


def _not_loadable(reason: str, task: Task) -> InputError:
    names = task.callables()
    if names:
        return InputError(
            f"The Python callable in {', '.join(names)} cannot be loaded by a worker ({reason}); write it as an "
            'expression, put it into a module that the workers can import, or use engine="local".'
        )
    return InputError(
        f"A worker cannot load the scenario ({reason}); the same packages must be installed where it runs."
    )
