"""The networks of an experiment (`keep_networks`): what is reported can be measured
again from them.
"""

from __future__ import annotations

import numpy as np
import pytest

import giantstep as gs

ASKED = {"dim": 40, "trials": 2, "keep_trials": True, "keep_networks": True}


def one_step(**changes) -> gs.OneStep:
    scenario = gs.OneStep(
        activation="relu",
        target="tanh(z)",
        noise=0.1,
        width_per_dim=1.5,
        samples_per_dim=2.0,
        ridge=0.1,
        second_layer=gs.Vocabulary([1, -1]),
        step=gs.MaximalStep(rate=2.0),
    )
    return scenario.replace(**changes)


def test_the_errors_are_those_of_the_kept_layers():
    """The norm to rounding; the test error on other fresh samples, 40,000 beside the
    10,000 of the report.
    """
    found = gs.simulate(one_step(), samples_per_dim=[1.0, 2.0], **ASKED)
    inputs = np.random.default_rng(1).standard_normal((40_000, 40))
    for place in np.ndindex(2, 2):
        rows, layer, directions = (
            found[name].values[place]
            for name in ("first_layer", "second_layer", "target_directions")
        )
        assert layer @ layer / 60 == pytest.approx(found.norm.values[place], rel=1e-10)
        outputs = np.maximum(inputs @ rows.T, 0.0) @ layer / np.sqrt(60)
        squares = (np.tanh(inputs @ directions[0]) - outputs) ** 2
        error = np.std(squares) * np.sqrt(1 / 40_000 + 1 / 10_000)
        assert abs(np.mean(squares) + 0.1 - found.test_error.values[place]) < 5 * error
    np.testing.assert_array_equal(
        found.layer_of_steps.values[0, 0], np.repeat([1.0, -1.0], 30)
    )


def test_they_are_the_networks_of_the_same_experiment_without_them():
    plain = gs.simulate(one_step(), dim=40, trials=2, keep_trials=True)
    kept = gs.simulate(one_step(), **ASKED)
    for name in plain.data_vars:
        np.testing.assert_array_equal(kept[name], plain[name])


def test_overlaps_after_every_step_are_those_of_the_rows():
    network = gs.FewSteps.example().replace(second_layer=gs.Vocabulary([1.0]))
    kept = gs.simulate(network, what="steps", **ASKED)
    overlaps = np.einsum(
        "stni,sri->stnr", kept.first_layer.values, kept.target_directions.values
    )
    np.testing.assert_allclose(
        overlaps.mean(axis=2), kept.U.values[:, :, 0], atol=1e-12
    )
    assert "second_layer" not in kept  # this question fits none
    assert kept.first_layer.dims == ("trial", "time", "neuron", "input")


@pytest.mark.parametrize("normalisation", ["p", "n"])
@pytest.mark.parametrize("samples", [1.0, 2.0])
def test_the_histogram_is_that_of_the_kept_eigenvalues(
    samples, normalisation, tmp_path
):
    asked = {"what": "spectrum", "normalisation": normalisation, **ASKED}
    found = gs.simulate(one_step(samples_per_dim=samples), **asked)
    gs.save(found, tmp_path / "spectrum.nc")
    eigenvalues = gs.load(tmp_path / "spectrum.nc").eigenvalues
    assert eigenvalues.dims == ("trial", "rank") and eigenvalues.shape == (2, 60)
    for trial in range(2):
        values = eigenvalues.values[trial]
        outliers = found.outliers.values[trial]
        count = int(np.isfinite(outliers).sum())
        np.testing.assert_allclose(values[::-1][:count], outliers[:count], rtol=1e-10)
        bulk = values[: 60 - count]
        np.testing.assert_allclose(
            [np.sum(bulk <= x) / 60 for x in found.x.values], found.cdf.values[trial]
        )
        assert np.mean(values < 1e-9) == pytest.approx(float(found.atom[trial]))


def test_networks_of_several_sizes_are_padded():
    found = gs.simulate(
        one_step(),
        what="spectrum",
        trials=1,
        dim=[20, 40],
        keep_networks=True,
        x=[0.5, 1.0],
    )
    assert found.first_layer.shape == (2, 1, 60, 40)
    assert (
        np.isnan(found.first_layer.values[0, 0, 30:]).all()
        and np.isfinite(found.first_layer.values[1]).all()
    )


def test_what_cannot_be_kept_is_refused():
    with pytest.raises(
        gs.InputError,
        match="`keep_networks` is not for OnlineSGD: its experiment keeps no networks",
    ):
        gs.simulate(gs.OnlineSGD.example(), trials=1, keep_networks=True)
    with pytest.raises(
        gs.InputError, match="GiB of memory for the networks of 1000000 trials"
    ):
        gs.simulate(one_step(), dim=2000, trials=1_000_000, keep_networks=True)
    with pytest.raises(gs.InputError, match="it is a setting of simulate"):
        gs.predict(one_step(), keep_networks=True)
