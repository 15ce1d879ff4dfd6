"""The commands ``sweep`` and ``store``, as a user types them."""

import csv
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import giantstep as gs
from giantstep.faces.cli.app import app

from .faulty import RAISES, Faulty

STUDY = """\
[scenario]
family = "faulty"
[grid]
level = [1, 2, 3]
offset = [0, 1]
[experiment]
dim = 10
trials = 2
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "S.toml").write_text(STUDY)

    def invoke(*words, status=0):
        result = CliRunner().invoke(app, list(words))
        assert result.exit_code == status, (result.output, result.exception)
        return result

    return invoke


def test_a_sweep_and_its_store(run, diary):
    first = run("sweep", "S.toml", "--store", "runs.db", "--json")
    assert "12 results computed, 0 were stored, 0 failed" in first.stderr
    data = json.loads(first.stdout)
    expected = gs.simulate(Faulty(), dim=10, trials=2, level=[1, 2, 3], offset=[0, 1])
    np.testing.assert_array_equal(data["mean"], expected["mean"])
    diary()
    more = run(
        "sweep",
        "S.toml",
        "--store",
        "runs.db",
        "--trials",
        "3",
        "--grid",
        "level=2,3,4",
    )
    assert "10 results computed, 8 were stored" in more.stderr
    assert len(diary()) == 5
    limit = run(
        "sweep",
        "S.toml",
        "--store",
        "runs.db",
        "--source",
        "limit",
        "--out",
        "limit.nc",
    )
    assert "6 results computed" in limit.stderr
    assert gs.load("limit.nc").equals(
        gs.predict(Faulty(), level=[1, 2, 3], offset=[0, 1])
    )
    listed = run("store", "ls", "runs.db").stdout.splitlines()
    assert listed[0].startswith(
        "faulty: mean, experiment (device=cpu, paired=False, seed=0); 8 points, 22"
        " results"
    )
    assert listed[1].startswith(
        "faulty: mean, limit (seed=0, tolerance=1e-10); 6 points, 6 results, 0 failed"
    )
    assert "everything is sound" in run("store", "verify", "runs.db").stdout


def test_failures_are_listed_with_scenario_and_reason(run):
    words = (
        "sweep",
        "S.toml",
        "--store",
        "runs.db",
        "--set",
        f"trouble={RAISES}",
        "--set",
        "since=1",
    )
    failed = run(*words, status=1)
    assert "6 failed (giantstep store show runs.db --failures)" in failed.stderr
    shown = run("store", "show", "runs.db", "--failures").stdout
    assert (
        shown.count("trial 1 failed: RuntimeError: boom") == 6
        and '"level": 3.0' in shown
    )
    assert "1 of 2 trials gave numbers" in shown
    key = shown.split()[0]
    assert "get_into_trouble" in run("store", "show", "runs.db", key).stdout
    (point,) = json.loads(run("store", "show", "runs.db", key, "--json").stdout)
    assert point["scenario"]["trouble"] == RAISES and point["results"][1][
        "reason"
    ].endswith("boom")
    assert "0 results computed" in run(*words, status=1).stderr
    assert "6 results computed" in run(*words, "--retry", status=1).stderr
    assert "begins with 'zz'" in run("store", "show", "runs.db", "zz", status=2).stderr


@pytest.fixture
def filled(run):
    run("sweep", "S.toml", "--store", "runs.db")
    run("sweep", "S.toml", "--store", "runs.db", "--source", "limit")
    return run


def test_export_has_a_row_per_point(filled):
    for name in ("all.csv", "all.parquet"):
        assert (
            "with 12 rows" in filled("store", "export", "runs.db", "--out", name).stderr
        )
    rows = list(csv.DictReader(Path("all.csv").read_text().splitlines()))
    assert len(rows) == 12
    mine = next(
        r
        for r in rows
        if (r["source"], r["level"], r["offset"]) == ("experiment", "2.0", "1.0")
    )
    expected = gs.simulate(Faulty(), dim=10, trials=2, level=2, offset=1)
    assert float(mine["mean"]) == float(expected["mean"])
    assert float(mine["mean_stderr"]) == float(expected["mean_stderr"])
    assert mine["trials_done"] == "2" and mine["seed"] == "0" and mine["dim"] == "10.0"
    assert float(mine["found[1]"]) == 7.0 and mine["phase"] == ""
    bare = next(
        r
        for r in rows
        if (r["source"], r["level"], r["offset"]) == ("limit", "3.0", "1.0")
    )
    assert bare["dim"] == "inf" and bare["phase"] == "high"
    from pyarrow import parquet

    table = parquet.read_table("all.parquet").to_pydict()
    assert table["mean"] == [float(row["mean"]) for row in rows]
    assert (
        "Missing option '--out'"
        in filled("store", "export", "runs.db", status=2).stderr
    )
    assert (
        "with one row per point: .csv or .parquet."
        in filled("store", "export", "--help").stdout
    )
    assert (
        "is exported as .csv, .parquet"
        in filled("store", "export", "runs.db", "--out", "a.nc", status=2).stderr
    )


def test_garbage_is_what_is_damaged_or_outdated(filled, monkeypatch):
    with sqlite3.connect("runs.db") as connection:
        connection.execute(
            "UPDATE results SET data = x'00' WHERE point = 1 AND trial = 0"
        )
    connection.close()
    verified = filled("store", "verify", "runs.db", status=1).stdout
    assert "damaged: " in verified and "trial 0" in verified
    assert (
        "1 damaged and 0 outdated results taken out"
        in filled("store", "gc", "runs.db").stdout
    )
    filled("store", "verify", "runs.db")
    monkeypatch.setattr(Faulty, "formula_version", 2)
    assert (
        json.loads(filled("store", "gc", "runs.db", "--json").stdout)["outdated"] == 17
    )
    assert filled("store", "ls", "runs.db").stdout == "The store is empty.\n"


def test_stores_that_are_none(run, tmp_path):
    for command in ("ls", "show", "verify", "gc"):
        assert (
            "There is no store 'no.db'"
            in run("store", command, "no.db", status=2).stderr
        )
    (tmp_path / "text.db").write_text("not a store " * 100)
    assert "damaged or no store" in run("store", "ls", "text.db", status=2).stderr
    assert (
        "damaged or no store"
        in run("sweep", "S.toml", "--store", "text.db", status=2).stderr
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_a_polite_kill(number, run, tmp_path, diary):
    command = [
        sys.executable,
        "-c",
        "import sweeps.faulty; from giantstep.faces.cli import main; main()",
    ]
    words = [
        "sweep",
        "S.toml",
        "--store",
        "runs.db",
        "--set",
        "pause=0.2",
        "--trials",
        "20",
    ]
    path = os.pathsep.join(
        [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    )
    process = subprocess.Popen(
        [*command, *words],
        env={**os.environ, "PYTHONPATH": path},
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    while (
        len(
            (tmp_path / "diary.txt").read_text().splitlines()
            if (tmp_path / "diary.txt").exists()
            else []
        )
        < 3
    ):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    # plain lines where nobody watches
    assert "0 of 120 trials at 6 points done" in errors.splitlines()[0]
    assert (
        "points are stored in runs.db; run the same sweep again"
        in errors.splitlines()[-1]
    )
    assert "Traceback" not in errors
    assert "everything is sound" in run("store", "verify", "runs.db").stdout
