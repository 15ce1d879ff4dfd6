"""Comparisons on tables: the Gaussian twin runs beside them and splits the gap in
finite size and data.
"""

import json

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.result.twins import DATA, SIZE, GapSplit

RNG = np.random.default_rng(0)
HEAVY = (
    RNG.standard_normal((900, 20))
    * np.exp(0.8 * RNG.standard_normal(900))[:, None]
    * np.linspace(1.5, 0.5, 20)
)
GAUSSIAN = RNG.standard_normal((900, 20)) * np.linspace(1.5, 0.5, 20)
LABELS = np.where(HEAVY[:, 0] + RNG.standard_normal(900) > 0, 1, -1)

# of few ranks and of approximations
pytestmark = pytest.mark.filterwarnings("ignore::giantstep.GiantstepWarning")


def network(inputs, **more):
    step = gs.MaximalStep(1.0, batch_per_dim=3.0)
    fields = {
        "width_per_dim": 1.5,
        "samples_per_dim": 4.0,
        "ridge": 0.1,
        "noise": 0.1,
        "step": step,
        **more,
    }
    return gs.OneStep(activation="relu", target="tanh(z)", inputs=inputs, **fields)


@pytest.fixture(scope="module")
def heavy():
    return gs.compare(network(HEAVY), trials=30, samples_per_dim=[2.0, 6.0])


def split_of(report, name):
    return next(row for row in report.rows if row.variable == name).split


def test_the_twin_is_the_experiment_on_gaussian_inputs(heavy):
    scenario = network(HEAVY)
    twin = gs.simulate(
        scenario.replace(inputs=scenario.inputs.covariance()),
        trials=30,
        samples_per_dim=[2.0, 6.0],
    )
    np.testing.assert_array_equal(heavy.test_error_twin, twin.test_error)
    np.testing.assert_array_equal(heavy.test_error_twin_stderr, twin.test_error_stderr)
    alone = gs.compare(scenario, trials=30, samples_per_dim=[2.0, 6.0], twin=False)
    # nothing else changes
    np.testing.assert_array_equal(heavy.test_error, alone.test_error)
    np.testing.assert_array_equal(heavy.test_error_z, alone.test_error_z)


def test_the_parts_add_up_to_the_gap(heavy):
    report = gs.agreement(heavy)
    for row in report.judged:
        gap = row.split.to_twin + row.split.to_data
        assert abs(gap) == pytest.approx(
            row.failed_gap or row.largest_relative_gap, rel=1e-9
        )
        scale = (row.split.data - row.split.theory) / gap
        assert row.split.to_twin * scale == pytest.approx(
            row.split.twin - row.split.theory
        )
        assert row.split.to_data_stderr * abs(scale) == pytest.approx(
            np.hypot(row.split.twin_stderr, row.split.data_stderr)
        )


def test_heavy_tails_are_called_the_larger_part(heavy):
    """Rows with the lengths of a log-normal law: most of the gap is that they are not
    Gaussian.
    """
    report = gs.agreement(heavy, "test_error")
    split = split_of(report, "test_error")
    assert split.larger == DATA and abs(split.to_data) > 3 * split.to_data_stderr
    said = str(report)
    assert (
        "The larger part: the data are not Gaussian" in said
        and "twice the dimension" not in said
    )
    assert "Gaussian twin" in said and "theory to twin" in said
    data = json.loads(json.dumps(report.to_dict()))
    assert data["variables"][0]["split"]["larger"] == DATA


def test_rows_that_are_gaussian_leave_nothing_to_the_data():
    both = gs.compare(network(GAUSSIAN), trials=30)
    split = split_of(gs.agreement(both), "test_error")
    assert abs(split.to_data) < 3.3 * split.to_data_stderr  # once in 1,000 by chance
    assert split.larger != DATA or not split.sure


def test_a_table_of_classes_has_the_twin_of_its_two_gaussians():
    scenario = gs.MixtureGLM.from_data(HEAVY, LABELS, loss="logistic", ridge=0.1)
    both = gs.compare(scenario, trials=20, samples_per_dim=[2.0, 8.0])
    twin = gs.simulate(
        scenario.replace(data=None), trials=20, samples_per_dim=[2.0, 8.0]
    )
    np.testing.assert_array_equal(both.train_loss_twin, twin.train_loss)
    said = str(gs.agreement(both))
    assert "theory to twin" in said and "twice the dimension" not in said


def test_a_theory_that_reads_the_rows_has_no_twin():
    scenario = gs.MixtureGLM.from_data(HEAVY, HEAVY[:, 0] ** 3, ridge=0.1)
    both = gs.compare(scenario, trials=4, samples_per_dim=3.0)
    assert both.attrs["theory"] == "gcv" and "test_mse_twin" not in both
    assert both.attrs["without_twin"].endswith(
        'with theory="exact" the Gaussian twin splits the gap.'
    )
    exact = gs.compare(scenario, theory="exact", trials=4, samples_per_dim=3.0)
    assert "test_mse_twin" in exact and "without_twin" not in exact.attrs
    several = gs.compare(
        scenario, theory=["gcv", "exact"], trials=4, samples_per_dim=3.0
    )
    np.testing.assert_array_equal(
        several.test_mse_twin.sel(theory="exact"), exact.test_mse_twin
    )


def test_without_a_twin_the_report_says_how_to_have_one():
    both = gs.compare(network(HEAVY), trials=30, twin=False)
    said = str(gs.agreement(both, "test_error"))
    assert "test_error_twin" not in both
    assert both.attrs["without_twin"].startswith("gs.compare(..., twin=True)")
    assert "twice the dimension" not in said
    stored = gs.simulate(network(HEAVY), trials=30)
    assert "test_error_twin" not in gs.compare(network(HEAVY), stored=stored)
    asked = gs.compare(network(HEAVY), stored=stored, twin=True)
    np.testing.assert_array_equal(asked.test_error, both.test_error)
    assert "test_error_twin" in asked


def test_what_is_no_table_has_no_twin():
    both = gs.compare(
        network(gs.InputBlocks([2.0, 0.5], [0.3, 0.7], [0.5, 0.5])), dim=60, trials=2
    )
    assert not any("twin" in str(name) for name in [*both.data_vars, *both.attrs])
    fixed = gs.compare(network(gs.InputRows(GAUSSIAN).covariance()), trials=2)
    assert fixed.attrs["fixed_dim"] == 1 and "without_twin" not in fixed.attrs


def test_scenarios_by_name_have_the_twins_of_those_that_are_tables():
    rows = network(GAUSSIAN)
    both = gs.compare(
        {"rows": rows, "covariance": rows.replace(inputs=rows.inputs.covariance())},
        trials=3,
    )
    assert bool(both.test_error_twin.sel(scenario="rows").notnull().all())
    assert bool(both.test_error_twin.sel(scenario="covariance").isnull().all())


def test_listings_files_and_figures_read_a_comparison_with_a_twin(heavy, tmp_path):
    assert "twin" in heavy.listed()
    assert "test_error_twin" in heavy[["test_error"]]
    gs.save(heavy, tmp_path / "heavy.nc")
    assert str(gs.agreement(gs.load(tmp_path / "heavy.nc"))) == str(gs.agreement(heavy))
    classes = gs.MixtureGLM.from_data(HEAVY, LABELS, loss="logistic", ridge=0.1)
    gs.plot(gs.compare(classes, trials=2, samples_per_dim=[2.0, 8.0]))


NUMBERS = {"theory": 1.0, "theory_stderr": 0.0, "scale": 1.0, "approximate": False}


@pytest.mark.parametrize(
    ("twin", "data", "error", "larger", "sure"),
    [
        (0.9, 0.88, 0.002, SIZE, True),
        (0.99, 0.85, 0.002, DATA, True),
        (0.95, 0.90, 0.005, SIZE, False),  # equal parts
        (1.1, 0.9, 0.004, DATA, True),  # opposite signs: the larger one wins
        (1.01, 1.00, 0.02, "", False),
    ],
)
def test_which_part_is_larger(twin, data, error, larger, sure):
    split = GapSplit.of(
        twin=twin, twin_stderr=error, data=data, data_stderr=error, trials=50, **NUMBERS
    )
    assert (split.larger, split.sure) == (larger, sure)
    assert ("for sure" in split.sentence()) == bool(larger and not sure)


def test_universality_of_a_table_says_what_to_ask():
    classes = gs.MixtureGLM.from_data(HEAVY, LABELS, loss="logistic", ridge=0.1)
    numbers = gs.MixtureGLM.from_data(HEAVY, HEAVY[:, 0], ridge=0.1)
    for ask in (
        lambda: gs.predict(classes, what="universality"),
        lambda: gs.compare(numbers, what="universality"),
    ):
        with pytest.raises(
            gs.InputError,
            match=(
                "on a table ask gs.compare for its errors, which runs the Gaussian twin"
            ),
        ):
            ask()
