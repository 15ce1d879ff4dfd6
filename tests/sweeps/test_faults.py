"""Faults, each really done: nothing reported as done is lost or doubled, the rest is
computed on resume.
"""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import xarray

import giantstep as gs
from giantstep.tools.sweeps import store as store_module
from giantstep.tools.sweeps.inspect import collect_garbage, entries, overview, verify

from .faulty import (
    DEAF,
    DIES_ANSWERING,
    HAS_CHILDREN,
    KILLS,
    KILLS_ONCE,
    LEAVES_A_CHILD,
    NEVER_ENDS,
    RAISES,
    TAKES_MEMORY,
    Faulty,
)
from .nightly import SETTINGS

FOLDER = Path(__file__).parent
TOTAL = 48
"""Results of the nightly sweep: 12 points, 4 trials."""


def started(store, *words):
    path = os.pathsep.join([str(FOLDER.parent), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, str(FOLDER / "nightly.py"), str(store), *words]
    return subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def reported(process, at_least):
    """Read what the program reports until so many results are done."""
    done = 0
    while done < at_least:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        done = int(line.split()[0])
    return done


def stored(store):
    return {
        (entry.point.digest, row.trial): row
        for entry in entries(store)
        for row in entry.rows
    }


def resumed(store, diary):
    """Go on with the nightly sweep; return how many results it computed."""
    before = stored(store)
    diary()
    result = gs.sweep(Faulty(), store=store, **SETTINGS)
    after = stored(store)
    assert len(after) == TOTAL
    for name, row in before.items():
        assert after[name].values["mean"] == row.values["mean"]
    assert 2 * len(diary()) == TOTAL - len(before)  # a draw answers two points
    xarray.testing.assert_identical(result, gs.simulate(Faulty(), **SETTINGS))
    return TOTAL - len(before)


def sentence(**settings):
    with pytest.raises(gs.GiantstepError) as caught:
        gs.sweep(Faulty(), **{"dim": 10, "trials": 2, **settings})
    return str(caught.value)


@pytest.mark.parametrize("engine", ["local", "processes"])
def test_sigkill_of_the_main_process(engine, store, diary):
    process = started(store, engine)
    done = reported(process, 10)
    workers = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    done = max(
        [
            done,
            *(int(line.split()[0]) for line in process.communicate()[0].splitlines()),
        ]
    )
    assert process.returncode == -signal.SIGKILL
    # no worker survives its parent
    assert not psutil.wait_procs(workers, timeout=20)[1]
    assert done <= len(stored(store)) < TOTAL  # everything reported is there
    assert verify(store).sound
    assert resumed(store, diary) > 0


def test_sigkill_of_a_worker_process(store, diary):
    faulty = Faulty(trouble=KILLS_ONCE, since=1)
    settings = {"dim": 10, "trials": 2, "level": [1, 2, 3]}
    result = gs.sweep(faulty, store=store, engine="processes", workers=2, **settings)
    assert len(diary()) == 6 + 1  # the task that lost its worker ran twice
    assert len(stored(store)) == 6
    xarray.testing.assert_identical(result, gs.simulate(faulty, **settings))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("trouble", [DIES_ANSWERING, LEAVES_A_CHILD])
def test_sigkill_of_a_worker_in_the_middle_of_its_answer(
    trouble, store, diary, monkeypatch
):
    monkeypatch.setattr("giantstep.tools.sweeps.workers._LOOK", 0.5)
    faulty = Faulty(trouble=trouble, since=1)
    start = time.monotonic()
    result = gs.sweep(
        faulty, store=store, engine="processes", workers=1, dim=10, trials=2
    )
    # the child of the dead worker holds its pipe for longer
    assert time.monotonic() - start < 25
    assert len(diary()) == 2 + 1 and len(stored(store)) == 2
    xarray.testing.assert_identical(result, gs.simulate(faulty, dim=10, trials=2))


def test_a_task_may_have_processes_of_its_own(store):
    result = gs.sweep(
        Faulty(trouble=HAS_CHILDREN),
        store=store,
        engine="processes",
        workers=1,
        dim=10,
        trials=1,
    )
    assert int(result["trials_done"]) == 1


def test_workers_that_cannot_start_are_said_in_a_sentence(tmp_path):
    script = """import giantstep as gs
s = gs.OneStep(width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1)
gs.sweep(s, engine="processes", workers=1, dim=10, trials=2)
"""
    # every worker imports it, and would sweep itself
    (tmp_path / "unguarded.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "unguarded.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 1
    assert (
        'call the sweep below `if __name__ == "__main__":`'
        in done.stderr.splitlines()[-1]
    )


def test_a_task_that_kills_every_worker_fails_alone(store, diary):
    settings = {
        "store": store,
        "engine": "processes",
        "workers": 1,
        "dim": 10,
        "trials": 2,
        "trouble": [KILLS, 0],
    }
    with pytest.warns(gs.GiantstepWarning, match="1 of 2 points were not measured"):
        result = gs.sweep(Faulty(since=1), **settings)
    assert result["trials_done"].values.tolist() == [1, 2]
    assert "its worker process died 3 times" in str(result["status"].values[0])
    assert len(diary()) == 3 + 3
    with pytest.warns(gs.GiantstepWarning, match="1 of 2 points were not measured"):
        gs.sweep(Faulty(since=1), **settings)
    assert diary() == []


def test_a_task_that_raises_is_listed_and_retried_only_when_asked(
    store, diary, monkeypatch
):
    settings = {"store": store, "dim": 10, "trials": 3, "level": [1, 2]}
    faulty = Faulty(trouble=RAISES, since=2)
    with pytest.warns(gs.GiantstepWarning, match="trial 2: RuntimeError: boom"):
        result = gs.sweep(faulty, **settings)
    assert (
        result["trials_done"].values.tolist() == [2, 2]
        and result["mean"].isnull().all()
    )
    failures = sorted(
        (e.point.scenario, row.reason, row.detail)
        for e in entries(store)
        for row in e.failures
    )
    assert len(failures) == 2 and '"level": 2.0' in failures[1][0]
    assert (
        failures[0][1] == "trial 2: RuntimeError: boom"
        and "get_into_trouble" in failures[0][2]
    )
    diary()
    with pytest.warns(gs.GiantstepWarning, match="2 of 2 points were not measured"):
        gs.sweep(faulty, **settings)
    assert diary() == []
    monkeypatch.setattr("sweeps.faulty.get_into_trouble", lambda kind: None)  # mended
    mended = gs.sweep(faulty, retry=True, **settings)
    assert len(diary()) == 2
    assert bool(mended["converged"].all()) and len(stored(store)) == 6
    xarray.testing.assert_identical(mended, gs.sweep(faulty, **settings))


def test_a_batch_of_limits_loses_only_the_point_that_raises(store):
    levels = np.arange(1.0, 15.0)
    with pytest.warns(
        gs.GiantstepWarning,
        match=r"2 of 14 points were not solved \(first reason: it does not",
    ):
        result = gs.sweep(Faulty(), source="limit", store=store, level=levels)
    assert result["status"].values[10] == "it does not converge"
    assert result["status"].values[12] == "ZeroDivisionError: thirteen"
    fine = np.delete(levels, [10, 12])
    expected = gs.predict(Faulty(), level=fine)
    np.testing.assert_array_equal(result["mean"].sel(level=fine), expected["mean"])
    with pytest.warns(gs.GiantstepWarning, match="1 of 1 points were not solved"):
        alone = gs.sweep(Faulty(), source="limit", store=store, level=13)
    assert alone["mean"].isnull() and not alone["converged"]


@pytest.mark.parametrize("engine", ["local", "processes"])
def test_a_task_that_never_ends(engine, store):
    settings = {
        "store": store,
        "engine": engine,
        "dim": 10,
        "trials": 2,
        "time_limit": 3.0,
    }
    with pytest.warns(gs.GiantstepWarning, match="trial 1: it took longer than 3 s"):
        result = gs.sweep(Faulty(trouble=NEVER_ENDS, since=1), **settings)
    assert int(result["trials_done"]) == 1
    assert bool(gs.sweep(Faulty(), **settings)["converged"])


def test_a_task_that_never_ends_in_compiled_code_loses_its_worker(store, diary):
    settings = {
        "store": store,
        "engine": "processes",
        "workers": 1,
        "dim": 10,
        "trials": 2,
        "time_limit": 2.0,
    }
    with pytest.warns(
        gs.GiantstepWarning, match="1 of 2 points .*trial 1: it took longer than 2 s"
    ):
        result = gs.sweep(Faulty(since=1), trouble=[DEAF, 0], **settings)
    assert result["trials_done"].values.tolist() == [1, 2]
    assert len(diary()) == 4


def test_a_task_that_runs_out_of_memory(store):
    settings = {
        "store": store,
        "engine": "processes",
        "workers": 1,
        "memory": 0.25,
        "dim": 10,
        "trials": 2,
    }
    with pytest.warns(gs.GiantstepWarning, match="trial 1: out of memory"):
        result = gs.sweep(Faulty(trouble=TAKES_MEMORY, since=1), **settings)  # 1 GiB
    assert int(result["trials_done"]) == 1
    (failure,) = [row for entry in entries(store) for row in entry.failures]
    assert failure.reason.startswith("trial 1: out of memory")


def check_full(store, diary, make_room):
    levels = np.arange(60.0)
    said = []
    message = sentence(
        store=store,
        level=levels,
        trials=10,
        progress=lambda done, total, text: said.append(done),
    )
    assert "full" in message and "make room and run the same sweep again" in message
    there = stored(store)
    assert len(there) >= said[-1] > 0
    assert len(there) < 600
    make_room()
    diary()
    result = gs.sweep(Faulty(), store=store, dim=10, trials=10, level=levels)
    assert len(diary()) == 600 - len(there)
    xarray.testing.assert_identical(
        result, gs.simulate(Faulty(), dim=10, trials=10, level=levels)
    )


def test_a_full_disk(tmp_path, diary):
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here; the page limit is tested instead")
    try:
        grow = ["mount", "-o", "remount,size=64m", str(folder)]
        check_full(folder / "runs.db", diary, lambda: subprocess.run(grow, check=True))
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_store_at_its_page_limit(store, diary):
    connect = sqlite3.connect

    def small(*args, **options):
        connection = connect(*args, **options)
        connection.execute("PRAGMA max_page_count = 30")
        return connection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_module.sqlite3, "connect", small)
        check_full(store, diary, patch.undo)


def test_a_truncated_store_is_refused_and_left_as_it_is(store):
    gs.sweep(Faulty(), store=store, dim=10, trials=4, level=np.arange(60.0))
    os.truncate(store, store.stat().st_size * 4 // 5)
    broken = store.read_bytes()
    message = sentence(store=store, level=1.0)
    assert "is damaged" in message and "Use another file" in message
    assert not sound(store)
    assert store.read_bytes() == broken


def sound(store):
    """Tell whether a store can be read and is sound."""
    try:
        return verify(store).sound
    except gs.InputError:
        return False


def test_overwritten_pages_are_noticed(store):
    gs.sweep(Faulty(), store=store, dim=10, trials=4, level=np.arange(60.0))
    with open(store, "r+b") as file:
        file.seek(-4096, os.SEEK_END)  # a page of results
        file.write(os.urandom(4096))
    assert "is damaged" in sentence(store=store, level=1.0)
    assert not sound(store)
    store.write_bytes(os.urandom(20000))
    assert "is damaged or no store" in sentence(store=store)


def test_damaged_text_is_said_in_a_sentence(store):
    gs.sweep(Faulty(), store=store, dim=10, trials=1)
    whole = store.read_bytes()
    store.write_bytes(
        whole.replace(b"CREATE TABLE results (", b"CREATE TABLE results \xff")
    )
    assert "is damaged or no store (its text cannot be read)" in sentence(store=store)
    assert not sound(store)
    for old, new in ((b'"seed": 0', b'"seed"; 0'), (b"10.0", b"1\xff.0")):
        assert old in whole
        store.write_bytes(whole.replace(old, new))
        assert "cannot be read" in said_of(lambda: list(entries(store)))


def test_an_index_that_denies_a_row_is_damage(store):
    """Catches a check that compares no index with its table: what was inserted may not
    be found, and lost.
    """
    gs.sweep(Faulty(), store=store, dim=10, trials=2, level=[1, 2])
    with sqlite3.connect(store) as connection:
        (page,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name LIKE"
            " 'sqlite_autoindex_points%'"
        ).fetchone()
    connection.close()
    content = bytearray(store.read_bytes())
    content[(page - 1) * 4096 + 3 : (page - 1) * 4096 + 5] = (
        b"\0\1"  # the index has one entry in place of two
    )
    store.write_bytes(content)
    assert "damaged or no store" in sentence(store=store, trials=2)


def said_of(read):
    with pytest.raises(gs.GiantstepError) as caught:
        read()
    return str(caught.value)


@pytest.mark.slow
def test_random_damage_gives_a_sentence_or_the_right_numbers(store, tmp_path):
    settings = {"dim": 10, "trials": 4, "level": np.arange(12.0)}
    gs.sweep(Faulty(), store=store, **settings)
    whole = store.read_bytes()
    expected = gs.simulate(Faulty(), **settings)
    damaged = tmp_path / "damaged.db"
    uses = [
        lambda: xarray.testing.assert_identical(
            gs.sweep(Faulty(), store=damaged, **settings), expected
        ),
        lambda: verify(damaged),
        lambda: overview(damaged),
        lambda: list(entries(damaged)),
        lambda: collect_garbage(damaged),
    ]
    refused = 0
    for seed in range(300):
        chance = random.Random(seed)
        content = bytearray(whole)
        for _ in range(chance.choice([1, 2, 8, 40])):
            content[chance.randrange(len(whole) if chance.random() < 0.6 else 8192)] = (
                chance.randrange(256)
            )
        for use in uses:
            for file in tmp_path.glob("*d.db*"):
                file.unlink()
            damaged.write_bytes(content)
            try:
                use()
            except gs.GiantstepError:
                refused += 1
    assert refused > 300


def test_a_read_only_store_is_not_called_damaged(tmp_path, monkeypatch):
    folder = tmp_path / "closed"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        store = folder / "runs.db"
        gs.sweep(Faulty(), store=store, dim=10, trials=2)
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        health = verify(store)
        assert health.sound and health.results == 2
        assert len(list(entries(store))) == 1
        # there is nothing to add
        assert (
            int(gs.sweep(Faulty(), store=store, dim=10, trials=2)["trials_done"]) == 2
        )
        for use in (
            lambda: collect_garbage(store),
            lambda: gs.sweep(Faulty(), store=store, dim=10, trials=3),
        ):
            assert "cannot be written to" in said_of(use)
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_changed_number_is_noticed_and_computed_again(store, diary, caplog):
    settings = {"store": store, "dim": 10, "trials": 3, "level": [1, 2]}
    expected = gs.sweep(Faulty(), **settings)
    with sqlite3.connect(store) as connection:
        other = "SELECT data FROM results WHERE trial = 0 LIMIT 1"
        connection.execute(f"UPDATE results SET data = ({other}) WHERE trial = 2")
    connection.close()
    health = verify(store)
    assert len(health.damaged) == 2 and {trial for _, trial in health.damaged} == {2}
    diary()
    again = gs.sweep(Faulty(), **settings)
    assert diary() == ["trial 2 level 1 offsets [0.0]", "trial 2 level 2 offsets [0.0]"]
    assert "2 results in" in caplog.text and "are damaged" in caplog.text
    xarray.testing.assert_identical(again, expected)
    assert verify(store).sound


def test_two_processes_on_one_store(store, diary):
    both = [started(store), started(store)]
    for process in both:
        out, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        assert out.splitlines()[-2:] == [f"{TOTAL} {TOTAL}", "finished"]
    lines = diary()
    assert len(stored(store)) == TOTAL and len(set(lines)) == TOTAL // 2
    # they share the work: without a look into the store it would be twice as much
    assert len(lines) < 0.9 * TOTAL
    assert resumed(store, diary) == 0


def test_ctrl_c_stops_cleanly_and_says_how_to_go_on(store, diary, monkeypatch):
    monkeypatch.setattr("giantstep.tools.sweeps.backends.TOGETHER", 0.0)
    from giantstep.tools.sweeps.verb import Interrupted

    def stop(done, total, text):
        if done >= 10:
            raise KeyboardInterrupt

    with pytest.raises(
        Interrupted,
        match=(
            f"10 of {TOTAL} trials at 12 points are stored in .*run the same sweep"
            " again"
        ),
    ):
        gs.sweep(Faulty(), store=store, progress=stop, **SETTINGS)
    assert resumed(store, diary) == TOTAL - 10


def test_ctrl_c_on_a_terminal_stops_the_workers(store, diary):
    process = started(store, "processes")
    reported(process, 4)
    workers = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGINT)  # a terminal tells all of them
    _, errors = process.communicate(timeout=60)
    assert errors.count("Traceback") == 1  # of the program, none of its workers
    assert "run the same sweep again" in errors.splitlines()[-1]
    assert not psutil.wait_procs(workers, timeout=20)[1]
    assert resumed(store, diary) > 0
