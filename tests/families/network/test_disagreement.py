"""Two networks that differ: the reference values and identities of beyond_the_error
section 2, and real pairs.
"""

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.base.errors import InputError

from .beyond_settings import CLASSES, HALVES, P1, P5, REGRESSION, TABLE_A

pytestmark = pytest.mark.filterwarnings(
    "ignore::giantstep.core.base.errors.GiantstepWarning"
)
T2 = REGRESSION["T2"]


def halved(network):
    """Return the network with half the samples and 3 lambda."""
    half = network.samples_per_dim / 2
    ridge = 3 * network.readout.ridge
    return network.replace({"samples_per_dim": half, "readout.ridge": ridge})


def printed(values):
    """Return half a unit of the last printed of six digits."""
    return 0.6 * 10 ** (np.floor(np.log10(np.abs(values))) - 5)


@pytest.mark.parametrize("name", HALVES)
def test_pairs_with_half_the_samples_are_those_of_table_a(name):
    """Catches an error in (2.3)-(2.5): both the samples and the ridges of the pair
    differ.
    """
    network = REGRESSION[name]
    pairs = [
        gs.disagreement(network, halved(network), shared)
        for shared in ("both", "samples")
    ]
    found = np.array([float(pair.disagreement[0]) for pair in pairs])
    wanted = np.array(HALVES[name])
    assert np.all(np.abs(found - wanted) < printed(wanted))
    assert float(pairs[0].test_error[0, 0]) == pytest.approx(
        TABLE_A[name][-1], abs=6e-7
    )


@pytest.mark.parametrize("network", [P5, T2, REGRESSION["P6"]])
def test_networks_alike_are_those_of_the_question(network):
    """Holds the averages over z against those over kappa of what="variance"; both
    shared is no disagreement.
    """
    alike = gs.predict(network, what="variance", members=[2], progress=False).isel(
        time=-1
    )
    for shared in ("layer", "samples", "nothing"):
        found = gs.disagreement(network, network, shared)
        assert float(found.disagreement[0]) == pytest.approx(
            float(alike.disagreement.sel(shared=shared)), rel=1e-8
        )
        average = alike.ensemble_error.sel(shared=shared, members=2)
        assert float(found.average_error[0]) == pytest.approx(float(average), rel=1e-8)
    assert float(
        gs.disagreement(network, network, "both").disagreement[0]
    ) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("name", ["P1", "P5", "P6"])
def test_the_terms_of_a_finite_dimension_are_those_of_networks_alike(name):
    """Holds (2.12)-(2.14) at z against finite_size_steps (3.7) at kappa: they differ by
    less than they add.
    """
    network = REGRESSION[name]
    dim = 300
    alike = gs.predict(
        network, what="variance", dim=dim, members=[2], progress=False
    ).isel(time=-1)
    for shared in ("layer", "samples", "nothing"):
        limit, theory = gs.disagreement(
            network, network, shared, dim=dim
        ).disagreement.values
        wanted = float(alike.disagreement.sel(shared=shared))
        assert abs(theory - wanted) < 0.2 * abs(wanted - limit), shared
    whole = gs.disagreement(network, network, "both", dim=dim)
    assert float(whole.disagreement.sel(source="theory")) == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(
        whole.test_error.sel(source="theory"), float(alike.test_error), rtol=1e-12
    )


def test_order_does_not_matter():
    """Catches a pair whose first and second network are mixed up: their blocks differ
    in number.
    """
    three = T2.replace(second_layer=gs.Vocabulary([1.0, 0.5, -1.0]), width_per_dim=2.5)
    one = gs.disagreement(T2, three, dim=300)
    other = gs.disagreement(three, T2, dim=300)
    np.testing.assert_allclose(one.disagreement, other.disagreement, rtol=1e-10)
    np.testing.assert_allclose(one.test_error, other.test_error[:, ::-1], rtol=1e-10)


@pytest.mark.parametrize(
    ("first", "second", "settings", "message"),
    [
        (
            T2,
            T2,
            {"shared": "all"},
            "Field `shared` must be one of 'samples', 'layer', 'both', 'nothing'",
        ),
        (
            T2,
            T2.replace(width_per_dim=2.0),
            {"shared": "layer"},
            "Field `width_per_dim` must be 1.5 in both networks",
        ),
        (
            T2,
            T2.replace(activation="tanh"),
            {"shared": "both"},
            "Field `activation` must be .* share the first layer",
        ),
        (
            T2,
            T2.replace(noise=0.2),
            {},
            "Field `noise` must be 0.1 in both networks, as they have one target",
        ),
        (
            CLASSES["L1"],
            CLASSES["L1"],
            {},
            "Field `readout.kind` must be 'ridge' .* not derived",
        ),
        (
            P1,
            P1.replace(steps=[gs.MaximalStep(1.0, batch_per_dim=2.0)]),
            {},
            "a step on a finite batch",
        ),
        (T2, "net", {}, "Field `second` must be a gs.Network"),
        (
            T2,
            T2,
            {"trials": 2},
            "Field `dim` must be a whole number from 2 on where there are trials",
        ),
        (T2, T2, {"dim": 1}, "Field `dim` must be a whole number from 2 on"),
        (T2, T2, {"trials": -1}, "Field `trials` must be a whole number from 0 on"),
    ],
)
def test_what_is_refused(first, second, settings, message):
    with pytest.raises(InputError, match=message):
        gs.disagreement(first, second, **settings)


@pytest.mark.parametrize("shared", ["samples", "layer", "both", "nothing"])
def test_real_pairs_at_d_300(shared):
    """Catches a pair that shares what it should not: the four kinds differ by 20% and
    more.
    """
    if shared in ("samples", "nothing"):
        wider = {"width_per_dim": 2.5, "activation": "tanh"}
    else:
        wider = {}
    other = P5.replace({"samples_per_dim": 1.2, "readout.ridge": 0.4, **wider})
    found = gs.disagreement(
        P5, other, shared, dim=300, trials=16, seed=4, test_samples=4000
    )
    for name in ("disagreement", "average_error", "test_error"):
        theory, real = (
            found[name].sel(source=source) for source in ("theory", "experiment")
        )
        error = found[f"{name}_stderr"].sel(source="experiment")
        assert np.all(np.abs(real - theory) < 0.02 * theory + 3 * error), name
        assert np.all(error < 0.03 * theory), name


@pytest.mark.parametrize("shared", ["layer", "samples", "nothing"])
def test_two_networks_alike_have_one_answer(shared):
    """At a finite dimension `what="variance"` and `gs.disagreement` differed by 3%
    after two steps.
    """
    net = gs.Network(
        target="z1 + z1*z2",
        noise=0.1,
        width_per_dim=1.5,
        samples_per_dim=2.0,
        steps=[gs.MaximalStep(2.0)] * 2,
    )
    alone = (
        gs.predict(net, what="variance", dim=30, members=[2])
        .isel(time=-1)
        .sel(shared=shared)
    )
    pair = gs.disagreement(net, net, shared=shared, dim=30).sel(source="theory")
    np.testing.assert_allclose(pair.disagreement, alone.disagreement, rtol=1e-12)
    np.testing.assert_allclose(
        pair.average_error, alone.ensemble_error.squeeze(), rtol=1e-12
    )
    gs.plot(gs.disagreement(net, net.replace(width_per_dim=3.0), dim=30))
