"""The commands that compute: predict, simulate, compare."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.base.errors import ConvergenceError


def strict(text: str) -> Any:
    def refuse(token: str) -> None:
        raise AssertionError(f"{token} is no JSON")

    return json.loads(text, parse_constant=refuse)


def scenario() -> gs.OneStep:
    return gs.Study.read("S.toml").scenario


def test_predict_prints_a_table_of_one_point(run) -> None:
    result = run("predict", "S.toml")
    assert result.exit_code == 0
    assert result.stderr == ""
    expected = float(gs.predict(scenario())["test_error"])
    assert f"{expected:.8g}" in result.stdout
    assert "mean squared error on fresh samples" in result.stdout
    assert "status: converged" in result.stdout


def test_predict_prints_a_row_for_each_point(run) -> None:
    result = run(
        "predict", "S.toml", "--grid", "ridge=0.1,1", "--grid", "activation=relu,tanh"
    )
    expected = gs.predict(scenario(), ridge=[0.1, 1.0], activation=["relu", "tanh"])[
        "test_error"
    ]
    assert result.exit_code == 0
    for value in expected.values.ravel():
        assert f"{value:.8g}" in result.stdout
    assert result.stdout.count("converged") == 4


def test_a_long_table_leaves_out_its_middle(run) -> None:
    result = run("predict", "S.toml", "--grid", "ridge=0.1:5:60")
    assert "(20 more)" in result.stdout
    assert result.stdout.count("converged") == 40


def test_set_and_ranges_mean_what_they_say(run) -> None:
    result = run(
        "predict",
        "S.toml",
        "--json",
        "--set",
        "step.alignment=0.25",
        "--grid",
        "ridge=0.01:1:3:log",
    )
    table = strict(result.stdout)
    expected = gs.predict(scenario(), step__alignment=0.25, ridge=[0.01, 0.1, 1.0])
    np.testing.assert_allclose(table["ridge"], [0.01, 0.1, 1.0])
    np.testing.assert_allclose(table["test_error"], expected["test_error"], rtol=1e-12)
    assert table["dims"]["test_error"] == ["ridge"]


def test_another_kind_of_step(run, refused) -> None:
    assert "`step.rate` is missing" in refused(
        "predict", "S.toml", "--set", "step.kind=maximal"
    )
    words = (
        "--set",
        "step.kind=maximal",
        "--set",
        "step.rate=3",
        "--grid",
        "step.batch_per_dim=2,inf",
    )
    result = run("predict", "S.toml", "--json", *words)
    assert result.stderr == "" and strict(result.stdout)["step.batch_per_dim"] == [
        2.0,
        "inf",
    ]
    assert "(did you mean `maximal`?)" in refused(
        "predict", "S.toml", "--set", "step.kind=maximl"
    )


def test_a_sweep_without_a_store_says_so_first(run) -> None:
    result = run("sweep", "S.toml", "--dim", "10", "--trials", "1", "--engine", "local")
    assert result.stderr.splitlines()[0].startswith(
        "giantstep: without --store DB nothing is kept"
    )


def test_options_take_the_place_of_the_grid_in_the_file(run, tmp_path: Path) -> None:
    text = (tmp_path / "S.toml").read_text()
    (tmp_path / "S.toml").write_text(text + "[grid]\nridge = [0.1, 0.2]\n")
    assert strict(run("predict", "S.toml", "--json").stdout)["ridge"] == [0.1, 0.2]
    assert strict(run("predict", "S.toml", "--json", "--grid", "ridge=3").stdout)[
        "ridge"
    ] == [3.0]
    assert "ridge" not in strict(
        run("predict", "S.toml", "--json", "--set", "ridge=3").stdout
    )


def test_json_is_strict_with_nan_and_infinity(run) -> None:
    result = run(
        "predict", "S.toml", "--json", "--what", "spectrum", "--set", "x=[0.5, 1.0]"
    )
    table = strict(result.stdout)
    assert table["x"] == [0.5, 1.0]
    assert len(table["density"]) == 2
    # relu has a mean, whose outlier grows with the dimension
    assert table["outliers"][0] == "inf"
    assert None in table["outliers"]
    assert result.stdout.count("\n") == 1


def test_a_part_may_be_replaced(run) -> None:
    words = [
        "--set",
        'step={kind="maximal", rate=1.0}',
        "--set",
        "activation=erf",
        "--grid",
        "step.rate=0,1",
    ]
    table = strict(run("predict", "S.toml", "--json", *words).stdout)
    step = gs.MaximalStep(rate=1.0)
    expected = gs.predict(
        scenario().replace(activation="erf", step=step), step__rate=[0.0, 1.0]
    )
    np.testing.assert_allclose(table["test_error"], expected["test_error"], rtol=1e-12)


def test_theory_and_dim_and_tolerance_reach_the_limit(run) -> None:
    words = ["--theory", "isotropic", "--dim", "500", "--set", "tolerance=1e-8"]
    attrs = strict(run("predict", "S.toml", "--json", *words).stdout)["attrs"]
    settings = json.loads(attrs["settings"])
    assert attrs["theory"] == "isotropic"
    assert settings["dim"] == 500
    assert settings["tolerance"] == 1e-8


@pytest.mark.parametrize("suffix", [".csv", ".nc", ".json", ".tex"])
def test_every_format_is_written(run, tmp_path: Path, suffix: str) -> None:
    result = run("predict", "S.toml", "--grid", "ridge=0.1,1", "--out", f"r{suffix}")
    assert (result.exit_code, result.stdout, result.stderr) == (
        0,
        "",
        f"wrote r{suffix}\n",
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["S.toml", f"r{suffix}"]
    )
    if suffix in (".nc", ".json"):
        assert gs.load(f"r{suffix}").sizes == {"ridge": 2, "block": 2, "block_2": 2}


def test_several_files_and_json_at_once(run, tmp_path: Path) -> None:
    result = run(
        "predict",
        "S.toml",
        "--json",
        "--out",
        "r.csv",
        "--grid",
        "ridge=0.1,1",
        "--plot",
        "r.svg",
    )
    table = strict(result.stdout)
    with (tmp_path / "r.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["test_error"]) for row in rows] == table["test_error"]
    assert (tmp_path / "r.svg").read_text().lstrip().startswith("<?xml")


def test_simulate_gives_the_numbers_of_the_library(run) -> None:
    words = ["--dim", "20", "--trials", "2", "--seed", "3", "--paired", "--keep-trials"]
    table = strict(run("simulate", "S.toml", "--json", *words).stdout)
    expected = gs.simulate(
        scenario(), dim=20, trials=2, seed=3, paired=True, keep_trials=True
    )
    np.testing.assert_array_equal(table["test_error"], expected["test_error"])
    assert table["dims"]["test_error"] == ["trial"]
    assert table["test_error_stderr"] > 0


def test_simulate_prints_standard_errors(run) -> None:
    result = run("simulate", "S.toml", "--dim", "16,20", "--trials", "2")
    assert result.exit_code == 0
    assert "std err" in result.stdout
    assert result.stdout.count("converged") == 2


def test_compare_prints_values_and_report(run) -> None:
    result = run("compare", "S.toml")
    assert result.exit_code == 0
    for head in (
        "limit",
        "theory at d = ",
        "experiment",
        "std err",
        "largest |z|",
        "by chance",
        "visible gap",
    ):
        assert head in result.stdout


def test_compare_tells_the_report_in_json(run) -> None:
    table = strict(run("compare", "S.toml", "--json", "--allow", "0.5").stdout)
    rows = {row["variable"]: row for row in table["agreement"]["variables"]}
    assert table["source"] == ["limit", "theory", "experiment"]
    assert (
        table["agreement"]["compared_with"]
        == f"theory at d = {json.loads(table['attrs']['settings'])['dim']}"
    )
    assert table["agreement"]["allow"] == 0.5
    assert rows["test_error"]["points"] == 1
    assert (
        rows["test_error"]["verdict"] in ("agrees", "cannot tell")
        and rows["test_error"]["asked"] == 0.5
    )
    assert table["agreement"]["sentence"].startswith("Theory at d = ")


def test_the_report_may_be_about_some_variables(run, refused) -> None:
    result = run(
        "compare",
        "S.toml",
        "--variables",
        "test_error,norm",
        "--variables",
        "objective",
    )
    report = result.stdout.partition("largest |z|")[2]
    assert [line.split()[0] for line in report.splitlines()[1:4]] == [
        "test_error",
        "norm",
        "objective",
    ]
    assert (
        "Other variables" not in report
        and "Other variables" in run("compare", "S.toml").stdout
    )
    sentence = refused("compare", "S.toml", "--variables", "test_eror")
    assert (
        "among those compared (test_error, train_error" in sentence
        and "did you mean `test_error`" in sentence
    )


def test_only_the_variables_asked_for_are_printed_written_and_drawn(
    run, refused, tmp_path: Path, monkeypatch
) -> None:
    drawn: list[list[str]] = []
    plot = gs.plot

    def watched(result: Any, names: list[str], *more: Any, **look: Any) -> Any:
        drawn.append(names)
        return plot(result, names, *more, **look)

    monkeypatch.setattr(gs, "plot", watched)
    chosen = (
        "--grid",
        "ridge=0.1,1",
        "--variables",
        "norm,Q2",
        "--out",
        "r.csv",
        "--plot",
        "r.png",
    )
    assert run("predict", "S.toml", *chosen).exit_code == 0
    head = (tmp_path / "r.csv").read_text().splitlines()[0].split(",")
    assert head == ["ridge", "norm", "Q2[1]", "Q2[2]", "converged", "status"]
    assert drawn == [["norm", "Q2"]] and (tmp_path / "r.png").stat().st_size
    told = run("predict", "S.toml", "--variables", "norm").stdout
    assert (
        "squared norm of the fitted" in told
        and "test_error" not in told
        and "status: converged" in told
    )
    assert run("simulate", "S.toml", *chosen).exit_code == 0
    head = (tmp_path / "r.csv").read_text().splitlines()[0].split(",")
    assert head[1:5] == ["norm", "norm_stderr", "Q2[1]", "Q2[2]"] and not any(
        "test_error" in name for name in head
    )
    run("compare", "S.toml", *chosen[:2], "--variables", "norm", "--out", "c.csv")
    head = (tmp_path / "c.csv").read_text().splitlines()[0].split(",")
    assert head == [
        "source",
        "ridge",
        "norm",
        "norm_stderr",
        "norm_gap",
        "norm_z",
        "converged",
        "status",
    ]
    assert "did you mean `norm`?" in refused("predict", "S.toml", "--variables", "nrom")
    assert "`variables` must be among" in refused(
        "simulate", "S.toml", "--variables", "null_error"
    )


def test_fields_of_one_axis_vary_together(run, refused) -> None:
    pair = (
        "--grid",
        "samples_per_dim@size=1,2,4",
        "--grid",
        "width_per_dim@size=1:3:3",
    )
    found = strict(run("predict", "S.toml", "--json", *pair).stdout)
    assert found["dims"]["test_error"] == ["size"] and found["width_per_dim"] == [
        1.0,
        2.0,
        3.0,
    ]
    expected = gs.predict(scenario(), samples_per_dim=2.0, width_per_dim=2.0)
    assert found["test_error"][1] == pytest.approx(
        float(expected.test_error), rel=1e-12
    )
    short = ("--grid", "samples_per_dim@size=1,2", "--grid", "width_per_dim@size=1:3:3")
    assert "has 3 values along `size`, but another has 2" in refused(
        "predict", "S.toml", *short
    )
    assert "FIELD@AXIS=VALUES with a name" in refused(
        "predict", "S.toml", "--grid", "samples_per_dim@=1,2"
    )
    assert "given twice" in refused(
        "predict", "S.toml", "--grid", "ridge@a=1,2", "--grid", "ridge@b=1,2"
    )


def test_check_passes_with_a_large_allowance(run) -> None:
    assert run("compare", "S.toml", "--check", "--allow", "1e9").exit_code == 0


def test_check_fails_where_a_gap_asked_for_could_not_be_seen(run) -> None:
    assert (
        run("compare", "S.toml", "--check", "--allow", "0.5", "--see", "1e9").exit_code
        == 0
    )
    result = run("compare", "S.toml", "--check", "--allow", "1e-6", "--see", "1e-5")
    assert result.exit_code == 1
    assert "a gap of 0.001% could not have been seen in test_error" in result.stderr
    assert "not in agreement" not in result.stderr and "cannot tell" in result.stdout


def test_check_fails_where_limit_and_experiment_differ(run, monkeypatch) -> None:
    from giantstep.problems.network import experiment

    honest = experiment.trial

    def wrong(*args: Any, **options: Any) -> Any:
        values = honest(*args, **options)
        return {**values, "test_error": 3 * values["test_error"]}

    monkeypatch.setattr(experiment, "trial", wrong)
    words = [
        "compare",
        "S.toml",
        "--trials",
        "8",
        "--check",
        "--allow",
        "0.05",
        "--out",
        "r.csv",
    ]
    result = run(*words)
    assert result.exit_code == 1
    assert "not in agreement in test_error" in result.stderr
    assert "test_error disagrees: a gap of" in result.stdout
    assert Path("r.csv").exists()
    assert run(*words[:4]).exit_code == 0


def test_check_fails_where_nothing_could_be_compared(run) -> None:
    result = run("compare", "S.toml", "--trials", "1", "--check")
    assert result.exit_code == 1
    assert "not in agreement" in result.stderr


def unsolved(monkeypatch: pytest.MonkeyPatch) -> None:
    from giantstep.problems.network import limit

    honest = limit.limit

    def failing(*args: Any, **options: Any) -> Any:
        answer = honest(*args, **options)
        answer.status = np.array(["no luck", *[""] * (len(answer.status) - 1)])
        return answer

    monkeypatch.setattr(limit, "limit", failing)


def test_a_point_that_failed_is_said_and_gives_status_1(run, monkeypatch) -> None:
    unsolved(monkeypatch)
    result = run("predict", "S.toml", "--grid", "ridge=0.1,1")
    assert result.exit_code == 1
    assert result.stderr.startswith("giantstep: warning: 1 of 2 points")
    assert result.stderr.count("\n") == 1
    assert "no luck" in result.stdout
    assert result.stdout.count("converged") == 1
    table = strict(run("predict", "S.toml", "--grid", "ridge=0.1,1", "--json").stdout)
    assert table["converged"] == [False, True]
    assert table["test_error"][0] is None


def test_strict_gives_status_1_and_no_result(run, monkeypatch, tmp_path: Path) -> None:
    unsolved(monkeypatch)
    result = run("predict", "S.toml", "--set", "strict=true", "--out", "r.csv")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no luck" in result.stderr
    assert not (tmp_path / "r.csv").exists()


@pytest.mark.parametrize(
    ("error", "status"), [(KeyboardInterrupt, 130), (ConvergenceError, 1)]
)
def test_what_stops_a_computation(
    run, monkeypatch, error: type[BaseException], status: int
) -> None:
    from giantstep.problems.network import limit

    def stop(*_: Any) -> None:
        raise error("stopped")

    monkeypatch.setattr(limit, "limit", stop)
    result = run("predict", "S.toml", "--out", "r.csv")
    assert result.exit_code == status
    assert "Traceback" not in result.output
    assert result.stderr.count("\n") == (0 if status == 130 else 1)


def test_a_point_that_needs_too_much_memory_is_flagged(
    run, monkeypatch, tmp_path: Path
) -> None:
    from giantstep.problems.network import limit

    def stop(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(limit, "limit", stop)
    result = run("predict", "S.toml", "--out", "r.csv")
    assert result.exit_code == 1
    assert "needs more memory than there is" in result.stderr
    assert (tmp_path / "r.csv").exists()


CONTRACT = """\
# what = "spectrum"
[scenario]
family = "one-step"
activation = "relu"
target = "tanh(z)"
width_per_dim = 1.5
samples_per_dim = 2.0
ridge = 0.01
second_layer = { values = [1, -1], probabilities = [0.9, 0.1] }
step = { kind = "maximal", rate = 0.5, batch_per_dim = inf }
[grid]
samples_per_dim = { start = 0.3, stop = 5.0, num = 3 }   # or a list; { ..., scale = "log" }
[limit]                                                   # theory, dim, tolerance; may be left out
[experiment]
dim = 20
trials = 2
seed = 0
"""


def test_the_study_of_the_contract_runs(run, tmp_path: Path) -> None:
    (tmp_path / "C.toml").write_text(CONTRACT)
    network = gs.Study.read("C.toml").scenario
    grid = {"samples_per_dim": np.linspace(0.3, 5, 3)}
    limit = strict(run("predict", "C.toml", "--json").stdout)
    np.testing.assert_allclose(
        limit["test_error"], gs.predict(network, grid)["test_error"], rtol=1e-12
    )
    measured = strict(run("simulate", "C.toml", "--json").stdout)
    expected = gs.simulate(network, grid, dim=20, trials=2, seed=0)
    np.testing.assert_array_equal(measured["test_error"], expected["test_error"])
    both = strict(run("compare", "C.toml", "--json").stdout)
    assert both["dims"]["test_error"] == ["source", "samples_per_dim"]
    (tmp_path / "C.toml").write_text(CONTRACT.replace("# what", "what"))
    assert "density" in strict(
        run("predict", "C.toml", "--json", "--set", "samples_per_dim=2.0").stdout
    )


def test_json_has_null_where_there_is_no_standard_error(run) -> None:
    result = run("compare", "S.toml", "--json", "--trials", "1")
    table = strict(result.stdout)
    assert (
        table["test_error_stderr"] == [0.0, 0.0, None] and table["test_error_z"] is None
    )
    assert result.stdout.count("\n") == 1 and result.stderr == ""


@pytest.mark.parametrize("text", ["1j", '["1j"]', '"0+1j"'])
def test_complex_numbers_are_written_as_text(run, text: str) -> None:
    table = strict(
        run(
            "predict", "S.toml", "--json", "--what", "resolvent", "--set", f"z={text}"
        ).stdout
    )
    assert (table["z_real"], table["z_imag"]) == ([0.0], [1.0])


def test_a_trial_that_failed_gives_status_1_and_one_warning(run, monkeypatch) -> None:
    from giantstep.problems.network import experiment

    def fails(*_: Any) -> None:
        raise np.linalg.LinAlgError("singular")

    monkeypatch.setattr(experiment, "trial", fails)
    for verb in ("simulate", "compare"):
        result = run(verb, "S.toml", "--json")
        assert result.exit_code == 1
        assert result.stderr.startswith(
            "giantstep: warning: 1 of 1 points were not measured"
        )
        assert result.stderr.count("\n") == 1
        assert None in np.atleast_1d(strict(result.stdout)["test_error"]).tolist()


OTHER = """\
[scenario]
family = "one-step"
activation = "relu"
target = "tanh(z)"
width_per_dim = 1.5
samples_per_dim = 2.0
ridge = 0.01
[experiment]
dim = 24
trials = 3
seed = 0
"""


def test_several_files_are_scenarios_of_one_table(run, tmp_path: Path) -> None:
    (tmp_path / "none.toml").write_text(OTHER)
    words = ("S.toml", "none.toml", "--grid", "samples_per_dim=0.5,2")
    both = {"S": scenario(), "none": gs.Study.read("none.toml").scenario}
    expected = gs.predict(both, samples_per_dim=[0.5, 2.0])["test_error"]
    result = run("predict", *words)
    assert result.exit_code == 0
    for value in expected.values.ravel():
        assert f"{value:.8g}" in result.stdout
    assert run("simulate", *words, "--out", "m.nc").exit_code == 0
    assert (
        gs.load("m.nc").sizes
        == gs.simulate(both, dim=24, trials=3, samples_per_dim=[0.5, 2.0]).sizes
    )
    result = run(
        "compare", *words, "--plot", "both.png", "--paper", "column", "--out", "both.nc"
    )
    assert result.exit_code == 0 and "verdict" in result.stdout
    assert gs.load("both.nc").scenario.values.tolist() == ["S", "none"]
    assert (tmp_path / "both.png").read_bytes().startswith(b"\x89PNG")


def test_files_of_one_name_are_told_apart_by_their_folders(run, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "S.toml").write_text(OTHER)
    result = run("predict", "S.toml", "other/S.toml", "--out", "r.nc")
    assert result.exit_code == 0
    assert gs.load("r.nc").scenario.values.tolist() == ["S.toml", "other/S.toml"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            OTHER.replace('"one-step"', '"few-steps"'),
            "of one family, not of OneStep and FewSteps",
        ),
        (OTHER + "[grid]\nridge = [0.1, 1.0]\n", "differ in more than their scenarios"),
        (
            OTHER.replace("trials = 3", "trials = 4"),
            "differ in more than their scenarios",
        ),
        (
            OTHER + "[limit]\ntheory = 'isotropic'\n",
            "differ in more than their scenarios",
        ),
    ],
)
def test_files_that_make_no_table_are_refused(
    refused, tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "other.toml").write_text(text)
    assert words in refused("compare", "S.toml", "other.toml")


def test_one_file_twice_and_a_missing_one_are_refused(refused) -> None:
    assert "named twice" in refused("predict", "S.toml", "S.toml")
    assert "missing.toml" in refused("predict", "S.toml", "missing.toml")
    assert "--paper is for --plot" in refused("predict", "S.toml", "--paper", "page")
    assert "--paper must be column or page" in refused(
        "predict", "S.toml", "--plot", "a.png", "--paper", "narrow"
    )
