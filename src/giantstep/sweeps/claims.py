"""Claims: which sweep is at work on which result of a store, so that no other computes it meanwhile.

A sweep that lives counts its heartbeats. One whose count stands still for a lease, by the clock of whoever looks
(clocks of two machines are never compared), has lost its claims; so has, at once, a dead process of the same machine.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from giantstep.sweeps.store import Name, connect, say_errors, transaction

LEASE = 60.0
"""Seconds without a heartbeat after which a sweep on another machine counts as dead."""
_BEAT = 10.0
"""Seconds between two heartbeats."""
_here: set[int] = set()
"""Sweeps of this process that have not ended."""


class Claims:
    """The claims of one sweep on a store; close it to give them up.

    Parameters
    ----------
    path : the store, whose tables exist.
    """

    def __init__(self, path: Path) -> None:
        self._store = str(path)
        self._sweeper = secrets.randbits(62)
        self._seen: dict[int, tuple[int, float]] = {}
        self._lock, self._ended = threading.Lock(), threading.Event()
        with say_errors(self._store):
            self._connection = connect(path)
            self._connection.execute("PRAGMA synchronous = OFF")  # a claim need not outlive the machine
        _here.add(self._sweeper)
        self._beat()
        self._forget_dead()
        threading.Thread(target=self._live, daemon=True).start()

    def claim(self, names: Iterable[Name]) -> bool:
        """Claim results, all or none; tell whether this sweep has them now. Dead sweeps lose theirs."""
        wanted = list(names)
        with say_errors(self._store), self._lock:
            if any(self._holders(wanted).values()):
                return False
            with transaction(self._connection):
                holders = self._holders(wanted)
                if any(holders.values()):
                    return False
                for dead in holders:
                    self._forget(dead)
                self._connection.executemany(
                    "INSERT OR REPLACE INTO claims VALUES (?, ?, ?)", [(*name, self._sweeper) for name in wanted]
                )
        return True

    def release(self, names: Iterable[Name]) -> None:
        """Give up some of the claims of this sweep."""
        rows = [(*name, self._sweeper) for name in names]
        with say_errors(self._store), self._lock, transaction(self._connection):
            self._connection.executemany("DELETE FROM claims WHERE digest = ? AND trial = ? AND sweeper = ?", rows)

    def close(self) -> None:
        """Give up every claim."""
        self._ended.set()
        _here.discard(self._sweeper)
        with self._lock, suppress(sqlite3.Error):  # where they cannot be given up, they end with the process
            try:
                with transaction(self._connection):
                    self._forget(self._sweeper)
            finally:
                self._connection.close()

    def _holders(self, names: Iterable[Name]) -> dict[int, bool]:
        """Return the other sweeps that have any of these, and whether each lives."""
        question = (
            "SELECT sweeper, machine, pid, started, beat FROM claims LEFT JOIN sweepers ON sweepers.id = sweeper "
            "WHERE digest = ? AND trial = ?"
        )
        lines = {line for name in names for line in self._connection.execute(question, name)}
        return {line[0]: self._lives(*line) for line in lines if line[0] != self._sweeper}

    def _lives(self, sweeper: int, machine: str | None, pid: int, started: str, beat: int) -> bool:
        if machine is None:  # it has left
            return False
        if machine and machine == _this_machine():
            ended = sweeper not in _here if pid == os.getpid() else _start_of(pid) != started
            if ended:
                return False
        now = time.monotonic()
        if self._seen.get(sweeper, (None, 0.0))[0] != beat:
            self._seen[sweeper] = beat, now
        return now - self._seen[sweeper][1] < LEASE

    def _forget(self, sweeper: int) -> None:
        self._connection.execute("DELETE FROM claims WHERE sweeper = ?", (sweeper,))
        self._connection.execute("DELETE FROM sweepers WHERE id = ?", (sweeper,))

    def _forget_dead(self) -> None:
        """Forget sweeps of this machine that were killed."""
        with say_errors(self._store), self._lock, transaction(self._connection):
            lines = self._connection.execute("SELECT id, machine, pid, started, beat FROM sweepers").fetchall()
            for sweeper in (line[0] for line in lines if not self._lives(*line)):
                self._forget(sweeper)

    def _beat(self) -> None:
        pid = os.getpid()
        own = (self._sweeper, _this_machine(), pid, _start_of(pid))
        with say_errors(self._store), self._lock:
            if not self._ended.is_set():
                self._connection.execute(
                    "INSERT INTO sweepers VALUES (?, ?, ?, ?, 0) ON CONFLICT (id) DO UPDATE SET beat = beat + 1", own
                )

    def _live(self) -> None:
        while not self._ended.wait(_BEAT):
            with suppress(Exception):  # a full disk, a lock: the next heartbeat may be written
                self._beat()


def _this_machine() -> str:
    """Return a name for this machine as long as it runs, and for the process numbers seen here; "" where unknown."""
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _start_of(pid: int) -> str:
    """Return when a process of this machine started; "" where there is none or it has ended."""
    try:
        state, *numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state in "ZX" else numbers[18]
