"""Several sweeps on one store: each ends complete, no result is lost or there twice,
and the work is shared.
"""

import json
import random
import signal
import sqlite3
import subprocess
import sys
import time

import pytest
import xarray

import giantstep as gs
from giantstep.tools.sweeps.inspect import entries, verify
from giantstep.tools.sweeps.store import Store

from .faulty import RAISES, Faulty
from .nightly import SETTINGS
from .test_faults import TOTAL, started, stored


def test_what_another_sweep_has_stored_meanwhile_is_taken(store, diary, monkeypatch):
    """The other sweep is this process, which puts results back while the sweep is at
    work.
    """
    monkeypatch.setattr("giantstep.tools.sweeps.backends.TOGETHER", 0.0)
    settings = {"dim": 10, "trials": 2, "level": [1, 2, 3]}
    result = gs.sweep(Faulty(), store=store, **settings)
    rows = stored(store)
    ask = next(entry.ask for entry in entries(store))
    with Store(store) as other:
        other.remove_results(rows)
        diary()

        def put_back(done, total, text):
            if done == 1:
                other.put(ask, list(rows.values())[:5])

        again = gs.sweep(Faulty(), store=store, progress=put_back, **settings)
    assert len(diary()) <= 2  # the first one, and the sixth
    xarray.testing.assert_identical(again, result)


def test_a_result_stored_twice_stays_the_first_and_a_failure_is_replaced(store):
    gs.sweep(Faulty(), store=store, dim=10, trials=1)
    ((name, row),) = stored(store).items()
    ask = next(entry.ask for entry in entries(store))
    with Store(store) as other:
        other.put(ask, [type(row)(row.point, row.trial, {"mean": 99.0})])
    assert (
        stored(store)[name].values["mean"] == row.values["mean"]
        and len(stored(store)) == 1
    )
    failing = Faulty(trouble=RAISES)
    with pytest.warns(gs.GiantstepWarning):
        gs.sweep(failing, store=store, dim=10, trials=1)
    (failed,) = [entry for entry in entries(store) if entry.failures]
    with Store(store) as other:
        other.put(failed.ask, [type(row)(failed.point, 0, {"mean": 1.0})])
    assert (
        not [entry for entry in entries(store) if entry.failures]
        and len(stored(store)) == 2
    )


def test_a_store_needs_file_locks_only(store):
    """Catches the write-ahead log, which is not safe where several machines share a
    disk; an old store loses its.
    """
    Store(store).close()
    for before in ("delete", "wal"):
        with sqlite3.connect(store) as connection:
            connection.execute(f"PRAGMA journal_mode = {before}")
        connection.close()
        gs.sweep(Faulty(), store=store, dim=10, trials=1)
        with sqlite3.connect(store) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        connection.close()


def test_a_store_whose_sweep_was_killed_while_it_wrote_can_be_looked_into(store):
    """Catches a reader that may not take back what had been begun: SQLite then refuses
    to read at all.
    """
    gs.sweep(Faulty(), store=store, dim=10, trials=3)
    script = """import os, sqlite3, sys
c = sqlite3.connect(sys.argv[1], isolation_level=None)
c.execute("PRAGMA journal_mode = TRUNCATE")
c.execute("PRAGMA cache_size = 1")
c.execute("BEGIN IMMEDIATE")
c.execute("DELETE FROM results")
c.executemany("INSERT INTO results VALUES (1, ?, 0, 0, zeroblob(5000))", [(n,) for n in range(200)])
os._exit(1)"""
    subprocess.run([sys.executable, "-c", script, str(store)])
    assert store.with_name(store.name + "-journal").stat().st_size
    assert len(stored(store)) == 3 and verify(store).sound


def computed(lines):
    """Return what a diary says was computed: (trial, level) of each draw, which has two
    points.
    """
    return [
        (int(words[1]), float(words[3])) for words in (line.split() for line in lines)
    ]


def draws(results):
    """Return stored results as (trial, level) of their draws."""
    return {
        (trial, json.loads(row.point.scenario)["level"])
        for (_, trial), row in results.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", "processes"])
def test_sweeps_at_once_end_complete_and_share_the_work(engine, tmp_path, diary):
    for repeat in range(4):
        store = tmp_path / f"{repeat}.db"
        count = 2 + repeat % 2
        processes = [started(store, engine) for _ in range(count)]
        for process in processes:
            out, errors = process.communicate(timeout=300)
            assert process.returncode == 0, errors
            assert out.splitlines()[-2:] == [f"{TOTAL} {TOTAL}", "finished"]
        lines = diary()
        assert len(stored(store)) == TOTAL and len(set(lines)) == TOTAL // 2
        assert len(lines) < 0.9 * count * TOTAL // 2


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_hundred_sigkills_lose_and_double_nothing(tmp_path, diary):
    """Two sweeps on one store, both killed somewhere: what was reported is there, what
    is there is not done again.
    """
    expected = gs.simulate(Faulty(), **SETTINGS)
    diary()
    chance = random.Random(1)
    kills = number = 0
    while kills < 100:
        number += 1
        store = tmp_path / f"{number}.db"
        engine = ("local", "processes")[number % 2]
        before = {}
        while len(before) < TOTAL:
            programs = [started(store, engine) for _ in range(2)]
            done = 0
            for process in programs:
                done = max(
                    done, wait_or_end(process, len(before) + chance.randrange(1, 14))
                )
                time.sleep(chance.random() * 0.1)
                process.send_signal(signal.SIGKILL)
                out, _ = process.communicate()
                kills += process.returncode == -signal.SIGKILL
                # one may be torn
                whole = [
                    words
                    for words in map(str.split, out.splitlines())
                    if len(words) == 2
                ]
                done = max([done, *(int(words[0]) for words in whole)])
            after = stored(store)
            lines = computed(diary())
            assert len(after) >= done and verify(store).sound
            assert before.keys() <= after.keys() and not set(lines) & draws(before)
            # what they were at when they died: local tasks of 30 ms each are stored
            # every 0.1 s; a worker process may have begun a task while its last answer
            # is stored
            lost = len(set(lines)) - (len(after) - len(before)) // 2
            assert 0 <= lost <= len(programs) * 4, (engine, kills, lost)
            before = after
        xarray.testing.assert_identical(
            gs.sweep(Faulty(), store=store, **SETTINGS), expected
        )
        assert diary() == []
    assert kills >= 100


def wait_or_end(process, results):
    """Wait until a program has reported so many results, or has ended; return how many
    it reported.
    """
    done = 0
    while done < results:
        words = process.stdout.readline().split()
        if not words or not words[0].isdigit():
            break
        done = int(words[0])
    return done
