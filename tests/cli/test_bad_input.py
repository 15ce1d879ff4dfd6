"""Bad input: exit status 2, one sentence, no traceback, nothing written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .conftest import STUDY

OUT = ("--out", "result.csv", "--plot", "result.png")

LINES = {
    "unknown field": (
        "ridge = 0.01",
        "ridge = 0.01\nrigde = 0.1",
        "did you mean `ridge`",
    ),
    "unknown field in a part": (
        "alignment = 0.5",
        "alignmant = 0.5",
        "did you mean `alignment`",
    ),
    "NaN": ("ridge = 0.01", "ridge = nan", "not NaN"),
    "true for a number": ("ridge = 0.01", "ridge = true", "ridge=True"),
    "text for a number": ("ridge = 0.01", 'ridge = "0.1"', "ridge='0.1'"),
    "negative ratio": (
        "width_per_dim = 1.5",
        "width_per_dim = -1.5",
        "width_per_dim=-1.5",
    ),
    "no samples": ("samples_per_dim = 2.0", "samples_per_dim = 0", "above 0"),
    "negative ridge": ("ridge = 0.01", "ridge = -0.01", "at least 0"),
    "probabilities": ("[0.9, 0.1]", "[0.9, 0.2]", "sum to one"),
    "lengths": ("[0.9, 0.1]", "[0.5, 0.3, 0.2]", "a list of 2 numbers"),
    "infinite variance": ('"relu"', '"exp(z**2)"', "square integrable"),
    "forbidden expression": ('"tanh(z)"', "\"__import__('os')\"", "cannot be used"),
    "unknown name": ('"relu"', '"reluu"', "did you mean `relu`"),
    "unknown family": ('"one-step"', '"one-stop"', "did you mean `one-step`"),
    "unknown step": ('"planted"', '"plated"', "'planted'"),
    "missing field": ("ridge = 0.01", "", "`ridge` is missing"),
    "unknown table": ("[experiment]", "[experiments]", "did you mean `experiment`"),
    "unknown setting": ("trials = 3", "trails = 3", "did you mean `trials`"),
    "a broken line": ("ridge = 0.01", "ridge = = 0.01", "line 7, column 9"),
    "no scenario": ("[scenario]", "[limit]", "[scenario]"),
}


@pytest.mark.parametrize("verb", ["predict", "simulate", "compare"])
@pytest.mark.parametrize("case", LINES)
def test_a_bad_file_is_refused(refused, tmp_path: Path, verb: str, case: str) -> None:
    good, bad, said = LINES[case]
    assert good in STUDY
    (tmp_path / "bad.toml").write_text(STUDY.replace(good, bad))
    assert said in refused(verb, "bad.toml", *OUT)


OPTIONS = {
    "unknown field": (["--set", "rigde=0.1"], "did you mean `ridge`"),
    "NaN": (["--set", "ridge=nan"], "not NaN"),
    "text": (["--set", "ridge=big"], "ridge='big'"),
    "twice": (["--set", "ridge=1", "--set", "ridge=2"], "given twice"),
    "in both": (["--set", "ridge=1", "--grid", "ridge=1,2"], "both"),
    "no value": (["--set", "ridge"], "FIELD=VALUE"),
    "empty value": (["--set", "ridge="], "FIELD=VALUE"),
    "a keyword of Python": (["--set", "self=1"], "no field `self`"),
    "an option": (["--set", "what=spectrum"], "--what"),
    "a broken table": (["--set", 'step={kind="maximal"}'], "`step.rate` is missing"),
    "grid over no field": (["--grid", "rigde=1,2"], "did you mean `ridge`"),
    "grid over a field that is elsewhere": (
        ["--grid", "step.rate=1,2"],
        "no field `step.rate`",
    ),
    "one bad value of many": (["--grid", "ridge=0.1,0.2,-1,3"], "ridge=-1.0"),
    "one bad text of many": (["--grid", "ridge=0.1,0.2,x"], "ridge='x'"),
    "one bad name of many": (["--grid", "activation=relu,tanhh"], "tanh"),
    "one ridgeless point": (
        ["--grid", "ridge=0,1", "--set", "samples_per_dim=1.5"],
        "diverges",
    ),
    "half a range": (["--grid", "ridge=1:2"], "as in ridge=1:2:20"),
    "a range of nothing": (["--grid", "ridge=1:2:0"], "start:stop:num"),
    "a range of too much": (["--grid", "ridge=1:2:3:log:4"], "start:stop:num"),
    "a range to infinity": (["--grid", "ridge=1:inf:3"], "start:stop:num"),
    "a log range from zero": (["--grid", "ridge=0:1:3:log"], "above 0"),
    "unknown question": (["--what", "spectra"], "did you mean `spectrum`"),
    "a question without its setting": (["--what", "resolvent"], "`z`"),
    "dim": (["--dim", "1.5"], "whole number"),
    "dim in both": (["--dim", "50", "--grid", "dim=50,100"], "given twice"),
    "unknown option": (["--sett", "ridge=1"], "--set"),
    "unknown suffix": (["--out", "other.xls"], ".csv, .nc, .json, .tex"),
    "unknown suffix of a plot": (["--plot", "other.gif"], ".png, .pdf, .svg"),
    "no folder": (["--out", "nowhere/other.csv"], "no folder"),
    "a file named twice": (["--out", "result.csv"], "named twice"),
}


@pytest.mark.parametrize("verb", ["predict", "compare"])
@pytest.mark.parametrize("case", OPTIONS)
def test_bad_options_are_refused(refused, verb: str, case: str) -> None:
    options, said = OPTIONS[case]
    assert said in refused(verb, "S.toml", *OUT, *options)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["predict", "missing.toml"], "There is no file 'missing.toml'"),
        (["predict", "."], "cannot be read"),
        (["predict"], "S.toml"),
        (["predct", "S.toml"], "predct"),
        (["predict", "S.toml", "--theory", "isotropics"], "did you mean `isotropic`"),
        (["simulate", "S.toml", "--trials", "0"], "trials=0"),
        (["simulate", "S.toml", "--trials", "some"], "--trials"),
        (["simulate", "S.toml", "--seed", "-1"], "seed=-1"),
        (["simulate", "S.toml", "--device", "tpu"], "device='tpu'"),
        (["simulate", "S.toml", "--dim", "10000000"], "GiB of memory"),
        (["compare", "S.toml", "--allow", "-0.1"], "allow=-0.1"),
        (["compare", "S.toml", "--allow", "nan"], "allow=nan"),
        (["new", "one_step"], "did you mean `one-step`"),
        (["describe", "nothing"], "one-step"),
        (["cite", "missing.toml"], "There is no file"),
        (["cite", "missing.nc"], "There is no file"),
        (["reproduce", "learned"], "did you mean `learned-features`"),
        (["reproduce", "learned-features", "--out", "S.toml"], "not a folder"),
    ],
)
def test_bad_commands_are_refused(refused, words: list[str], said: str) -> None:
    assert said in refused(*words)


def test_a_file_that_is_no_text(refused, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe\x00")
    assert "UTF-8" in refused("predict", "bad.toml")


def test_an_old_output_survives_bad_input(refused, tmp_path: Path) -> None:
    (tmp_path / "result.csv").write_text("old")
    refused("predict", "S.toml", "--out", "result.csv", "--set", "ridge=-1")
    assert (tmp_path / "result.csv").read_text() == "old"


def test_a_write_protected_output_is_kept(refused, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "result.csv").write_text("old")
    # root may write everything
    monkeypatch.setattr(
        "os.access", lambda path, mode: mode != os.W_OK or Path(path).suffix != ".csv"
    )
    assert "'result.csv' cannot be written to" in refused(
        "predict", "S.toml", "--out", "result.csv"
    )
    assert (tmp_path / "result.csv").read_text() == "old"


def test_where_one_output_fails_none_is_written(
    refused, tmp_path: Path, monkeypatch
) -> None:
    def full_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("giantstep.plot", full_disk)
    assert "no space left" in refused("predict", "S.toml", *OUT)
