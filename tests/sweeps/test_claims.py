"""Claims: several sweeps on one store share the work, and a dead one loses its part."""

import json
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter

import pytest
import xarray

import giantstep as gs
from giantstep.sweeps import claims as claims_module
from giantstep.sweeps import disk, runner
from giantstep.sweeps.claims import Claims
from giantstep.sweeps.inspect import entries, verify
from giantstep.sweeps.store import Store

from .faulty import Faulty
from .nightly import SETTINGS
from .test_faults import TOTAL, started, stored

MINE = [("a", 0), ("a", 1)]


@pytest.fixture
def pair(store):
    Store(store).close()
    both = Claims(store), Claims(store)
    yield both
    for claims in both:
        claims.close()


def test_a_claim_is_for_all_or_none_until_it_is_given_up(pair):
    first, second = pair
    assert first.claim(MINE) and first.claim(MINE)
    assert not second.claim([("a", 1), ("b", 0)])
    assert second.claim([("b", 0)])
    first.release([("a", 1)])
    assert second.claim([("a", 1)]) and not second.claim(MINE)
    first.close()
    assert second.claim(MINE)


def test_a_sweep_elsewhere_lives_as_long_as_its_heart_beats(pair, store, monkeypatch):
    first, second = pair
    assert first.claim(MINE)
    with sqlite3.connect(store) as connection:
        connection.execute("UPDATE sweepers SET machine = 'another', pid = 1 WHERE id = ?", (first._sweeper,))
    connection.close()
    monkeypatch.setattr(claims_module, "LEASE", 0.2)
    assert not second.claim(MINE)
    first._beat()
    time.sleep(0.25)
    assert not second.claim(MINE)  # the count has changed since the last look
    time.sleep(0.25)
    assert second.claim(MINE)
    assert not first.claim(MINE)


def test_a_killed_process_of_this_machine_has_lost_its_claims(store):
    Store(store).close()
    script = "import sys; from pathlib import Path; from giantstep.sweeps.claims import Claims\n"
    script += "c = Claims(Path(sys.argv[1])); print(c.claim([('a', 0)]), flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", script, str(store)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "True\n"
    mine = Claims(store)
    assert not mine.claim([("a", 0)])
    process.kill()
    while not mine.claim([("a", 0)]):  # also while it is a zombie
        time.sleep(0.01)
    process.communicate()
    mine.close()
    with sqlite3.connect(store) as connection:
        assert connection.execute("SELECT count(*) FROM sweepers").fetchone() == (0,)
    connection.close()


def test_what_another_sweep_computes_is_waited_for_and_taken(store, diary, monkeypatch, caplog):
    """The other sweep is this process: its claim ends with the result it stores, or without one."""
    monkeypatch.setattr(runner, "_LOOK", 0.05)
    settings = {"dim": 10, "trials": 2}
    result = gs.sweep(Faulty(), store=store, level=[1, 2], **settings)
    rows = stored(store)
    with Store(store) as other:
        ask = next(entry.ask for entry in entries(store))
        other.remove_results(rows)
        claims = Claims(store)
        assert claims.claim(rows)
        diary()

        left = list(rows.items())

        def do_some(pending):
            assert not diary()  # nothing that is claimed is computed
            wait(pending)
            if len(left) > 1:
                other.put(ask, [left.pop()[1]])
            else:
                claims.close()  # the last one is given up

        wait = runner._Pending.wait
        monkeypatch.setattr(runner._Pending, "wait", do_some)
        caplog.set_level("INFO", "giantstep")
        again = gs.sweep(Faulty(), store=store, level=[1, 2], **settings)
    assert len(diary()) == 1
    assert "4 results are being computed by another sweep" in caplog.text
    xarray.testing.assert_identical(again, result)


def test_a_store_that_machines_may_share_has_no_write_ahead_log(store, monkeypatch):
    assert disk.file_system(store) and disk.file_system("/proc/self/status") == "proc"
    monkeypatch.setattr(disk, "file_system", lambda path: "nfs4")
    gs.sweep(Faulty(), store=store, dim=10, trials=1)
    with sqlite3.connect(store) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    connection.close()


def computed(lines):
    """Return what a diary says was computed: (trial, level) of each draw, which has two points."""
    return Counter((int(words[1]), float(words[3])) for words in (line.split() for line in lines))


def draws(results):
    """Return stored results as (trial, level) of their draws."""
    return {(trial, json.loads(row.point.scenario)["level"]) for (_, trial), row in results.items()}


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("processes",), ("local", "network")], ids=lambda words: "-".join(words))
def test_sweeps_at_once_compute_nothing_twice(words, tmp_path, diary):
    for repeat in range(4):
        store = tmp_path / f"{repeat}.db"
        processes = [started(store, *words) for _ in range(2 + repeat % 2)]
        for process in processes:
            out, errors = process.communicate(timeout=300)
            assert process.returncode == 0, errors
            assert out.splitlines()[-2:] == [f"{TOTAL} {TOTAL}", "finished"]
        lines = diary()
        assert len(lines) == len(set(lines)) == TOTAL // 2 and len(stored(store)) == TOTAL


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_hundred_sigkills_lose_and_double_nothing(tmp_path, diary):
    """Two sweeps on one store, both killed somewhere: what was reported is there, what is there is not done again."""
    expected = gs.simulate(Faulty(), **SETTINGS)
    diary()
    chance = random.Random(1)
    kills = number = 0
    while kills < 100:
        number += 1
        store, engine = tmp_path / f"{number}.db", ("local", "processes")[number % 2]
        before = {}
        while len(before) < TOTAL:
            programs = [started(store, engine) for _ in range(2)]
            done = 0
            for process in programs:
                done = max(done, wait_or_end(process, len(before) + chance.randrange(1, 14)))
                time.sleep(chance.random() * 0.1)
                process.send_signal(signal.SIGKILL)
                out, _ = process.communicate()
                kills += process.returncode == -signal.SIGKILL
                whole = [words for words in map(str.split, out.splitlines()) if len(words) == 2]  # one may be torn
                done = max([done, *(int(words[0]) for words in whole)])
            after, lines = stored(store), computed(diary())
            assert len(after) >= done and verify(store).sound
            assert before.keys() <= after.keys() and not lines.keys() & draws(before)
            lost = sum(lines.values()) - (len(after) - len(before)) // 2
            # what they were at when they died; a worker process may have begun a task while its last answer is stored
            assert 0 <= lost <= len(programs) * (1 if engine == "local" else 4), (engine, kills, lost)
            before = after
        xarray.testing.assert_identical(gs.sweep(Faulty(), store=store, **SETTINGS), expected)
        assert diary() == []
    assert kills >= 100


def wait_or_end(process, results):
    """Wait until a program has reported so many results, or has ended; return how many it reported."""
    done = 0
    while done < results:
        words = process.stdout.readline().split()
        if not words or not words[0].isdigit():
            break
        done = int(words[0])
    return done
