"""The commands optimize, solve-for and sensitivity."""

import json

import pytest

import giantstep as gs


def scenario():
    return gs.Study.read("S.toml").scenario


def test_optimize_prints_and_writes_what_python_returns(run):
    done = run(
        "optimize",
        "S.toml",
        "--over",
        "ridge=1e-3:1e2",
        "--grid",
        "samples_per_dim=1,2",
        "--out",
        "best.nc",
    )
    assert done.exit_code == 0
    best = gs.optimize(scenario(), over={"ridge": (1e-3, 1e2)}, samples_per_dim=[1, 2])
    assert gs.load("best.nc").ridge.equals(best.ridge)
    shown = run(
        "optimize",
        "S.toml",
        "--over",
        "ridge=1e-3:1e2",
        "--over",
        "activation=relu,tanh",
    )
    assert "activation = " in shown.stdout and "worse at half" in shown.stdout


def test_a_budget_on_the_command_line(run):
    words = (
        "--over",
        "ridge=1e-2:10",
        "--budget",
        "samples_per_dim*ridge <= 1",
        "--json",
    )
    data = json.loads(run("optimize", "S.toml", *words, "--maximise", "norm").stdout)
    assert data["attrs"]["engine"] == "optimum" and data["ridge"] * 2.0 <= 1 + 1e-9


def test_networks_check_an_optimum(run):
    words = ("--over", "ridge=1e-2:10", "--dim", "40", "--check", "3")
    shown = run("optimize", "S.toml", *words)
    assert (
        shown.exit_code == 0
        and "3 networks at d = 40 have" in shown.stdout
        and "verdict = " in shown.stdout
    )
    data = json.loads(run("optimize", "S.toml", *words, "--json").stdout)
    best = gs.optimize(scenario(), over={"ridge": (1e-2, 10)}, dim=40, check=3)
    assert data["test_error_measured"] == pytest.approx(
        float(best.test_error_measured), rel=1e-12
    )


def test_solve_for(run):
    words = ("--reach", "test_error=0.2", "--between", "0.1:50", "--json")
    done = run("solve-for", "S.toml", "samples_per_dim", *words)
    assert done.exit_code == 0
    found = json.loads(done.stdout)["samples_per_dim"][0]
    assert float(
        gs.predict(scenario(), samples_per_dim=found).test_error
    ) == pytest.approx(0.2, rel=1e-9)
    missed = run(
        "solve-for",
        "S.toml",
        "samples_per_dim",
        "--reach",
        "test_error=1e-9",
        "--between",
        "0.1:2",
    )
    assert missed.exit_code == 1 and "not reached; smallest" in missed.stdout


def test_sensitivity_and_its_picture(run, tmp_path):
    done = run(
        "sensitivity", "S.toml", "--to", "ridge,width_per_dim", "--to", "step.alignment"
    )
    assert (
        done.exit_code == 0
        and "step.alignment" in done.stdout
        and "elasticity" in done.stdout
    )
    assert (
        run("sensitivity", "S.toml", "--plot", "bars.png").exit_code == 0
        and (tmp_path / "bars.png").exists()
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("optimize", "S.toml"), "--over is missing"),
        (("optimize", "S.toml", "--over", "ridge"), "--over takes FIELD=VALUE"),
        (("optimize", "S.toml", "--over", "ridge=a:b"), "LOW:HIGH"),
        (("optimize", "S.toml", "--over", "rigde=1:2"), "did you mean `ridge`"),
        (
            ("optimize", "S.toml", "--over", "ridge=1:2", "--budget", "ridge"),
            "has no relation",
        ),
        (("solve-for", "S.toml", "ridge"), "Name one observable"),
        (
            ("solve-for", "S.toml", "ridge", "--reach", "test_error"),
            "--reach takes VARIABLE=VALUE",
        ),
        (
            (
                "solve-for",
                "S.toml",
                "ridge",
                "--reach",
                "test_error=0.2",
                "--between",
                "1",
            ),
            "--between takes",
        ),
        (("sensitivity", "S.toml", "--to", "rigde"), "did you mean `ridge`"),
    ],
)
def test_bad_input_is_one_sentence(refused, words, message):
    assert message in refused(*words)


def test_a_phase_diagram_is_a_picture(run, refused, tmp_path):
    study = gs.Study(
        gs.MixtureGLM(
            labels="sign", noise=0.5, loss="logistic", ridge=0.1, samples_per_dim=2.0
        )
    )
    study.write("M.toml")
    words = (
        "phase-diagram",
        "M.toml",
        "--set",
        "noise=0.2",
        "--grid",
        "flip=0,0.1,0.2",
        "--plot",
        "M.png",
    )
    done = run(*words)
    assert done.exit_code == 0 and "wrote M.png" in done.stderr
    assert (tmp_path / "M.png").read_bytes()[1:4] == b"PNG"
    assert "OneStep has no phase diagram" in refused(
        "phase-diagram", "S.toml", "--plot", "S.png"
    )
