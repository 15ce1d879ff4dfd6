"""The engine of subspace clustering beside `giantstep.reference.clustering`."""

import numpy as np
import pytest

import giantstep as gs
from giantstep.reference import clustering

# clusters, sparsity, samples per dimension, ratio to lam_alg, branch
ZOO = [
    (2, 0.05, 2.0, 1.5, "uninformed"),
    (2, 0.05, 2.0, 0.9, "informed"),
    (2, 1.0, 1.0, 2.0, "uninformed"),
    (3, 0.1, 2.0, 1.3, "uninformed"),
    (4, 0.3, 1.0, 1.5, "informed"),
    (5, 0.2, 2.0, 1.5, "uninformed"),
    (10, 1.0, 1.0, 1.1, "informed"),
]
START = {"uninformed": 0.01, "informed": 1.0}


def scenario_of(model, ratio):
    return gs.SubspaceClustering(
        clusters=model.clusters,
        sparsity=model.sparsity,
        snr=ratio * model.lam_alg,
        samples_per_dim=model.samples_per_dim,
        mean="informative" if model.informative else "centred",
    )


@pytest.mark.parametrize(("k", "rho", "alpha", "ratio", "branch"), ZOO)
def test_the_engine_has_the_fixed_point_of_the_page(k, rho, alpha, ratio, branch):
    model = clustering.Model(k, rho, alpha)
    lam = ratio * model.lam_alg
    m = clustering.fixed_point(model, lam, START[branch])
    found = gs.predict(scenario_of(model, ratio)).sel(branch=branch)
    selected, wrongly = clustering.selection(model, lam, m)
    plain = {
        "m_u": m,
        "phi": clustering.phi(model, lam, m),
        "accuracy": clustering.accuracy(model, lam, m),
        "tpr": selected,
        "fpr": wrongly,
    }
    for name, value in plain.items():
        assert found[name].item() == pytest.approx(value, rel=1e-10, abs=1e-11), name


def test_nothing_is_found_below_the_threshold():
    model = clustering.Model(2, 0.05, 2.0)
    assert clustering.fixed_point(model, 0.7 * model.lam_alg, 0.01) < 1e-10
    found = gs.predict(scenario_of(model, 0.7)).sel(branch="uninformed")
    assert found.m_u.item() == 0.0


@pytest.mark.parametrize("k", [2, 3])
def test_an_informative_mean(k):
    model = clustering.Model(k, 0.1, 2.0, informative=True)
    found = gs.predict(scenario_of(model, 0.95)).sel(branch="informed")
    m = clustering.fixed_point(model, 0.95 * model.lam_alg, start=0.4)
    assert found.m_u.item() == pytest.approx(m, rel=1e-9)


@pytest.mark.parametrize(("k", "rho", "alpha"), [(2, 0.1, 2.0)])
def test_the_thresholds_are_those_of_the_curve(k, rho, alpha):
    model = clustering.Model(k, rho, alpha)
    found = gs.predict(scenario_of(model, 1.0), what="thresholds")
    for name, value in clustering.thresholds(model).items():
        assert found[name].item() == pytest.approx(value, rel=1e-10), name


def test_small_overlaps_are_a_series():
    """Section 2: m_u = a/k + (k - 4) a^2/(2 k^2), m_v = rho b - (rho b)^2."""
    for k in (2, 3, 6):
        model = clustering.Model(k, 0.2, 1.0)
        a = 1e-3
        series = a / k + (k - 4) * a**2 / (2 * k**2)
        third = (k**2 - 18 * k + 42) * a**3 / (6 * k**3)
        assert clustering.m_u(model, a) == pytest.approx(series + third, rel=1e-8)
        b = 1e-5
        beta = model.sparsity * b
        assert clustering.m_v(model, b, 1.0) == pytest.approx(beta - beta**2, rel=1e-8)


def test_the_slope_of_the_free_entropy():
    """Section 4: dphi/dlam = alpha (k-1)/(2k) m_u m_v at a fixed point, from I-MMSE."""
    model = clustering.Model(3, 0.2, 2.0)
    lam = 1.4 * model.lam_alg
    step = 1e-3
    values = []
    for at in (lam - step, lam, lam + step):
        m = clustering.fixed_point(model, at, start=1.0)
        values.append((m, clustering.phi(model, at, m)))
    slope = (values[2][1] - values[0][1]) / (2 * step)
    m = values[1][0]
    v = clustering.m_v(model, clustering.feature_ratio(model, lam, m), lam)
    expected = model.samples_per_dim * model.p / (2 * model.clusters) * m * v
    np.testing.assert_allclose(slope, expected, rtol=1e-5)
