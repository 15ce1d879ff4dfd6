import json
import warnings

import numpy as np
import pytest
import xarray

import giantstep as gs
from giantstep.core.run.study import Study

from .toy import Toy


def sentence(function, *args, **fields):
    with pytest.raises(gs.InputError) as caught:
        function(*args, **fields)
    return str(caught.value)


# -- predict ---------------------------------------------------------------------------


def test_one_point_has_no_grid_dimensions():
    result = gs.predict(Toy())
    assert result["mean"].dims == ()
    assert float(result["mean"]) == 1.0
    assert bool(result["converged"]) and str(result["status"].values) == ""


def test_the_layout_is_grid_first_then_own_dimensions():
    result = gs.predict(Toy(), {"noise.size": [1, 2]}, level=[1, 3, 5])
    assert result["parts"].dims == ("noise.size", "level", "block", "block_2")
    assert result["parts"].shape == (2, 3, 2, 2)
    assert result["block"].values.tolist() == [1, 2]
    assert result["mean"].attrs == {"long_name": "mean of the numbers", "symbol": "m"}
    assert result["level"].attrs == {"long_name": "true mean", "symbol": "l"}
    for name in ("converged", "residual", "iterations", "status"):
        assert result[name].dims == ("noise.size", "level")
    np.testing.assert_array_equal(result["mean"], [[1, 3, 5]] * 2)


def test_the_provenance_is_complete_and_safe():
    attrs = gs.predict(Toy(far=gs.inf), dim=100, level=2).attrs
    assert (
        attrs["family"] == "toy"
        and attrs["what"] == "mean"
        and attrs["engine"] == "limit"
    )
    assert attrs["giantstep_version"] == gs.__version__
    assert json.loads(attrs["scenario"])["level"] == 2.0
    assert json.loads(attrs["scenario"])["far"] == "inf"
    assert json.loads(attrs["settings"]) == {"dim": 100, "tolerance": 1e-10}
    assert attrs["papers"] == "mei2022generalization"
    assert attrs["finite_size"] == "1/d"
    assert all(isinstance(value, str | int | float) for value in attrs.values())


def test_theories_are_chosen_by_name():
    assert float(gs.predict(Toy(), theory="wrong")["mean"]) == pytest.approx(1.1)
    assert sentence(gs.predict, Toy(), theory="wrogn").startswith(
        "Field `theory` must be one of exact, wrong (did you mean"
    )


def test_the_finite_size_term_comes_with_dim():
    result = gs.predict(Toy(), dim=[10, 100])
    np.testing.assert_allclose(result["mean"], [1.1, 1.01])
    assert result["mean"].dims == ("dim",)


def test_names_make_batches_and_one_x_for_all():
    result = gs.predict(Toy(), what="wave", shape=["relu", "tanh"])
    assert result["x"].values.tolist() == [0.0, 2.0]
    assert result["wave"].shape == (2, 2)
    assert not result["wave"].isnull().any()


def test_question_settings_are_keywords():
    result = gs.predict(Toy(), what="wave", x=[0, 1, 4], sign="down")
    assert result["x"].values.tolist() == [0, 1, 4]
    assert "one of up, down" in sentence(gs.predict, Toy(), what="wave", sign="left")
    assert "did you mean `sign`" in sentence(gs.predict, Toy(), what="wave", sing="up")
    assert "in each place of the list" in sentence(
        gs.predict, Toy(), what="wave", x=[0, np.nan]
    )
    assert "in each place of the list" in sentence(
        gs.predict, Toy(), what="wave", x=[0, "a"]
    )


def test_complex_points_are_counted_and_carry_their_parts():
    result = gs.predict(Toy(), what="transform", z=[1 + 2j, 3j, 5])
    assert result["z"].values.tolist() == [0, 1, 2]
    assert result["z_real"].values.tolist() == [1, 0, 5] and result[
        "z_imag"
    ].values.tolist() == [2, 3, 0]
    assert result["m_real"].dims == ("z",)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (
            lambda: gs.predict(Toy(), levle=1),
            "There is no field `levle` in Toy (did you mean `level`?)",
        ),
        (lambda: gs.predict(Toy(), toleranc=1), "(did you mean `tolerance`?)"),
        (
            lambda: gs.predict(Toy(), what="meen"),
            (
                "Field `what` must be one of mean, wave, transform, sampled (did you"
                " mean `mean`?)"
            ),
        ),
        (lambda: gs.predict({}), "The first argument must name at least one scenario"),
        (lambda: gs.predict(Toy(), [1]), "The grid must be a mapping"),
        (
            lambda: gs.predict(Toy(), {"level": 1}, level=2),
            "Field `level` is given twice.",
        ),
        (
            lambda: gs.predict(Toy(), tolerance=0),
            "Field `tolerance` must be a number above 0 and below 1",
        ),
        (lambda: gs.predict(Toy(), strict=1), "Field `strict` must be True or False"),
        (
            lambda: gs.predict(Toy(), progress=3),
            "Field `progress` must be True, False or a callable",
        ),
        (lambda: gs.simulate(Toy()), "Field `dim` is missing"),
        (lambda: gs.simulate(Toy(), dim=gs.inf), "Field `dim` is missing"),
        (
            lambda: gs.simulate(Toy(), dim=10, trials=0),
            "Field `trials` must be a whole number at least 1",
        ),
        (
            lambda: gs.simulate(Toy(), dim=10, trials=2.5),
            "Field `trials` must be a whole number",
        ),
        (
            lambda: gs.simulate(Toy(), dim=10, trials=True),
            "Field `trials` must be a whole number",
        ),
        (
            lambda: gs.simulate(Toy(), dim=10, seed=-1),
            "Field `seed` must be a whole number",
        ),
        (lambda: gs.simulate(Toy(), dim=10, device="tpu"), "Field `device` must be"),
        (
            lambda: gs.simulate(Toy(), dim=10, theory="exact"),
            "There is no field `theory` in Toy",
        ),
        (lambda: gs.simulate(Toy(), dim=10**15), "GiB"),
        (
            lambda: gs.compare(Toy(), dim=10, finite_size="no"),
            "Field `finite_size` must be True or False",
        ),
        (
            lambda: gs.predict(Toy(), level=xarray.DataArray([1.0, 3.0], dims="block")),
            "cannot be called `block`",
        ),
    ],
)
def test_bad_input_is_one_sentence(call, expected):
    with pytest.raises(gs.InputError) as caught:
        call()
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_failed_point_is_flagged_and_its_neighbours_intact():
    with pytest.warns(
        gs.GiantstepWarning,
        match=r"1 of 3 points were not solved \(first reason: too high\)",
    ):
        result = gs.predict(Toy(), level=[1, 200, 3])
    np.testing.assert_array_equal(result["mean"], [1, np.nan, 3])
    assert result["converged"].values.tolist() == [True, False, True]
    assert result["status"].values.tolist() == ["", "too high", ""]
    assert np.isnan(result["parts"].sel(level=200)).all()


def test_strict_raises():
    with pytest.raises(gs.ConvergenceError, match="1 of 2 points"):
        gs.predict(Toy(), level=[1, 200], strict=True)


def test_progress_reaches_the_total():
    seen = []
    gs.predict(Toy(), level=[1, 3, 5], progress=lambda *step: seen.append(step))
    assert seen == [(0, 3, "limit"), (3, 3, "limit")]
    seen.clear()
    gs.simulate(
        Toy(), dim=10, trials=3, level=[1, 3], progress=lambda *step: seen.append(step)
    )
    assert seen[-1] == (6, 6, "trials")


# -- simulate --------------------------------------------------------------------------


def test_means_and_standard_errors():
    kept = gs.simulate(Toy(), dim=50, trials=7, keep_trials=True, level=[1, 3])
    assert kept["mean"].dims == ("level", "trial") and kept[
        "trial"
    ].values.tolist() == list(range(7))
    assert kept["parts"].dims == ("level", "trial", "block", "block_2")
    result = gs.simulate(Toy(), dim=50, trials=7, level=[1, 3])
    np.testing.assert_allclose(result["mean"], kept["mean"].mean("trial"), rtol=1e-14)
    np.testing.assert_allclose(
        result["mean_stderr"], kept["mean"].std("trial", ddof=1) / 7**0.5, rtol=1e-12
    )
    np.testing.assert_array_equal(kept["mean_stderr"], result["mean_stderr"])
    assert result["trials_done"].values.tolist() == [7, 7]
    assert result.attrs["trials"] == 7 and result.attrs["device"] == "cpu"
    assert "exact" not in result


def test_one_trial_has_no_standard_error():
    result = gs.simulate(Toy(), dim=50, trials=1)
    assert np.isnan(result["mean_stderr"]) and np.isfinite(result["mean"])


def test_a_point_alone_is_the_point_in_a_grid():
    alone = gs.simulate(Toy(), dim=50, level=3, noise__size=2)
    grid = gs.simulate(
        Toy(), dim=[20, 50], level=[1, 3, 5], noise__size=[1, 2], shape=["relu", "tanh"]
    )
    inside = grid.sel({"dim": 50, "level": 3, "noise.size": 2, "shape": "relu"})
    assert float(alone["mean"]) == float(inside["mean"])
    assert float(alone["mean_stderr"]) == float(inside["mean_stderr"])


def test_more_trials_and_shared_points_change_no_number():
    few = gs.simulate(Toy(), dim=50, trials=3, keep_trials=True, offset=[0, 1])
    many = gs.simulate(Toy(), dim=50, trials=6, keep_trials=True, offset=[0, 0.5, 1])
    np.testing.assert_array_equal(
        few["mean"], many["mean"].sel(offset=[0, 1]).isel(trial=slice(3))
    )


def test_shared_fields_share_their_draws_and_others_do_not():
    result = gs.simulate(
        Toy(), dim=50, trials=4, keep_trials=True, level=[1, 3], offset=[0, 1]
    )
    noise = result["mean"] - result["level"] - result["offset"]
    np.testing.assert_allclose(noise.sel(offset=0), noise.sel(offset=1), atol=1e-12)
    assert abs(noise.sel(level=1) - noise.sel(level=3)).min() > 1e-6
    paired = gs.simulate(
        Toy(), dim=50, trials=4, keep_trials=True, paired=True, level=[1, 3]
    )
    noise = paired["mean"] - paired["level"]
    np.testing.assert_allclose(noise.sel(level=1), noise.sel(level=3), atol=1e-12)


def test_dimensions_have_draws_of_their_own():
    result = gs.simulate(Toy(), dim=[50, 100], trials=4, keep_trials=True)
    noise = (result["mean"] - 1 - 1 / result["dim"]) * result["dim"] ** 0.5
    assert abs(noise.sel(dim=50) - noise.sel(dim=100)).min() > 1e-6


def test_seeds_matter_and_repeat():
    first, again, other = (
        gs.simulate(Toy(), dim=50, seed=seed)["mean"] for seed in (1, 1, 2)
    )
    assert float(first) == float(again) != float(other)


def test_failing_trials_flag_their_point_and_leave_the_others():
    with pytest.warns(gs.GiantstepWarning, match="2 of 4 points were not measured"):
        result = gs.simulate(Toy(), dim=50, trials=3, level=[1, 60, 70, 3])
    assert result["converged"].values.tolist() == [True, False, False, True]
    assert result["status"].values.tolist() == [
        "",
        "trial 0: singular",
        "trial 1: mean is not a number",
        "",
    ]
    assert result["trials_done"].values.tolist() == [3, 0, 2, 3]
    assert np.isnan(result["mean"].sel(level=[60, 70])).all()
    assert float(result["mean"].sel(level=3)) == float(
        gs.simulate(Toy(), dim=50, trials=3, level=3)["mean"]
    )
    with pytest.raises(gs.ConvergenceError):
        gs.simulate(Toy(), dim=50, level=60, strict=True)


@pytest.mark.parametrize("keep", [False, True])
def test_where_every_trial_fails_every_variable_is_there_and_nan(keep):
    for question in ({}, {"what": "wave", "x": [0, 1, 2]}):
        good = gs.simulate(
            Toy(), dim=50, trials=2, keep_trials=keep, level=[1], **question
        )
        with pytest.warns(gs.GiantstepWarning, match="1 of 1 points were not measured"):
            bad = gs.simulate(
                Toy(), dim=50, trials=2, keep_trials=keep, level=[60], **question
            )
        assert list(bad.data_vars) == list(good.data_vars)
        for name, variable in bad.items():
            assert variable.dims == good[name].dims
            if variable.dtype.kind == "f":
                assert np.isnan(variable).all()
        assert bad["converged"].values.tolist() == [False]


def test_outliers_leave_room():
    result = gs.simulate(Toy(), dim=50, trials=4)
    assert result["outliers"].sizes["outlier"] == 2
    assert np.isfinite(result["outliers"]).all()
    assert np.isnan(result["outliers_stderr"].sel(outlier=2))


# -- compare ---------------------------------------------------------------------------


def test_comparison_has_both_sources_gaps_and_scores():
    result = gs.compare(Toy(), dim=[50, 100], trials=10, level=[1, 3])
    assert result["mean"].dims == ("source", "dim", "level")
    assert result["source"].values.tolist() == ["limit", "theory", "experiment"]
    assert (result["mean"].sel(source="limit") == [1, 3]).all()
    gap = result["mean"].sel(source="experiment") - result["mean"].sel(source="theory")
    np.testing.assert_array_equal(result["mean_gap"], gap)
    assert (result["mean_stderr"].sel(source="limit") == 0).all()
    assert np.isnan(result["exact"].sel(source="experiment")).all()
    assert "exact_z" not in result and "outliers_z" not in result
    assert result["outliers"].sizes["outlier"] == 2
    assert result.attrs["engine"] == "comparison"
    assert json.loads(result.attrs["settings"])["finite_size"] is True
    one_sided = gs.simulate(Toy(), dim=[50, 100], trials=10, level=[1, 3])
    np.testing.assert_array_equal(
        result["mean"].sel(source="experiment"), one_sided["mean"]
    )


def test_finite_size_can_be_left_out():
    bare = gs.compare(Toy(), dim=50, finite_size=False)
    assert bare["source"].values.tolist() == ["limit", "experiment"]
    assert float(bare["mean"].sel(source="limit")) == 1.0
    assert float(
        gs.compare(Toy(), dim=50)["mean"].sel(source="theory")
    ) == pytest.approx(1.02)


def test_a_sampled_limit_has_its_own_error():
    result = gs.compare(Toy(), what="sampled", dim=50, trials=10)
    assert (result["sampled_stderr"].sel(source=["limit", "theory"]) == 0.1).all()
    assert result["sampled_stderr"].sel(source="experiment") > 0.01


# -- studies ---------------------------------------------------------------------------

TEXT = """
what = "wave"
[scenario]
family = "toy"
level = 2
far = inf
noise = { size = 0.5 }
[grid]
offset = { start = 0.1, stop = 10.0, num = 5, scale = "log" }
noise.size = [0.5, 1]
[settings]
x = { start = 0, stop = 1, num = 3 }
[limit]
tolerance = 1e-8
[experiment]
dim = 40
trials = 3
seed = 7
"""


def test_a_study_is_read_and_run():
    study = Study.from_toml(TEXT)
    assert study.scenario == Toy(level=2, far=gs.inf, noise={"size": 0.5})
    result = study.compare(progress=False)
    assert result["wave"].dims == ("source", "offset", "noise.size", "x")
    np.testing.assert_allclose(result["offset"], np.geomspace(0.1, 10, 5))
    direct = gs.simulate(
        study.scenario,
        dim=40,
        trials=3,
        seed=7,
        what="wave",
        x=[0, 0.5, 1],
        offset=np.geomspace(0.1, 10, 5),
        noise__size=[0.5, 1],
    )
    assert study.simulate().equals(direct)
    assert study.predict().attrs["settings"] == json.dumps(
        {"x": [0.0, 0.5, 1.0], "tolerance": 1e-8}
    )


def test_overrides():
    study = Study.from_toml(TEXT)
    assert study.simulate(trials=2, offset=0.0).attrs["trials"] == 2
    assert study.simulate(offset=0.0)["wave"].dims == ("noise.size", "x")
    assert "mean" in study.predict(what="mean")


def test_studies_round_trip(tmp_path):
    study = Study.from_toml(TEXT)
    study.write(tmp_path / "study.toml")
    again = Study.read(tmp_path / "study.toml")
    assert again.scenario == study.scenario and again.what == study.what
    assert again.to_toml() == study.to_toml()
    assert 'scale = "log"' in study.to_toml() and "far = inf" in study.to_toml()
    assert "# true mean" in study.to_toml(comments=True)
    assert Study.from_toml(study.to_toml(comments=True)).to_toml() == study.to_toml()
    assert again.simulate().equals(study.simulate())


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            ("[limit]", "[limits]"),
            "There is no `limits` in a study (did you mean `limit`?)",
        ),
        (
            ("tolerance", "tolerence"),
            "no `tolerence` in the table [limit] (did you mean `tolerance`?)",
        ),
        (
            ("trials = 3", "trial = 3"),
            "no `trial` in the table [experiment] (did you mean `trials`?)",
        ),
        (
            ("trials = 3", "trials = 0"),
            "Field `trials` must be a whole number at least 1, but is trials=0.",
        ),
        (("seed = 7", "seed = true"), "Field `seed` must be a whole number"),
        (("dim = 40", "dim = nan"), "Field `dim` must be"),
        (
            ("num = 5", "nmu = 5"),
            "There is no `nmu` in the table [offset] (did you mean `num`?)",
        ),
        (("num = 5, ", ""), "The range of `offset` has no `num`"),
        (
            ("start = 0.1", "start = 0"),
            "must be above 0 on a log scale, but is offset.start=0.0.",
        ),
        (
            ("start = 0.1", "start = nan"),
            "Field `offset.start` must be a finite number",
        ),
        (("num = 5", "num = 0"), "Field `offset.num` must be a whole number from 1"),
        (('"log"', '"loq"'), 'Field `offset.scale` must be "linear" or "log"'),
        (
            ("[0.5, 1]", "[0.5, -1]"),
            "must be a number at least 0, but is noise.size=-1.0.",
        ),
        (("noise.size = [", "noise.sise = ["), "did you mean `noise.size`"),
        (
            ("level = 2", "level = nan"),
            "Field `level` must be a number, not NaN, but is level=nan.",
        ),
        (("level = 2", "levle = 2"), "did you mean `level`"),
        (("[scenario]", "[limit.scenario]"), "The text has no table [scenario]"),
        (('what = "wave"', 'what = "save"'), "did you mean `wave`"),
        (
            ('what = "wave"', "what = wave"),
            "is not valid TOML: invalid value (at line 2, column 8).",
        ),
        (("x = {", "y = {"), "There is no `y` in the table [settings]"),
        (("[experiment]", "[experiment"), "The text is not valid TOML"),
        (
            ("[experiment]\n", "experiment = 3\n"),
            "There is no `experiment` in the table [limit]",
        ),
    ],
)
def test_broken_files_get_one_sentence(change, expected):
    message = sentence(Study.from_toml, TEXT.replace(*change))
    assert expected in message
    assert "\n" not in message


def test_files_that_cannot_be_read(tmp_path):
    assert "There is no file" in sentence(Study.read, tmp_path / "none.toml")
    assert "cannot be read: is a directory" in sentence(Study.read, tmp_path)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    assert "UTF-8" in sentence(Study.read, tmp_path / "binary.toml")


def test_what_lives_in_python_only_is_refused_in_files():
    assert "Field `shape` is a Python callable" in sentence(
        Study(Toy(shape=np.tanh)).to_toml
    )
    assert "Field `shape` has a Python callable" in sentence(
        Study(Toy(), grid={"shape": [np.tanh]}).to_toml
    )
    level = xarray.DataArray([1.0, 3.0], dims="curve")
    assert "DataArray" in sentence(Study(Toy(), grid={"level": level}).to_toml)


def test_callables_work_in_python():
    named = gs.predict(Toy(), shape=[np.tanh, "relu"])
    assert named["mean"].shape == (2,)


def test_nothing_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gs.compare(Toy(), dim=[50, 60], level=[1, 3], trials=2)
