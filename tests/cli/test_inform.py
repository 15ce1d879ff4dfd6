"""The commands that tell: new, describe, cite, doctor, figures, reproduce, version,
help.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import giantstep as gs
from giantstep import papers
from giantstep.core.result.report import Agreement, AgreementRow
from giantstep.core.run.study import Study
from giantstep.core.scenario.families import family_class, family_names
from giantstep.faces.cli.options import many, single
from giantstep.papers.report import Check, Comparison, Report


@pytest.mark.parametrize("family", family_names())
def test_new_reads_back_as_the_example(run, family: str) -> None:
    result = run("new", family)
    study = Study.from_toml(result.stdout)
    assert result.exit_code == 0
    assert study.what == next(iter(study.scenario.questions))
    described = json.loads(run("describe", family, "--json").stdout)
    assert study.scenario.content() == described["example"]


@pytest.mark.parametrize("family", family_names())
def test_new_says_every_field_with_its_meaning(run, family: str) -> None:
    text = run("new", family).stdout
    for field in json.loads(run("describe", family, "--json").stdout)["fields"]:
        assert f"{field['symbol']}: {field['meaning']}; {field['allowed']}" in text


def test_new_starts_from_a_gradient_step(run) -> None:
    assert Study.from_toml(
        run("new", "one-step").stdout
    ).scenario.step == gs.MaximalStep(rate=2.0)


@pytest.mark.parametrize("family", family_names())
def test_describe_names_everything(run, family: str) -> None:
    cls = family_class(family)
    text = run("describe", family).stdout
    data = json.loads(
        run("describe", family, "--json").stdout, parse_constant=pytest.fail
    )
    assert cls.update_rule.splitlines()[0] in text
    assert [field["name"] for field in data["fields"]] == list(cls.model_fields)
    for name, question in cls.questions.items():
        assert f'Question "{name}"' in text
        variables = data["questions"][name]["variables"]
        assert [variable["name"] for variable in variables] == [
            v.name for v in question.variables
        ]
        for variable in question.variables:
            assert variable.name in text
    for name in (*cls.theories, *cls.papers, *cls.model_fields):
        assert name in text


def test_describe_gives_bounds_and_choices(run) -> None:
    fields = {
        field["name"]: field
        for field in json.loads(run("describe", "one-step", "--json").stdout)["fields"]
    }
    assert fields["samples_per_dim"]["bounds"] == {"gt": 0}
    assert fields["samples_per_dim"]["allowed"] == "a number above 0"
    steps = {choice["kind"]: choice for choice in fields["step"]["choices"]}
    rate, batch, *_ = steps["maximal"]["fields"]
    assert rate["name"] == "step.rate" and rate["required"]
    assert batch["default"] == "inf" and batch["infinite"]
    assert {"value": "gaussian"} in fields["second_layer"]["choices"]


def test_a_written_study_means_the_same(run, tmp_path: Path) -> None:
    study = Study.from_toml(run("new", "one-step").stdout)
    study.write(tmp_path / "T.toml")
    assert Study.read(tmp_path / "T.toml") == study
    assert (
        run("predict", "T.toml", "--json").stdout
        == run("predict", "T.toml", "--json").stdout
    )


def test_cite_a_study_and_a_result(run) -> None:
    text = run("cite", "S.toml").stdout
    assert "@inproceedings{dandi2025random" in text
    assert "@software{giantstep" in text
    run("predict", "S.toml", "--out", "r.nc")
    assert run("cite", "r.nc").stdout == text


def test_doctor_examines_and_tests(run) -> None:
    result = run("doctor")
    assert result.exit_code == 0
    assert "self-test  passed" in result.stdout
    findings = json.loads(run("doctor", "--json").stdout)
    assert findings["self_test"]["passed"]
    assert findings["giantstep"] == gs.__version__
    assert None not in findings["packages"].values()


def test_doctor_says_when_the_self_test_fails(run, monkeypatch) -> None:
    scenario, variable, _ = gs.OneStep.reference()
    monkeypatch.setattr(
        gs.OneStep, "reference", classmethod(lambda cls: (scenario, variable, 0.5))
    )
    result = run("doctor")
    assert result.exit_code == 1
    assert "FAILED" in result.stdout


def test_doctor_goes_on_where_something_is_missing_or_raises(run, monkeypatch) -> None:
    monkeypatch.setattr(
        "giantstep.faces.cli.doctor._PACKAGES", ("numpy", "no-such-package")
    )
    monkeypatch.setattr(
        gs.OneStep, "reference", classmethod(lambda cls: cls(width_per_dim="wide"))
    )
    result = run("doctor")
    assert result.exit_code == 1
    assert "no-such-package MISSING" in result.stdout
    assert "one-step: " in result.stdout
    assert "of mixture-glm" in result.stdout


def test_figures_are_listed(run) -> None:
    assert "learned-features: " in run("figures").stdout
    figures = json.loads(run("figures", "--json").stdout)["figures"]
    assert "learned-features" in [figure["name"] for figure in figures]


def test_the_list_of_figures_has_a_line_each_and_tells_ours_from_published(run) -> None:
    lines = run("figures").stdout.splitlines()
    known = papers.list_figures()
    assert len(lines) == len(known) + 5  # two heads, two empty lines, a hint
    published = lines[: lines.index("")]
    ours = lines[lines.index("") :]
    assert any(line.startswith("learned-features:") for line in published)
    for name in ("error-staircase", "digits"):
        assert any(line.startswith(f"{name}:") and "(ours" in line for line in ours)
    assert run("figures", "--long").stdout.count("with --quick") == len(known)
    told = tomllib.loads(
        (Path(__file__).parents[2] / "benchmarks" / "paper_figures.toml").read_text()
    )
    assert papers.OURS == {
        name
        for name, about in told.items()
        if isinstance(about, dict) and "ours" in about
    }


def figure(
    z: float, checks: tuple[Check, ...] = (), *, experiment: bool = True
) -> Report:
    """Return the report of a figure with one experiment of 20 trials that sees gaps
    from 5% on.
    """
    row = AgreementRow(
        "test_error",
        1,
        z,
        3.3,
        0.02 * z,
        0.04,
        0.02 * z if z > 3.3 else 0.0,
        0.05,
        0.05,
        20,
    )
    errors = Comparison("errors", "test error", Agreement((row,), 20), 0.0, {})
    parts = [errors] if experiment else []
    return Report(
        "a",
        "A",
        "paper",
        True,
        "cpu",
        1.0,
        parts,
        list(checks),
        files=[Path("here/a.png")],
    )


HIDDEN = (
    "giantstep: Limit and experiment do not disagree, but a gap of 3% could hide in"
    " errors; "
)
FAILED = Check("slope", "of a line", 2.0, line=1.0)


@pytest.mark.parametrize(
    ("report", "options", "said"),
    [
        (figure(0.5), [], None),
        (figure(0.5), ["--check"], None),
        (figure(0.5), ["--check", "--see", "0.05"], None),
        (figure(0.5), ["--see", "0.03"], None),
        (figure(0.5), ["--check", "--see", "0.03"], HIDDEN),
        (figure(6.0), [], None),
        (
            figure(6.0),
            ["--check"],
            "giantstep: Limit and experiment disagree in errors.",
        ),
        (
            figure(6.0),
            ["--check", "--see", "0.5"],
            "giantstep: Limit and experiment disagree in errors.",
        ),
        (figure(0.5, (FAILED,)), ["--check"], "A check does NOT hold: slope."),
        (figure(0.0, experiment=False), ["--check"], None),
        (
            figure(0.0, experiment=False),
            ["--check", "--see", "0.03"],
            "nothing was compared.",
        ),
    ],
)
def test_reproduce_checks_what_it_is_asked_to(
    run, monkeypatch, report: Report, options: list[str], said
) -> None:
    from giantstep.papers import runner

    asked = {}

    def rebuild(name: str, **settings: object) -> Report:
        asked.update(name=name, **settings)
        return report

    monkeypatch.setattr(runner, "reproduce", rebuild)
    result = run(
        "reproduce",
        "learned-features",
        "--quick",
        "--out",
        "here",
        "--store",
        "kept.db",
        *options,
    )
    kept = {"out": Path("here"), "store": Path("kept.db")}
    assert asked == {"name": "learned-features", "quick": True, "device": "cpu", **kept}
    assert result.exit_code == (said is not None)
    first, *rest = result.stderr.splitlines()
    assert first == "wrote here/a.png"
    assert rest == [] if said is None else said in rest[0]
    assert result.stdout == f"{report}\n"


def test_a_gap_to_be_seen_is_a_number_above_zero(refused) -> None:
    assert "see" in refused("reproduce", "learned-features", "--check", "--see", "0")


def test_version_and_help(run) -> None:
    assert run("version").stdout == f"{gs.__version__}\n"
    for words in ([], ["--help"], ["-h"]):
        result = run(*words)
        assert result.exit_code == 0
        assert "reproduce" in result.stdout
    assert "--grid" in run("predict", "--help").stdout


LOADED = """
import contextlib, io, sys
from giantstep.faces.cli import main
heavy = ("numpy", "scipy", "xarray", "pandas", "matplotlib")
for line in sys.argv[1:]:
    sys.argv = ["giantstep", *line.split()]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        main()
    print([module for module in heavy if module in sys.modules])
"""


def loaded_by(*lines: str) -> list[str]:
    """Return which heavy packages are loaded after each of these commands, run one
    after the other in a new process.
    """
    words = [sys.executable, "-c", LOADED, *lines]
    done = subprocess.run(
        words, env=environment(), capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_help_and_misspelt_commands_load_nothing_heavy() -> None:
    lines = ("--help", "predct S.toml", "predict --help", "predict --sett ridge=1")
    assert loaded_by(*lines) == ["[]"] * len(lines)


def test_the_names_of_figures_are_known_without_loading_them() -> None:
    assert papers.figure_names() == list(papers.recipes())


def environment() -> dict[str, str]:
    source = str(Path(gs.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": source}


def test_the_real_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "giantstep"]
    new = subprocess.run(
        [*command, "new", "one-step"], env=environment(), capture_output=True, text=True
    )
    (tmp_path / "S.toml").write_text(new.stdout)
    words = ["predict", "S.toml", "--json"]
    done = subprocess.run(
        [*command, *words],
        env=environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["converged"] is True
    words = ["predict", "S.toml", "--set", "ridge=-1"]
    done = subprocess.run(
        [*command, *words],
        env=environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert (
        done.stderr
        == "giantstep: Field `ridge` must be a number at least 0, but is ridge=-1.0.\n"
    )


EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.toml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(run, path: Path) -> None:
    assert run("predict", str(path)).exit_code == 0


COMPARED = [
    pytest.param(
        path,
        id=path.stem,
        marks=() if path.stem == "one_step_planted" else pytest.mark.slow,
    )
    for path in EXAMPLES
]
"""One of them in a quick run: test_protocol.py has both engines answer every question
of every family.
"""


@pytest.mark.parametrize("path", COMPARED)
def test_examples_are_compared(run, path: Path) -> None:
    assert (
        run(
            "compare", str(path), "--dim", "20", "--trials", "2", "--plot", "r.png"
        ).exit_code
        == 0
    )


def test_values_of_options() -> None:
    assert single("tanh(z)") == "tanh(z)"
    assert single("1\nother = 2") == "1\nother = 2"
    assert many("f", "leaky_relu(z, 0.1), relu") == ["leaky_relu(z, 0.1)", "relu"]
    assert many("f", "[1, 2]") == [1, 2]
    assert many("f", "0.5") == [0.5]
    assert many("f", "0:1:3").tolist() == [0.0, 0.5, 1.0]
