"""Worker processes: each does one task at a time, answers through a pipe of its own,
and ends with its parent.

A death closes the pipe, in the middle of an answer too, and so names the task that was
lost. A thread listens to each worker; who started it decides about deadlines, and
whether a lost task runs again.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from multiprocessing.connection import Connection
from typing import Any

Tell = Callable[[Any], object]
"""Takes a message: the worker's to its parent, or the listening thread's to whoever
started the worker.
"""

_LOOK = 10.0
"""Seconds of silence after which a worker is looked at: a process that a task has
started can hold its pipe open.
"""
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
_one_at_a_time = threading.Lock()
"""Held while a process starts: threads that start some share one environment."""


def usable_cores() -> int:
    """Return the cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Sign(Enum):
    """What is told of a worker beside its own messages: it has started; it is dead."""

    READY = "ready"
    GONE = "gone"


@dataclass(frozen=True)
class Plan:
    """What a worker process does."""

    # a task, with a function that sends a message; an error ends the process
    do: Callable[[Any, Tell], object]
    prepare: Callable[[], object]  # called in the process before its first task
    threads: int | None = (
        # BLAS threads with which its libraries are loaded; None leaves that to them
        None
    )
    # modules of a process that workers are forked from, where the system can fork;
    # without any, each is a new interpreter
    preload: tuple[str, ...] = ()

    def process(
        self, target: Callable[..., object], *arguments: Any
    ) -> multiprocessing.process.BaseProcess:
        """Return a new process that runs a function."""
        methods = ["spawn"]
        if self.preload and "forkserver" in multiprocessing.get_all_start_methods():
            multiprocessing.set_forkserver_preload(list(self.preload))
            methods = ["forkserver", "spawn"]
        for method in methods:
            context: Any = multiprocessing.get_context(method)
            process: multiprocessing.process.BaseProcess = context.Process(
                target=target, args=arguments, daemon=True
            )
            with _one_at_a_time:
                before = {name: os.environ.get(name) for name in _THREADS}
                # libraries read the environment when they are loaded
                os.environ.update(
                    {}
                    if self.threads is None
                    else dict.fromkeys(_THREADS, str(self.threads))
                )
                try:
                    process.start()
                    break
                except (
                    FileNotFoundError,
                    ConnectionError,
                ):  # the server's socket, a temporary file, was cleaned away
                    if method == "spawn":
                        raise
                finally:
                    for name, value in before.items():
                        os.environ.pop(name, None)
                        os.environ.update({} if value is None else {name: value})
        return process


class Worker:
    """One process and the thread that listens to it: it tells every message,
    `Sign.READY` first, `Sign.GONE` last.
    """

    def __init__(self, plan: Plan, tell: Tell) -> None:
        self._connection, other = multiprocessing.Pipe()
        try:
            self.process = plan.process(_serve, other, plan)
        except BaseException:
            self._connection.close()
            raise
        finally:
            other.close()
        threading.Thread(target=self._listen, args=(tell,), daemon=True).start()

    def _listen(self, tell: Tell) -> None:
        message: Any = None
        while message is not Sign.GONE:
            try:
                while not self._connection.poll(_LOOK) and self.process.is_alive():
                    pass
                if self._connection.poll():
                    message = self._connection.recv()
                else:
                    message = Sign.GONE
            # its end is closed, or what came is no message: either way nothing more can
            # be heard
            except Exception:
                message = Sign.GONE
            tell(message)
        self._connection.close()

    def send(self, task: Any) -> None:
        """Give the process a task; raises `OSError` where it is gone."""
        self._connection.send(task)

    def kill(self) -> None:
        """End the process now, whatever it does."""
        self.process.kill()


def _serve(connection: Connection, plan: Plan) -> None:
    """Do tasks until the parent is gone: the main function of a worker process."""
    # Ctrl-C is for the parent, which ends its workers itself
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    multiprocessing.current_process().daemon = False  # a task may start processes
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow_parent, daemon=True).start()
    plan.prepare()
    connection.send(Sign.READY)
    while True:
        try:
            task = connection.recv()
        except (EOFError, OSError):
            return
        plan.do(task, connection.send)
