"""Small functions that everything uses, each with an example of what it returns."""

from __future__ import annotations

import math

import numpy as np

import giantstep as gs
from giantstep.core.base.chunks import split_rows
from giantstep.core.base.deadline import check_time
from giantstep.core.base.display import inside_sentence, text_table
from giantstep.core.base.errors import bad_field, check_ending, nearest
from giantstep.core.base.jsondata import json_number
from giantstep.core.base.progress import Progress, duration, with_time
from giantstep.core.result.notes import notes_in
from giantstep.core.result.verdicts import (
    chance_line,
    normal_score,
    percent,
    trials_for_gap,
    trials_text,
    visible_gap,
)
from giantstep.core.scenario.answer import last_known, pad_stack
from giantstep.core.scenario.arrays import FrozenArray
from giantstep.core.scenario.describe import describe
from giantstep.core.scenario.dimensions import dimension_named
from giantstep.core.scenario.lists import keys_of, with_place
from giantstep.core.scenario.toml import read_toml, toml_value, write_toml
from giantstep.faces.cli.options import assignments, many, single


def test_frozenarray():
    a = FrozenArray([[1.0, 0.0], [0.0, 1.0]])
    assert (a == FrozenArray(np.eye(2)), a.shape, float(np.asarray(a).sum())) == (
        True,
        (2, 2),
        2.0,
    )


def test_split_rows():
    assert (
        repr(list(split_rows(5, 100, block=250)))
        == "[slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]"
    )


def test_class_help(capsys):
    print(gs.NoStep.__signature__, gs.MaximalStep.__signature__)
    assert (
        capsys.readouterr().out
        == "() (rate, batch_per_dim=inf, loss='square', precondition=0.0,"
        " weight_decay=0.0, momentum=0.0)\n"
    )
    assert ("model_dump" in dir(gs.OneStep), "replace" in dir(gs.OneStep)) == (
        False,
        True,
    )


def test_assignments():
    assert assignments(
        "--set", ["ridge=0.1", "step.rate=2"], lambda name, text: single(text)
    ) == {
        "ridge": 0.1,
        "step.rate": 2,
    }


def test_single():
    assert (
        repr((single("0.1"), single("inf"), single("tanh(z)"), single("[1, -1]")))
        == "(0.1, inf, 'tanh(z)', [1, -1])"
    )


def test_many():
    assert (many("ridge", "1:100:3:log").tolist(), many("activation", "relu,tanh")) == (
        [1.0, 10.0, 100.0],
        ["relu", "tanh"],
    )


def test_check_time():
    check_time()


def test_describe():
    about = describe("one-step")
    assert [field["name"] for field in about["fields"]][:2] == ["activation", "target"]


def test_dimension_named():
    assert (
        dimension_named("time").is_long,
        dimension_named("time_2").is_long,
        dimension_named("block_2").role,
    ) == (
        True,
        False,
        "entries",
    )


def test_display(capsys):
    print(gs.Vocabulary([1, -1], [0.9, 0.1]))
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "Vocabulary",
        (
            "  values         zeta_q  [1, -1]     values of the second layer"
            " (`OneStep`: at the start, times sqrt(p))"
        ),
        (
            "  probabilities  pi_q    [0.9, 0.1]  fraction of neurons with each value;"
            " equal if left out"
        ),
    ]


def test_inside_sentence():
    assert (
        inside_sentence("Two-layer network"),
        inside_sentence("SGD of a network"),
    ) == (
        "two-layer network",
        "SGD of a network",
    )


def test_text_table():
    assert text_table(["name", "gap"], [["test_error", "0.5%"], ["norm", "12%"]]) == [
        "name         gap",
        "test_error  0.5%",
        "norm         12%",
    ]


def test_bad_field(capsys):
    print(bad_field("ridge", -0.1, "at least 0"))
    assert (
        capsys.readouterr().out
        == "Field `ridge` must be at least 0, but is ridge=-0.1.\n"
    )


def test_check_ending():
    assert check_ending("r.CSV", (".csv", ".nc"), "A result is saved as {}") == ".csv"


def test_nearest():
    assert (
        nearest("minimize", ["minimise", "finite_size"]),
        nearest("rate", ["noise", "step.rate"]),
    ) == (
        " (did you mean `minimise`?)",
        " (did you mean `step.rate`?)",
    )
    assert nearest("loss", ["rows", "noise"]) == ""


def test_json_number():
    assert (json_number(0.5), json_number(-math.inf), json_number(math.nan)) == (
        0.5,
        "-inf",
        None,
    )


def test_notes_in():
    assert (notes_in({"notes": "test_error 2 is above 1."}), notes_in({})) == (
        ["test_error 2 is above 1."],
        [],
    )


def test_last_known():
    assert (
        repr(last_known(np.array([[1.0, 2.0], [3.0, np.nan]]), 1)) == "array([2., 3.])"
    )


def test_pad_stack():
    assert (
        repr(pad_stack([[1.0, 2.0], None, [3.0]]))
        == "array([[ 1.,  2.],\n       [nan, nan],\n       [ 3., nan]])"
    )


def test_partlists():
    assert (with_place("eta", 1), with_place("alpha0 = n0/d", 2)) == (
        "eta_1",
        "alpha_0_2",
    )


def test_keys_of():
    assert keys_of("steps.0.rate") == ["steps", 0, "rate"]


def test_progress(capsys):
    with Progress(
        lambda done, total, text: print(done, total, text), 2, "trials"
    ) as progress:
        progress.advance()
    assert capsys.readouterr().out == "0 2 trials\n1 2 trials\n"


def test_with_time():
    assert (with_time("limit", 0.1), with_time("limit", 80.0)) == (
        "limit",
        "limit (may take about 80 s)",
    )


def test_duration():
    assert (duration(90), duration(720), duration(12600)) == ("90 s", "12 min", "3.5 h")


def test_read_toml():
    assert read_toml("ridge = 0.1") == {"ridge": 0.1}


def test_write_toml(capsys):
    step = {"rate": float("inf")}
    print(
        write_toml({"what": "errors", "scenario": {"ridge": 0.1, "step": step}}), end=""
    )
    assert (
        capsys.readouterr().out
        == 'what = "errors"\n\n[scenario]\nridge = 0.1\nstep = { rate = inf }\n'
    )


def test_toml_value():
    assert toml_value([{"rate": 2.0}, True]) == "[{ rate = 2.0 }, true]"


def test_verdict_numbers():
    # the 97.5% point of Student's t
    assert round(float(normal_score(2.776445, 4)), 3) == 1.96
    assert round(chance_line(1), 2) == 3.29
    assert (
        float(trials_for_gap(0.1, 0.05)),
        float(trials_for_gap(0.1, 0.05, power=0.9)),
    ) == (50.0, 88.0)
    assert float(visible_gap(0.1, 88)) <= 0.05 < float(visible_gap(0.1, 87))
    shown = [percent(gap) for gap in (0.05, 0.1523, 0.002114, 94.9)]
    assert shown == ["5%", "15.2%", "0.211%", "more than 1000%"]
    said = [trials_text(trials) for trials in (88, 12345, 10**9, None)]
    assert said == [
        "88 trials",
        "about 12,000 trials",
        "more than a million trials",
        "no known number of trials",
    ]
