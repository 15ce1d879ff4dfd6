"""The public contract, rule by rule, where no other file of this folder holds the rule:
as a user tries it.
"""

import json
import logging
import os
import subprocess
import sys
import types
import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Thread
from typing import ClassVar

import numpy as np
import pytest
import xarray
from threadpoolctl import threadpool_info, threadpool_limits

import giantstep as gs
from giantstep.core.base.progress import Progress, counted, point_done
from giantstep.core.lab import threads
from giantstep.core.run.trials import group_points
from giantstep.core.scenario.answer import Answer
from giantstep.core.scenario.family import Question, Variable
from giantstep.core.scenario.fields import Integer, field
from giantstep.core.scenario.grid import Grid

from .toy import Toy

NETWORK = gs.OneStep(
    width_per_dim=1.5,
    samples_per_dim=2.0,
    ridge=0.1,
    second_layer=gs.Vocabulary(values=[1, -1], probabilities=[0.9, 0.1]),
    step=gs.MaximalStep(rate=0.5, batch_per_dim=gs.inf),
)


def sentence(function, *args, **fields):
    with pytest.raises(gs.InputError) as caught:
        function(*args, **fields)
    return str(caught.value)


# -- scenarios -------------------------------------------------------------------------


def test_scenarios_take_keywords_only_and_parts_their_values_in_order():
    with pytest.raises(TypeError):
        gs.OneStep("relu")
    assert gs.MaximalStep(0.5, 3) == gs.MaximalStep(rate=0.5, batch_per_dim=3.0)
    assert NETWORK.replace(ridge=0.2, step__rate=2.0).step.rate == 2.0


# -- grids -----------------------------------------------------------------------------


def test_dim_may_be_a_list_for_every_verb():
    sizes = {"dim": [20, 30], "level": [1, 3]}
    assert gs.predict(Toy(), **sizes)["mean"].dims == ("dim", "level")
    assert gs.simulate(Toy(), trials=2, **sizes)["mean"].dims == ("dim", "level")
    both = gs.compare(Toy(), trials=2, **sizes)
    assert both["mean"].dims == ("source", "dim", "level")
    np.testing.assert_allclose(
        both["mean"].sel(source="theory", level=1), [1 + 1 / 20, 1 + 1 / 30]
    )
    np.testing.assert_allclose(both["mean"].sel(source="limit", level=1), [1, 1])


def test_data_arrays_are_paired_numbers_names_and_dimensions_alike():
    fields = {
        "level": xarray.DataArray([1.0, 3.0], dims="run"),
        "shape": xarray.DataArray(["relu", "tanh"], dims="run"),
        "dim": xarray.DataArray([20, 40], dims="run"),
    }
    for result in (gs.predict(Toy(), **fields), gs.simulate(Toy(), trials=2, **fields)):
        assert result["mean"].dims == ("run",)
        assert result["shape"].values.tolist() == ["relu", "tanh"]
        assert result["dim"].values.tolist() == [20, 40]
    alone = gs.simulate(Toy(), trials=2, level=3, shape="tanh", dim=40)
    assert float(result["mean"][1]) == float(alone["mean"])


@pytest.mark.parametrize(
    "value", [3, np.float64(3), np.array(3.0), np.array(3), xarray.DataArray(3.0)]
)
def test_a_single_value_of_any_kind_just_replaces(value):
    result = gs.predict(Toy(), level=value, dim=np.array(10))
    assert result["mean"].dims == () and float(result["mean"]) == 3.1


def test_a_single_number_for_a_setting_with_a_dimension_is_one_entry():
    """It was a TypeError of `len` in the table for a family whose `prepare` leaves the
    number as it is.
    """
    result = gs.predict(Toy(), what="transform", z=0.5)
    assert result["m_real"].dims == ("z",) and result["m_real"].values.tolist() == [0.5]


def test_a_dot_in_mappings_and_two_underscores_in_keywords():
    first = gs.predict(NETWORK, {"step.rate": [0.5, 1]})
    second = gs.predict(NETWORK, step__rate=[0.5, 1])
    assert first["test_error"].dims == ("step.rate",)
    assert first.identical(second)


def test_where_the_theory_depends_on_the_dimension_it_is_a_field():
    class Sized(Toy):
        limit = Toy.limit
        family: ClassVar[str] = ""
        dim: Integer = field("d", "input dimension", default=10, ge=1)

    assert float(gs.predict(Sized())["mean"]) == pytest.approx(1.1)
    assert float(gs.predict(Sized(dim=100))["mean"]) == pytest.approx(1.01)
    both = gs.compare(Sized(), dim=[20, 50], trials=2, finite_size=False)
    np.testing.assert_allclose(both["mean"].sel(source="limit"), [1.05, 1.02])
    assert both["mean"].dims == ("source", "dim")
    assert float(gs.simulate(Sized(dim=50), trials=2)["mean"]) == float(
        both["mean"].sel(source="experiment", dim=50)
    )


def test_everything_is_checked_before_anything_runs(monkeypatch):
    def runs(*_):
        pytest.fail("something ran")

    for name in ("limit", "trial", "prepare"):
        monkeypatch.setattr(Toy, name, runs)
    for call in (
        lambda: gs.compare(Toy()),
        lambda: gs.compare(Toy(), dim=10, level=[1, -1]),
        lambda: gs.compare(Toy(), dim=10, level=[1, 2]),
        lambda: gs.compare(Toy(), dim=10, trials=0),
        lambda: gs.compare(Toy(), dim=10, device="tpu"),
        lambda: gs.compare(Toy(), dim=10, what="wave", x=["a"]),
        lambda: gs.Study(Toy(), experiment={"device": "tpu"}),
    ):
        assert "Field `" in sentence(call)
    monkeypatch.setattr(
        Toy, "prepare", lambda self, points, what, settings: dict(settings)
    )
    assert "GiB of memory" in sentence(gs.compare, Toy(), dim=10**15)


def test_a_setting_of_another_verb_is_no_suggestion_of_itself():
    assert "did you mean" not in sentence(gs.predict, Toy(), trials=3)
    assert "; it is a setting of simulate and compare." in sentence(
        gs.predict, Toy(), trials=3
    )
    assert "; it is a setting of predict and compare." in sentence(
        gs.simulate, Toy(), dim=10, tolerance=1e-3
    )


@pytest.mark.parametrize("tests", [0, -5, 2.5, [10, 20], "10", True])
def test_counts_are_at_least_one(tests):
    message = sentence(gs.simulate, Toy(), what="sampled", dim=10, tests=tests)
    assert message.startswith(
        "Field `tests` must be a whole number at least 1, but is tests="
    )


def test_settings_of_a_question_take_numbers_of_any_kind():
    assert gs.predict(Toy(), what="transform", z=1j)["m_real"].sizes == {"z": 1}
    assert gs.predict(Toy(), what="transform", z="1j")["m_real"].sizes == {"z": 1}
    assert "in each place of the list" in sentence(
        gs.predict, Toy(), what="transform", z=[complex("nan")]
    )
    assert "one of up, down" in sentence(
        gs.predict, Toy(), what="wave", sign=["up", "down"]
    )
    array = gs.predict(Toy(), what="wave", x=xarray.DataArray([0.0, 1.0], dims="x"))
    assert json.loads(array.attrs["settings"])["x"] == [0.0, 1.0]
    both = gs.predict(Toy(), what="transform", z=[1j, 2 + 1j], shape=["relu", "tanh"])
    assert both["z_imag"].values.tolist() == [1.0, 1.0]


# -- functions -------------------------------------------------------------------------


def test_a_callable_means_what_its_expression_means():
    given = gs.Function(
        lambda z: np.maximum(z, 0),
        derivative=lambda z: np.where(z > 0, 1.0, 0.0),
        kinks=[0.0],
    )
    names = gs.predict(NETWORK, activation=["relu", given])["test_error"].values
    assert names[1] == pytest.approx(names[0], rel=1e-9)


def test_the_seed_knows_a_callable_by_its_values():
    def key(function):
        return group_points(Grid(Toy(shape=function), dim=10))[0].key(paired=False)

    assert key(lambda z: np.tanh(z)) == key(lambda z: np.tanh(1.0 * z))
    assert key(lambda z: np.tanh(z)) != key(lambda z: np.tanh(1.5 * z))


def test_a_study_with_a_callable_runs_and_is_not_written(tmp_path):
    for study in (
        gs.Study(Toy(shape=np.tanh)),
        gs.Study(Toy(), grid={"shape": ["relu", np.tanh]}),
    ):
        assert bool(study.predict()["converged"].all())
        message = sentence(study.write, tmp_path / "S.toml")
        assert "Field `shape`" in message and "Python callable" in message
    assert list(tmp_path.iterdir()) == []


def test_a_callable_that_fails_is_one_sentence():
    def two_lines(z):
        raise ValueError("first\nsecond")

    message = sentence(Toy, shape=two_lines)
    assert "\n" not in message and message.endswith("first second.")


# -- results ---------------------------------------------------------------------------

_PATH = Variable("path", ("time",), "m(t)", "mean at each time")


class Walk(Toy):
    """A trajectory that diverges at time 2 where the level is high."""

    family: ClassVar[str] = ""
    questions: ClassVar[dict] = {"path": Question("a path", (_PATH,))}

    def limit(self, points, what, settings):
        level = points["level"]
        path = level[:, None] + np.arange(4.0)
        high = level > 100
        path[high, 2:] = np.nan
        status = np.where(high, "diverged at time 2", "")
        count = len(level)
        return Answer(
            {"path": path},
            status,
            np.zeros(count),
            np.ones(count, int),
            coords={"time": np.arange(4)},
        )


def test_a_trajectory_keeps_what_came_before_it_diverged(tmp_path):
    with pytest.warns(gs.GiantstepWarning, match="diverged at time 2"):
        result = gs.predict(Walk(), level=[1, 200])
    np.testing.assert_array_equal(
        result["path"], [[1, 2, 3, 4], [200, 201, np.nan, np.nan]]
    )
    assert result["converged"].values.tolist() == [True, False]
    assert result["time"].values.tolist() == [0, 1, 2, 3]
    gs.save(result, tmp_path / "r.csv")
    lines = (tmp_path / "r.csv").read_text().splitlines()
    assert len(lines) == 1 + 2 * 4 and lines[0].startswith("level,time,path,")


def test_one_warning_per_call():
    def caught(call):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            call()
        assert [warning.filename for warning in found] == [__file__] * len(found)
        return [str(warning.message) for warning in found]

    assert (
        len(caught(lambda: gs.predict(Toy(), level=[200, 300], shape=["relu", "tanh"])))
        == 1
    )
    [text] = caught(lambda: gs.compare(Toy(), dim=10, trials=3, level=[1, 60, 200]))
    assert "1 of 3 points were not solved (first reason: too high)." in text
    assert "1 of 3 points were not measured (first reason: trial 0: singular)." in text
    assert caught(lambda: gs.compare(Toy(), dim=10, level=[1, 3])) == []


def test_remarks_of_a_limit_are_part_of_the_one_warning(monkeypatch):
    honest = Toy.limit

    def remarking(self, *args):
        answer = honest(self, *args)
        answer.warnings.append("This is an approximation.")
        return answer

    monkeypatch.setattr(Toy, "limit", remarking)
    with pytest.warns(gs.GiantstepWarning) as found:
        gs.predict(Toy(), level=[1, 200], shape=["relu", "tanh"])
    [text] = [str(warning.message) for warning in found]
    assert (
        text.count("This is an approximation.") == 1
        and "2 of 4 points were not solved" in text
    )


def test_strict_raises_before_the_experiment_runs(monkeypatch):
    monkeypatch.setattr(Toy, "trial", lambda *_: pytest.fail("the experiment ran"))
    with pytest.raises(gs.ConvergenceError, match="1 of 2 points were not solved"):
        gs.compare(Toy(), dim=10, level=[1, 200], strict=True)


@pytest.mark.parametrize(
    "fields",
    [
        {"activation": ["erf", "tanh"], "ridge": [0.1, 0.2]},
        {"what": "spectrum", "activation": "erf"},
        {"what": "resolvent", "activation": ["erf", "tanh"], "z": [-1, 1j]},
    ],
)
def test_every_result_of_a_network_comes_back_from_its_file(fields, tmp_path):
    for result in (
        gs.predict(NETWORK, **fields),
        gs.simulate(NETWORK, dim=12, trials=2, keep_trials=True, **fields),
        gs.compare(NETWORK, dim=12, trials=2, **fields),
    ):
        for path in (tmp_path / "r.nc", tmp_path / "r.json"):
            gs.save(result, path)
            again = gs.load(path)
            assert again.identical(result)
            for name, variable in result.variables.items():
                assert again[name].dtype.kind == variable.dtype.kind


def test_the_table_of_a_network_has_its_blocks_as_columns(tmp_path):
    gs.save(gs.compare(NETWORK, dim=12, trials=2, ridge=[0.1, 0.2]), tmp_path / "r.csv")
    head, *rows = (tmp_path / "r.csv").read_text().splitlines()
    assert head.startswith(
        "source,ridge,test_error,test_error_stderr,test_error_gap,test_error_z,"
    )
    assert "V2[1],V2[2]" in head and '"Q1[1,2]"' in head
    # not just the name of a layer
    sources = [
        "limit",
        "theory at d = 12",
        "experiment",
    ]
    assert [row.partition(",")[0] for row in rows] == [
        source for source in sources for _ in range(2)
    ]


def test_the_provenance_of_an_experiment_says_how_to_repeat_it():
    result = gs.simulate(
        NETWORK, dim=12, trials=2, seed=2**64 - 1, paired=True, test_samples=100
    )
    attrs = result.attrs
    assert attrs["giantstep_version"] == gs.__version__ and attrs["device"] == "cpu"
    settings = json.loads(attrs["settings"])
    expected = {
        "dim": 12,
        "test_samples": 100,
        "trials": 2,
        "seed": 2**64 - 1,
        "device": "cpu",
        "paired": True,
    }
    assert settings == expected
    from giantstep.core.scenario.model import from_content

    again = gs.simulate(from_content(json.loads(attrs["scenario"])), **settings)
    assert again.identical(result)


def test_attributes_are_numbers_or_text_also_where_one_is_infinite():
    from giantstep.core.result.provenance import provenance

    attrs = provenance(
        Grid(Toy()),
        "mean",
        "limit",
        {},
        {"a": float("inf"), "b": float("nan"), "c": 0.5},
    )
    assert (attrs["a"], attrs["b"], attrs["c"]) == ('"inf"', "null", 0.5)


def test_engines_may_answer_only_what_is_declared(monkeypatch):
    monkeypatch.setattr(
        Toy, "answer", lambda self, mean, what, settings: {"other": mean}
    )
    for call in (lambda: gs.predict(Toy()), lambda: gs.simulate(Toy(), dim=10)):
        with pytest.raises(
            gs.GiantstepError, match="answered `other`, which it does not declare"
        ):
            call()


# -- agreement -------------------------------------------------------------------------


def test_a_comparison_says_what_correction_the_limit_had():
    assert gs.compare(Toy(), dim=50, trials=2).attrs["finite_size"] == "1/d"
    assert (
        gs.compare(Toy(), dim=50, trials=2, finite_size=False).attrs["finite_size"] == 0
    )


# -- seeds -----------------------------------------------------------------------------


def test_neither_order_nor_company_changes_a_number():
    first = gs.simulate(
        NETWORK,
        dim=16,
        trials=2,
        keep_trials=True,
        step__rate=[0.5, 1.0, 2.0],
        ridge=[0.1, 0.3],
        activation=["relu", "tanh"],
    )
    second = gs.simulate(
        NETWORK,
        dim=[20, 16],
        trials=3,
        keep_trials=True,
        ridge=[0.3, 0.2, 0.1],
        activation=["tanh", "relu"],
        step__rate=[2.0, 0.5],
    )
    same = {
        "step.rate": [0.5, 2.0],
        "ridge": [0.1, 0.3],
        "activation": ["relu", "tanh"],
    }
    second = second.sel(dim=16).isel(trial=slice(2)).sel(same)
    for name in ("test_error", "norm", "Q1"):
        ours = first[name].sel(same)
        np.testing.assert_allclose(
            ours, second[name].transpose(*ours.dims), rtol=1e-10, atol=1e-14
        )


def test_minus_zero_is_the_same_point_as_zero():
    both = gs.simulate(Toy(), dim=10, noise__size=[0.0, -0.0], level=[0.0])[
        "mean"
    ].values.ravel()
    alone = gs.simulate(Toy(), dim=10, noise__size=-0.0, level=-0.0)["mean"]
    assert both.tolist() == [float(alone)] * 2
    assert Toy(level=-0.0).digest() == Toy(level=0.0).digest()


def test_paired_points_have_the_same_draws():
    rates = {
        "dim": 16,
        "trials": 2,
        "keep_trials": True,
        "step__rate": [0.5, 0.5 + 1e-9],
    }
    apart = abs(gs.simulate(NETWORK, **rates)["test_error"].diff("step.rate")).values
    together = abs(
        gs.simulate(NETWORK, paired=True, **rates)["test_error"].diff("step.rate")
    ).values
    assert together.max() < 1e-7 < 1e-4 < apart.min()


@pytest.mark.parametrize(
    ("given", "seed"), [(3.0, 3), (np.int64(3), 3), (2**64 - 1, 2**64 - 1)]
)
def test_whole_numbers_of_any_kind_are_seeds(given, seed):
    result = gs.simulate(Toy(), dim=10, trials=np.int32(2), seed=given)
    assert json.loads(result.attrs["settings"])["seed"] == seed
    assert result.identical(gs.simulate(Toy(), dim=10, trials=2.0, seed=seed))
    assert "Field `seed`" in sentence(gs.simulate, Toy(), dim=10, seed=2**64)


@pytest.mark.parametrize("what", ["errors", "spectrum"])
def test_the_number_of_threads_changes_nothing_but_rounding(what, monkeypatch):
    monkeypatch.setattr(threads, "SMALL", -1)
    results = []
    for count in (1, 2):
        with threadpool_limits(count):
            results.append(
                gs.simulate(
                    NETWORK, dim=60, trials=1, what=what, samples_per_dim=[1.0, 3.0]
                )
            )
    for name in results[0].data_vars:
        if results[0][name].dtype.kind == "f":
            np.testing.assert_allclose(
                results[0][name], results[1][name], rtol=1e-10, atol=1e-12
            )


def test_small_trials_run_on_one_thread_and_give_the_others_back(monkeypatch):
    def counts():
        return [
            library["num_threads"]
            for library in threadpool_info()
            if library["user_api"] == "blas"
        ]

    seen = []
    honest = Toy.trial
    monkeypatch.setattr(
        Toy, "trial", lambda *args: (seen.append(counts()), honest(*args))[1]
    )
    with threadpool_limits(2):
        before = counts()
        gs.simulate(Toy(), dim=10, trials=1)
        assert counts() == before
        monkeypatch.setattr(threads, "SMALL", 1)
        gs.simulate(Toy(), dim=10, trials=1)
    assert set(seen[0]) == {1} and seen[1] == before


def test_limits_run_on_one_thread_and_give_the_others_back(monkeypatch):
    """Catches a limit on the threads of the user, and limits in two threads of Python
    that leave one behind.
    """

    def counts():
        return [
            library["num_threads"]
            for library in threadpool_info()
            if library["user_api"] == "blas"
        ]

    def set_threads(count):  # by a thread that ends, and so has no claim on the setting
        setter = Thread(target=threadpool_limits, args=(count,))
        setter.start()
        setter.join()

    seen, together, honest, usual = [], Barrier(2), Toy.limit, counts()[0]

    def noted(*args):
        seen.extend(counts())
        together.wait()
        return honest(*args)

    monkeypatch.setattr(Toy, "limit", noted)
    set_threads(2)
    with ThreadPoolExecutor(2) as two:
        for asked in [two.submit(gs.predict, Toy()) for _ in range(2)]:
            asked.result()
    after = counts()
    set_threads(usual)
    assert set(seen) == {1} and set(after) == {2}


# -- progress and logs -----------------------------------------------------------------


def test_a_comparison_tells_its_progress_in_parts():
    seen = []
    gs.compare(
        Toy(), dim=10, trials=2, level=[1, 3], progress=lambda *step: seen.append(step)
    )
    limit = [(0, 2, "limit"), (2, 2, "limit")]
    trials = [(done, 4, "trials") for done in range(5)]
    # the theory at that dimension, the bare limit, the experiment
    assert seen == [
        *limit,
        *limit,
        *trials,
    ]


def test_a_line_shows_in_a_notebook_and_on_a_terminal(monkeypatch):
    assert not Progress(None, 1, "trials")._shows_line
    shell = type("ZMQInteractiveShell", (), {})()
    with monkeypatch.context() as patch:
        patch.setitem(
            sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell)
        )
        assert Progress(None, 1, "trials")._shows_line
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert (
        Progress(None, 1, "trials")._shows_line
        and not Progress(False, 1, "trials")._shows_line
    )


def test_a_line_follows_the_count_and_goes(capsys, monkeypatch):
    now = iter(range(100))
    monkeypatch.setattr("time.monotonic", lambda: float(next(now)))
    with Progress(True, 2, "trials") as bar:
        bar.advance()
        bar.advance()
    out, said = capsys.readouterr()
    first, second, third, cleared, after = said.split("\r")[1:]
    assert (out, first, after) == ("", "trials: 0 of 2", "")
    assert second.startswith("trials: 1 of 2, ") and third.startswith(
        "trials: 2 of 2, 0 s left"
    )
    assert cleared == " " * len(third.rstrip())


def test_details_go_to_the_logger(caplog):
    with caplog.at_level(logging.DEBUG, logger="giantstep"):
        gs.compare(Toy(), dim=10, trials=3, level=[1, 3], offset=[0, 1])
    *limits, experiment = (record.getMessage() for record in caplog.records)
    assert {record.name for record in caplog.records} == {"giantstep"}
    assert len(limits) == 2 and all(
        text.startswith("limit of toy, mean: 4 of 4 points solved in ")
        for text in limits
    )
    assert experiment.startswith(
        "experiment of toy, mean: 4 of 4 points measured, 2 draws of 3 trials on"
        " cpu, in "
    )


def test_nothing_is_printed_by_default():
    code = (
        "import giantstep as gs\n"
        "s = gs.OneStep(width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1)\n"
        "gs.compare(s, dim=10, trials=2)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ}
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# -- studies ---------------------------------------------------------------------------


def test_studies_are_equal_where_they_say_the_same():
    study = gs.Study(
        Toy(), grid={"level": np.linspace(3, 4, 5)}, experiment={"dim": [10, 20]}
    )
    assert gs.Study.from_toml(study.to_toml()) == study
    assert (
        gs.Study(
            Toy(),
            grid={"level": [3.0, 3.25, 3.5, 3.75, 4.0]},
            experiment={"dim": [10, 20]},
        )
        == study
    )
    for other in (
        gs.Study(Toy(), grid={"level": [3.0]}, experiment={"dim": [10, 20]}),
        gs.Study(Toy(), grid={"level": np.linspace(3, 4, 5)}),
        gs.Study(
            Toy(offset=1),
            grid={"level": np.linspace(3, 4, 5)},
            experiment={"dim": [10, 20]},
        ),
    ):
        assert other != study
    assert study != 3


@pytest.mark.parametrize(
    "step", [gs.PlantedSpike(strength=2.0), {"kind": "planted", "strength": 2.0}]
)
def test_a_part_given_as_a_single_value_is_written(step):
    study = gs.Study(NETWORK, grid={"step": step, "step.alignment": [0.1, 0.5]})
    again = gs.Study.from_toml(study.to_toml())
    assert again.predict().identical(study.predict())
    read = gs.Study.from_toml(
        gs.Study(NETWORK).to_toml()
        + '[grid]\nstep = { kind = "planted", strength = 2.0 }'
    )
    assert (
        read.predict().attrs["scenario"]
        == gs.predict(NETWORK, step=step).attrs["scenario"]
    )


def test_naming_the_first_question_keeps_its_settings():
    study = gs.Study(NETWORK, experiment={"dim": 12, "trials": 2, "test_samples": 50})
    assert study.simulate(what="errors").identical(study.simulate())


def test_a_family_can_count_its_points():
    """Without it a batch of points that take seconds each shows nothing until the last
    one is solved.
    """
    told = []
    with Progress(
        lambda done, total, text: told.append((done, total)), 5, "limit"
    ) as bar:
        point_done()  # nobody counts here
        with counted(bar, 3):
            for _ in range(4):  # a point that is tried again is no more than one
                point_done()
        with counted(bar, 2):
            pass  # a family that does not count
        bar.reach(7)  # more than was expected
    assert told == [(0, 5), (1, 5), (2, 5), (3, 5), (3, 5), (3, 5), (5, 5), (7, 7)]


def test_what_takes_long_says_so_before_and_counts():
    told = []

    def watch(done, total, text):
        told.append((done, total, text))

    slow = gs.BayesLimit(target="z1 + z2**2", noise=0.5, samples_per_dim=0.01)
    assert slow.seconds("errors") > 1 > gs.BayesLimit.example().seconds("errors")
    gs.optimize(
        gs.BayesLimit.example(),
        over={"noise": (0.1, 1.0)},
        minimise="mse[branch=bayes]",
        progress=watch,
    )
    counts = [done for done, _, _ in told]
    assert (
        counts == sorted(counts)
        and counts[-1] > 17
        and {text for *_, text in told} == {"optimize"}
    )
    told.clear()
    gs.predict(gs.BayesLimit.example(), samples_per_dim=[1.0, 2.0, 3.0], progress=watch)
    assert [done for done, *_ in told] == [0, 1, 2, 3, 3]
    told.clear()
    s = gs.MixtureGLM(
        labels="linear", loss="square", noise=0.31, ridge=0.3, samples_per_dim=1.7
    )
    gs.efficiency(gs.predict(s), progress=watch)
    assert told[0][::2] == (0, "best possible error") and told[-1][0] > 3
