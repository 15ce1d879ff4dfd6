"""Whatever a scenario is made of, it is refused in one sentence, flagged with a reason, or answered.

`make verify` draws 10,000 of them; here are some hundreds, most of which are only checked.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from typer.testing import CliRunner

import giantstep as gs
import giantstep.deadline as deadlines
from giantstep.cli.app import app
from giantstep.deadline import TimeUp, deadline
from giantstep.errors import NotFiniteError
from giantstep.families import SHIPPED, family_class
from giantstep.family import Answer
from giantstep.types import Points

from .random_scenarios import FAULTS, Case, CpuWatch, TooLongError, draw_case, judge, run_many, study_text

ROOT = Path(__file__).parents[2]
SWALLOWED = pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
"""Compiled code that calls Python may swallow the end of its time; it is raised again until the block is left."""


@pytest.mark.parametrize("family", SHIPPED)
def test_scenarios_are_made_or_refused(family: str) -> None:
    outcomes = [judge(draw_case(number, family), only_check=True) for number in range(60)]
    assert not [outcome for outcome in outcomes if outcome.is_fault]
    assert {outcome.end for outcome in outcomes} == {"refused", "answered"}


@SWALLOWED
@pytest.mark.parametrize("family", SHIPPED)
def test_predictions_are_answered_flagged_or_refused(family: str) -> None:
    """A point that takes longer than the little time it gets is flagged, too."""
    outcomes = [judge(draw_case(number, family), patience=0.1) for number in range(1000, 1010)]
    assert not [(outcome.case, outcome.text) for outcome in outcomes if outcome.is_fault]


@SWALLOWED
@pytest.mark.parametrize("count", [16, pytest.param(400, marks=pytest.mark.slow)])
def test_the_command_line_ends_the_same_way(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer (0), a flagged point (1) or one sentence (2), whatever stands in the file."""
    monkeypatch.setenv("GIANTSTEP_CPU_LIMIT", "0.1")
    study, statuses = tmp_path / "S.toml", set()
    texts = (study_text(draw_case(number)) for number in range(2000, 2000 + count))
    for text in filter(None, texts):
        study.write_text(text)
        result = CliRunner().invoke(app, ["predict", str(study)])
        assert result.exception is None or isinstance(result.exception, SystemExit), text
        assert result.exit_code in (0, 1, 2), text
        if result.exit_code == 2:
            assert result.stderr.startswith("giantstep: ") and result.stderr.count("\n") == 1, text
        statuses.add(result.exit_code)
    assert 2 in statuses and statuses & {0, 1}


@pytest.mark.slow
def test_ten_thousand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outcomes are kept by the content of the package, so that a run that was stopped goes on."""
    monkeypatch.delenv("GIANTSTEP_CPU_LIMIT", raising=False)  # tests have none, users 15 seconds
    content = hashlib.sha256(b"".join(path.read_bytes() for path in sorted((ROOT / "src").rglob("*.py"))))
    kept = ROOT / "out" / "random_scenarios" / f"{content.hexdigest()[:16]}.jsonl"
    for _ in run_many(list(range(10_000)), os.cpu_count() or 2, kept):
        pass
    outcomes = [json.loads(line) for line in kept.read_text().splitlines()]
    assert {outcome["number"] for outcome in outcomes} == set(range(10_000))
    assert not [outcome for outcome in outcomes if outcome["end"] in FAULTS]


def _hard_cases() -> dict[str, Case]:
    """Return cases that once went on without an end, crashed, or gave no reason."""
    one, sgd, bayes, reuse, giant = map(
        family_class, ("one-step", "online-sgd", "bayes-limit", "batch-reuse", "giant-steps")
    )
    deep = functools.reduce(lambda inner, _: f"relu({inner}-1)", range(25), "z")
    narrow = dict(one.example_for("spectrum").replace(width_per_dim=1e-300))
    noisy = dict(sgd.example_for("trajectory").replace(noise=1e9))
    signs = {
        "target": "tanh(z1*z2*z3)",
        "activation": "z",
        "second_layer": [1.0, -1.0] * 15,
        "initial_gram": "orthogonal",
    }
    many_runs = {**dict(sgd.example()), **signs, "dim": 64, "batch_size": 64, "steps": 2432, "algorithm": "exponential",
                 "constraint": "spherical", "initial_overlap": "random"}  # fmt: skip
    quadratic = {"target": "(z1 + z1**2 + z2 - z2**2)/2", "activation": "h3(z)", "noise": 0.1, "batch_per_dim": 4.0}
    wide = {**dict(giant.example()), **quadratic, "steps": 2, "width": 20.0}
    return {
        "narrow": Case(0, "one-step", narrow, "spectrum", {}),
        "noisy": Case(1, "online-sgd", noisy, "trajectory", {"theory": "ode"}),
        "deep": Case(2, "one-step", {**dict(one.example()), "activation": deep}, "errors", {}),
        "long": Case(4, "batch-reuse", {**dict(reuse.example()), "steps": 10**9}, "kernels", {}),
        "drowned": Case(
            3, "bayes-limit", {**dict(bayes.example()), "target": "sign(z1*z2)", "noise": 1e300}, "trajectory", {}
        ),
        # one operation on arrays of gigabytes, in which no deadline is heard
        "spread": Case(
            5,
            "bayes-limit",
            {"target": "tanh(z1) + h3(z2)", "noise": 0.0879, "samples_per_dim": 0.566},
            "thresholds",
            {},
        ),
        "many runs": Case(6, "online-sgd", many_runs, "trajectory", {"runs": 47, "starts": 38}),
        "many columns": Case(
            7, "batch-reuse", {**dict(reuse.example()), "data": "cycle", "batches": 5, "steps": 2000}, "trajectory", {}
        ),
        "wide": Case(8, "giant-steps", wide, "errors", {"kappa": 40}),
    }


@SWALLOWED
@pytest.mark.parametrize("name", _hard_cases())
def test_hard_cases_end(name: str) -> None:
    outcome = judge(_hard_cases()[name], patience=0.3)
    assert outcome.end in ("refused", "flagged"), outcome.text


@SWALLOWED
@pytest.mark.slow
@pytest.mark.parametrize("name", _hard_cases())
def test_hard_cases_end_in_the_time_they_have(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`judge` allows 20 seconds of CPU."""
    monkeypatch.delenv("GIANTSTEP_CPU_LIMIT", raising=False)
    outcome = judge(_hard_cases()[name])
    assert not outcome.is_fault, outcome.text
    assert outcome.silence < 3.0, outcome.after


def test_cpu_beyond_the_limit_is_a_fault_whatever_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A point that was given up, but too late, is flagged and all the same too long."""
    case = _hard_cases()["drowned"]
    assert judge(case, only_check=True).end == "answered"
    clock = itertools.count(0.0, 30.0)
    monkeypatch.setattr(time, "process_time", lambda: next(clock))
    late = judge(case, only_check=True)
    assert late.end == "too long" and late.is_fault


def test_the_longest_silence_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 0.1, 7.1, 7.2, 60.0])
    monkeypatch.setattr(time, "process_time", lambda: next(clock))
    watch = CpuWatch(50.0)
    for _ in range(3):
        watch.look(0, sys._getframe())
    assert watch.silence == 7.0 and __file__ in watch.after
    with pytest.raises(TooLongError):
        watch.look(0, sys._getframe())


def test_numbers_that_leave_the_range_are_told_from_mistakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a ValueError says, it is a mistake; a `NotFiniteError` flags the point."""
    s = family_class("subspace-clustering").example()

    def fail(error: Exception) -> Any:
        def limit(*_: Any) -> Answer:
            raise error

        return limit

    monkeypatch.setattr(type(s), "limit", fail(ValueError("`y` must contain only finite values.")))
    with pytest.raises(ValueError, match="finite"):
        gs.predict(s)
    monkeypatch.setattr(type(s), "limit", fail(NotFiniteError("an overlap is not finite")))
    with pytest.warns(gs.GiantstepWarning):
        assert "an overlap is not finite" in str(gs.predict(s).status.values)


def test_fields_that_are_no_tables_are_refused() -> None:
    for family in SHIPPED:
        for value in ({"inputs": 1.0, "labels": 2.0}, {"kind": 3}, [[1.0], [2.0, 3.0]], 1j):
            for name in family_class(family).model_fields:
                with pytest.raises(gs.InputError, match=r"\.$"):
                    family_class(family)(**{**dict(family_class(family).example()), name: value})


def test_a_point_that_takes_too_long_is_flagged_and_its_neighbours_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    s = family_class("subspace-clustering").example()
    limit = type(s).limit

    def slow_at_two(self: gs.Scenario, points: Points, what: str, settings: Mapping[str, Any]) -> Answer:
        return _spin() if 2.0 in points["snr"] else limit(self, points, what, settings)

    expected = gs.predict(s, snr=[1.0, 3.0])
    monkeypatch.setattr(type(s), "limit", slow_at_two)
    with pytest.warns(gs.GiantstepWarning, match="too long"):
        result = gs.predict(s, snr=[1.0, 2.0, 3.0], cpu_limit=0.2)
    assert result.converged.values.tolist() == [True, False, True]
    assert "cpu_limit" in str(result.status.values[1]) and np.isnan(result.m_u.values[1]).all()
    assert np.array_equal(result.m_u.values[[0, 2]], expected.m_u.values)


def test_the_limit_of_cpu_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    s = family_class("subspace-clustering").example()
    for bad in (0.0, -1, math.nan, "long"):
        with pytest.raises(gs.InputError, match="cpu_limit"):
            gs.predict(s, cpu_limit=bad)
    monkeypatch.setenv("GIANTSTEP_CPU_LIMIT", "soon")
    with pytest.raises(gs.InputError, match="cpu_limit"):
        gs.predict(s)


def test_a_deadline_counts_cpu_not_waiting() -> None:
    with deadline(0.05, cpu=True):
        time.sleep(0.1)
    with pytest.raises(TimeUp), deadline(0.05, cpu=True):
        _spin()


def test_time_that_is_up_cannot_be_swallowed() -> None:
    """Compiled code that calls Python may drop an exception: it comes again, and what was computed is not believed."""
    for after in (_spin, float, lambda: float("no number")):
        with pytest.raises(TimeUp), deadline(0.05, cpu=True):
            _swallow_time_up(after)


def test_time_that_is_up_before_a_block_begins_never_begins_it() -> None:
    """A thread that raises at once would meet whoever waits for it to start."""
    for seconds in (0.0, -1.0):
        with pytest.raises(TimeUp), deadline(seconds, cpu=True):
            raise AssertionError("the block was entered")
    assert not _watches()


def test_nothing_is_raised_after_a_block_whose_end_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """`TimeUp` may arrive where the thread that raises it should be stopped: it ends by itself, and raises no more."""

    def interrupted(_: object) -> None:
        raise TimeUp

    with monkeypatch.context() as patch:
        patch.setattr(deadlines._Watch, "stop", interrupted)
        with pytest.raises(TimeUp):
            _spin_within(0.02)
    while _watches():  # for ever, or until `TimeUp` arrives here, where the thread goes on
        pass


def test_time_is_up_in_code_that_a_module_runs_while_it_is_imported(tmp_path: Path) -> None:
    """Only what the block itself imports is let finish."""
    (tmp_path / "of_a_user.py").write_text(IMPORTED)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import of_a_user"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60).stdout == "up\n"


IMPORTED = """
import giantstep.deadline as d
def spin():
    with d.deadline(0.02, cpu=True):
        while True:
            pass
try:
    spin()
except d.TimeUp:
    print("up")
"""


def _spin_within(seconds: float) -> NoReturn:
    with deadline(seconds, cpu=True):
        _spin()


def _watches() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "deadline"]


def _swallow_time_up(after: Callable[[], object]) -> None:
    try:
        _spin()
    except TimeUp:
        after()


def _spin() -> NoReturn:
    while True:
        pass


def test_universality_with_l1_has_no_gap_between_equal_clusters() -> None:
    """It raised an error; as l1 vanishes it goes over into the answer without l1."""
    s = gs.MixtureGLM(weights=[0.5, 0.5], labels="linear", noise=0.1, ridge=0.1, samples_per_dim=2.0, l1=0.2,
                      covariances={"kind": "isotropic", "values": (0.7, 0.7)})  # fmt: skip
    assert np.allclose(gs.predict(s, what="universality").test_error, 0.0, atol=1e-12)
    unequal = s.replace(covariances={"kind": "isotropic", "values": (0.2, 1.8)})
    gap = gs.predict(unequal, what="universality", l1=[0.0, 1e-7, 0.2]).test_error.values
    assert np.allclose(gap[1], gap[0], rtol=1e-5) and np.all(np.abs(gap[2] - gap[0]) > 0.01)


def test_what_a_nan_means_is_told() -> None:
    from giantstep.describe import describe, describe_text

    step = gs.SmallStep(rate=0.01)
    s = gs.OneStep(width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1, step=step)
    result = gs.predict(s, what="weights")
    assert np.isnan(result.left_alignment) and bool(result.converged)
    assert result.left_alignment.attrs["absent"] == "no such outlier exists"
    told = {v["name"]: v["absent"] for v in describe("one-step")["questions"]["weights"]["variables"]}
    assert told["left_alignment"] == "no such outlier exists" and told["bulk_upper"] == ""
    assert "NaN: no such outlier exists" in describe_text("one-step")


PROFILED = """
import cProfile, giantstep.deadline as d
for seconds in (60.0, 0.01):
    try:
        with d.deadline(seconds, cpu=True):
            sum(i for i in range(10**6 if seconds < 1 else 10))
    except d.TimeUp:
        pass
profile = cProfile.Profile()
profile.enable()
print(sorted([3, 2, 1], key=lambda value: -value))
"""


def test_code_can_be_profiled_after_a_deadline() -> None:
    """An exception that is taken back instead of let arrive makes a profiler hang."""
    done = subprocess.run([sys.executable, "-c", PROFILED], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[3, 2, 1]\n", done.stderr
