"""Whatever a scenario is made of, it is refused in one sentence, flagged with a reason,
or answered.

`make verify` draws 10,000 of them; here are some hundreds, most of which are only
checked.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import math
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from typer.testing import CliRunner

import giantstep as gs
from giantstep.core.base.deadline import TimeUp, check_time, deadline
from giantstep.core.base.errors import NotFiniteError
from giantstep.core.base.types import Points
from giantstep.core.scenario.answer import Answer
from giantstep.core.scenario.families import SHIPPED, family_class
from giantstep.faces.cli.app import app

from .random_scenarios import (
    FAULTS,
    Case,
    CpuWatch,
    draw_case,
    judge,
    run_many,
    study_text,
)

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("family", SHIPPED)
def test_scenarios_are_made_or_refused(family: str) -> None:
    outcomes = [
        judge(draw_case(number, family), only_check=True) for number in range(60)
    ]
    assert not [outcome for outcome in outcomes if outcome.is_fault]
    assert {outcome.end for outcome in outcomes} == {"refused", "answered"}


@pytest.mark.parametrize("family", SHIPPED)
def test_predictions_are_answered_flagged_or_refused(family: str) -> None:
    """A point that takes longer than the little time it gets is flagged, too."""
    outcomes = [
        judge(draw_case(number, family), patience=0.1) for number in range(1000, 1010)
    ]
    assert not [
        (outcome.case, outcome.text) for outcome in outcomes if outcome.is_fault
    ]


@pytest.mark.parametrize("count", [16, pytest.param(400, marks=pytest.mark.slow)])
def test_the_command_line_ends_the_same_way(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer (0), a flagged point (1) or one sentence (2), whatever stands in the
    file.
    """
    monkeypatch.setenv("GIANTSTEP_CPU_LIMIT", "0.1")
    study = tmp_path / "S.toml"
    statuses = set()
    texts = (study_text(draw_case(number)) for number in range(2000, 2000 + count))
    for text in filter(None, texts):
        study.write_text(text)
        result = CliRunner().invoke(app, ["predict", str(study)])
        assert result.exception is None or isinstance(result.exception, SystemExit), (
            text
        )
        assert result.exit_code in (0, 1, 2), text
        if result.exit_code == 2:
            assert (
                result.stderr.startswith("giantstep: ")
                and result.stderr.count("\n") == 1
            ), text
        statuses.add(result.exit_code)
    assert 2 in statuses and statuses & {0, 1}


@pytest.mark.slow
def test_ten_thousand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outcomes are kept by the content of the package, so that a run that was stopped
    goes on.
    """
    # tests have none, users 15 seconds
    monkeypatch.delenv("GIANTSTEP_CPU_LIMIT", raising=False)
    content = hashlib.sha256(
        b"".join(path.read_bytes() for path in sorted((ROOT / "src").rglob("*.py")))
    )
    kept = ROOT / "out" / "random_scenarios" / f"{content.hexdigest()[:16]}.jsonl"
    for _ in run_many(list(range(10_000)), os.cpu_count() or 2, kept):
        pass
    outcomes = [json.loads(line) for line in kept.read_text().splitlines()]
    assert {outcome["number"] for outcome in outcomes} == set(range(10_000))
    assert not [outcome for outcome in outcomes if outcome["end"] in FAULTS]


def _hard_cases() -> dict[str, Case]:
    """Return cases that once went on without an end, crashed, or gave no reason."""
    one, sgd, bayes, reuse, giant = map(
        family_class,
        ("one-step", "online-sgd", "bayes-limit", "batch-reuse", "giant-steps"),
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
    many_runs = {
        **dict(sgd.example()),
        **signs,
        "dim": 64,
        "batch_size": 64,
        "steps": 2432,
        "algorithm": "exponential",
        "constraint": "spherical",
        "initial_overlap": "random",
    }
    quadratic = {
        "target": "(z1 + z1**2 + z2 - z2**2)/2",
        "activation": "h3(z)",
        "noise": 0.1,
        "batch_per_dim": 4.0,
    }
    wide = {**dict(giant.example()), **quadratic, "steps": 2, "width": 20.0}
    return {
        "narrow": Case(0, "one-step", narrow, "spectrum", {}),
        "noisy": Case(1, "online-sgd", noisy, "trajectory", {"theory": "ode"}),
        "deep": Case(
            2, "one-step", {**dict(one.example()), "activation": deep}, "errors", {}
        ),
        "long": Case(
            4, "batch-reuse", {**dict(reuse.example()), "steps": 10**9}, "kernels", {}
        ),
        "drowned": Case(
            3,
            "bayes-limit",
            {**dict(bayes.example()), "target": "sign(z1*z2)", "noise": 1e300},
            "trajectory",
            {},
        ),
        # one operation on arrays of gigabytes, in which no deadline would be looked at
        "spread": Case(
            5,
            "bayes-limit",
            {"target": "tanh(z1) + h3(z2)", "noise": 0.0879, "samples_per_dim": 0.566},
            "thresholds",
            {},
        ),
        "many runs": Case(
            6, "online-sgd", many_runs, "trajectory", {"runs": 47, "starts": 38}
        ),
        "many columns": Case(
            7,
            "batch-reuse",
            {**dict(reuse.example()), "data": "cycle", "batches": 5, "steps": 2000},
            "trajectory",
            {},
        ),
        "wide": Case(8, "giant-steps", wide, "errors", {"kappa": 40}),
    }


@pytest.mark.parametrize("name", _hard_cases())
def test_hard_cases_end(name: str) -> None:
    outcome = judge(_hard_cases()[name], patience=0.3)
    assert outcome.end in ("refused", "flagged"), outcome.text


_ONCE = (375, 904, 5011, 6972, 9791)
"""Drawn: an overlap of 1e-100; steps with a sign; a spectrum with no point to follow;
an overflow; x=1j.
"""
_ONCE_TOO_LONG = (2168, 2546, 4412, 4798, 9369)
"""Drawn: two finite batches (2); labels cleaned to a high order; a large rule in the
plane; points of many columns.
"""


@pytest.mark.parametrize(
    "number",
    [
        *_ONCE,
        *(pytest.param(number, marks=pytest.mark.slow) for number in _ONCE_TOO_LONG),
    ],
)
def test_drawn_cases_that_once_failed(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GIANTSTEP_CPU_LIMIT", raising=False)
    outcome = judge(draw_case(number))
    assert not outcome.is_fault, outcome.text


@pytest.mark.slow
@pytest.mark.parametrize("name", _hard_cases())
def test_hard_cases_end_in_the_time_they_have(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`judge` allows 20 seconds of CPU."""
    monkeypatch.delenv("GIANTSTEP_CPU_LIMIT", raising=False)
    outcome = judge(_hard_cases()[name])
    assert not outcome.is_fault, outcome.text
    assert outcome.silence < 3.0, outcome.after


def test_cpu_beyond_the_limit_is_a_fault_whatever_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A point that was given up, but too late, is flagged and all the same too long."""
    case = _hard_cases()["drowned"]
    assert judge(case, only_check=True).end == "answered"
    clock = itertools.count(0.0, 30.0)
    monkeypatch.setattr(time, "process_time", lambda: next(clock))
    late = judge(case, only_check=True)
    assert late.end == "too long" and late.is_fault


def test_the_longest_silence_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 0.1, 7.1, 7.2])
    monkeypatch.setattr(time, "process_time", lambda: next(clock))
    watch = CpuWatch(50.0)
    for _ in range(3):
        watch.look()
    assert watch.silence == 7.0 and __file__ in watch.after


def test_numbers_that_leave_the_range_are_told_from_mistakes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever a ValueError says, it is a mistake; a `NotFiniteError` flags the
    point.
    """
    s = family_class("subspace-clustering").example()

    def fail(error: Exception) -> Any:
        def limit(*_: Any) -> Answer:
            raise error

        return limit

    monkeypatch.setattr(
        type(s), "limit", fail(ValueError("`y` must contain only finite values."))
    )
    with pytest.raises(ValueError, match="finite"):
        gs.predict(s)
    monkeypatch.setattr(
        type(s), "limit", fail(NotFiniteError("an overlap is not finite"))
    )
    with pytest.warns(gs.GiantstepWarning):
        assert "an overlap is not finite" in str(gs.predict(s).status.values)


def test_fields_that_are_no_tables_are_refused() -> None:
    for family in SHIPPED:
        for value in (
            {"inputs": 1.0, "labels": 2.0},
            {"kind": 3},
            [[1.0], [2.0, 3.0]],
            1j,
        ):
            for name in family_class(family).model_fields:
                with pytest.raises(gs.InputError, match=r"\.$"):
                    family_class(family)(
                        **{**dict(family_class(family).example()), name: value}
                    )


def test_a_point_that_takes_too_long_is_flagged_and_its_neighbours_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    s = family_class("subspace-clustering").example()
    limit = type(s).limit

    def slow_at_two(
        self: gs.Scenario, points: Points, what: str, settings: Mapping[str, Any]
    ) -> Answer:
        return _spin() if 2.0 in points["snr"] else limit(self, points, what, settings)

    expected = gs.predict(s, snr=[1.0, 3.0])
    monkeypatch.setattr(type(s), "limit", slow_at_two)
    with pytest.warns(gs.GiantstepWarning, match="too long"):
        result = gs.predict(s, snr=[1.0, 2.0, 3.0], cpu_limit=0.2)
    assert result.converged.values.tolist() == [True, False, True]
    assert (
        "cpu_limit" in str(result.status.values[1])
        and np.isnan(result.m_u.values[1]).all()
    )
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
    with deadline(0.05, time.thread_time):
        time.sleep(0.1)
        check_time()
    with pytest.raises(TimeUp), deadline(0.05, time.thread_time):
        _spin()


def test_time_that_is_up_cannot_be_swallowed() -> None:
    """Compiled code that calls Python may drop an exception: it comes again, and what
    was computed is not believed.
    """
    for after in (_spin, float, lambda: float("no number")):
        with pytest.raises(TimeUp), deadline(0.05):
            _swallow_time_up(after)


def test_time_that_is_up_before_a_block_begins_never_begins_it() -> None:
    for seconds in (0.0, -1.0):
        with pytest.raises(TimeUp), deadline(seconds):
            raise AssertionError("the block was entered")


def test_every_deadline_around_a_computation_counts() -> None:
    """Catches an inner block with more time that hides the end of an outer one, and an
    end that outlives its block.
    """
    with pytest.raises(TimeUp), deadline(0.02), deadline(60.0):
        _spin()
    check_time()
    with pytest.raises(ZeroDivisionError), deadline(60.0):
        _ = 1 / 0


def _swallow_time_up(after: Callable[[], object]) -> None:
    try:
        _spin()
    except TimeUp:
        after()


def _spin() -> NoReturn:
    while True:
        check_time()


def test_universality_with_l1_has_no_gap_between_equal_clusters() -> None:
    """It raised an error; as l1 vanishes it goes over into the answer without l1."""
    s = gs.MixtureGLM(
        weights=[0.5, 0.5],
        labels="linear",
        noise=0.1,
        ridge=0.1,
        samples_per_dim=2.0,
        l1=0.2,
        covariances={"kind": "isotropic", "values": (0.7, 0.7)},
    )
    assert np.allclose(gs.predict(s, what="universality").test_error, 0.0, atol=1e-12)
    unequal = s.replace(covariances={"kind": "isotropic", "values": (0.2, 1.8)})
    gap = gs.predict(
        unequal, what="universality", l1=[0.0, 1e-7, 0.2]
    ).test_error.values
    assert np.allclose(gap[1], gap[0], rtol=1e-5) and np.all(
        np.abs(gap[2] - gap[0]) > 0.01
    )


def test_what_a_nan_means_is_told() -> None:
    from giantstep.core.scenario.describe import describe, describe_text

    step = gs.SmallStep(rate=0.01)
    s = gs.OneStep(width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1, step=step)
    result = gs.predict(s, what="weights")
    assert np.isnan(result.left_alignment) and bool(result.converged)
    assert result.left_alignment.attrs["absent"] == "no such outlier exists"
    told = {
        v["name"]: v["absent"]
        for v in describe("one-step")["questions"]["weights"]["variables"]
    }
    assert (
        told["left_alignment"] == "no such outlier exists" and told["bulk_upper"] == ""
    )
    assert "NaN: no such outlier exists" in describe_text("one-step")
