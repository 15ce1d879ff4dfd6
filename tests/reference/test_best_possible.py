"""The engine of the best possible errors beside `giantstep.reference.best_possible`."""

import numpy as np
import pytest

import giantstep as gs
from giantstep.reference import best_channels, best_possible

INF = np.inf
CUT = 0.67448975
PIECES = {
    "sign(z)": [(-INF, 0.0, -1), (0.0, INF, 1)],
    f"sign(abs(z)-{CUT})": [(-INF, -CUT, 1), (-CUT, CUT, -1), (CUT, INF, 1)],
    "sign(z + 0.5) + sign(z - 0.8)": [
        (-INF, -0.5, -2),
        (-0.5, 0.8, 0),
        (0.8, INF, 2),
    ],
}


def engine(**fields):
    return gs.predict(gs.BayesLimit(**fields))


@pytest.mark.parametrize(
    ("target", "flip", "alpha"),
    [
        ("sign(z)", 0.0, 2.0),
        ("sign(z)", 0.1, 4.0),
        ("sign(z)", 0.0, 30.0),
        (f"sign(abs(z)-{CUT})", 0.0, 3.0),
        ("sign(z + 0.5) + sign(z - 0.8)", 0.06, 2.5),
    ],
)
def test_labels_of_one_direction(target, flip, alpha):
    pieces = PIECES[target]

    def information(q):
        return best_channels.labels(pieces, q, flip)

    q = best_possible.fixed_points(information, alpha)[0]
    error, mse = best_possible.label_errors(pieces, q, flip)
    found = engine(target=target, flip=flip, samples_per_dim=alpha)
    found = found.sel(branch="uninformed")
    assert found.q.item() == pytest.approx(q, rel=1e-9)
    # The most likely of three labels changes at places that are not panel edges.
    accuracy = 1e-9 if len(pieces) == 2 else 1e-7
    assert found.error.item() == pytest.approx(error, rel=accuracy)
    assert found.mse.item() == pytest.approx(mse, rel=1e-9)
    phi = best_possible.phi(information, alpha, q)
    assert found.phi.item() == pytest.approx(phi, rel=1e-8)


@pytest.mark.parametrize(
    ("target", "plain", "noise", "alpha", "kinks"),
    [
        ("tanh(z)", lambda z: np.tanh(z[0]), 0.1, 1.0, ()),
        ("abs(z)", lambda z: np.abs(z[0]), 0.1, 1.5, (0.0,)),
        ("relu(z)", lambda z: np.maximum(z[0], 0), 0.1, 1.5, (0.0,)),
        ("h2(z)", lambda z: z[0] ** 2 - 1, 0.5, 1.5, ()),
    ],
)
def test_noisy_labels_of_one_direction(target, plain, noise, alpha, kinks):
    """The engine's fixed point is one of (3), with the free entropy and the error."""
    found = engine(target=target, noise=noise, samples_per_dim=alpha)
    found = found.sel(branch="uninformed")
    q = found.q.item()
    information, psi = best_channels.noisy(
        plain, noise, np.array([[q]]), kinks, step=0.05
    )
    moved = best_possible.sweep(information, alpha).item()
    assert moved == pytest.approx(q, rel=1e-8)
    phi = (q + np.log(1 - q)) / 2 + alpha * psi
    assert found.phi.item() == pytest.approx(phi, rel=1e-8)
    mse = best_possible.noisy_error(plain, noise, q, kinks)
    assert found.mse.item() == pytest.approx(mse, rel=1e-8)


@pytest.mark.parametrize("q", [0.05, 0.3, 0.8])
@pytest.mark.parametrize("target", ["abs(z)", "tanh(2*z)"])
def test_a_target_without_noise(target, q):
    def preimages(z):
        if target == "abs(z)":
            return [z, -z], [1.0, 1.0]
        return [z], [1.0]

    def information(q):
        return best_channels.exact(preimages, q), 0.0

    scenario = gs.BayesLimit(target=target, samples_per_dim=1.0)
    found = gs.predict(scenario, what="branches", overlap=[q])
    alpha = best_possible.alpha_of(information, q)
    assert found.alpha.item() == pytest.approx(alpha, rel=5e-8)


@pytest.mark.parametrize(("k", "flip"), [(2, 0.0), (3, 0.0), (3, 0.1)])
def test_parities(k, flip):
    q = 0.5
    target = "sign(" + "*".join(f"z{r + 1}" for r in range(k)) + ")"

    def information(q):
        return best_channels.parity(k, q, flip)

    scenario = gs.BayesLimit(target=target, flip=flip, samples_per_dim=3.0)
    found = gs.predict(scenario, what="branches", overlap=[q])
    alpha = best_possible.alpha_of(information, q)
    assert found.alpha.item() == pytest.approx(alpha, rel=1e-8)
    phi = best_possible.phi(information, 3.0, q, r=k)
    assert found.phi.item() == pytest.approx(phi, rel=1e-7)


def test_two_directions_with_noise():
    """One sweep of (3) leaves the engine's overlap matrix where it is."""
    found = engine(target="z1 + z1*z2", noise=1.0, samples_per_dim=2.0)
    M = found.M.sel(branch="uninformed").values
    information, _ = best_channels.noisy(
        lambda z: z[0] + z[0] * z[1], 1.0, M, step=0.6, count=6
    )
    # The coarse rule of this test has six digits.
    np.testing.assert_allclose(
        best_possible.sweep(information, 2.0), M, rtol=1e-6, atol=1e-7
    )


@pytest.mark.parametrize(
    ("target", "plain", "noise", "r", "kinks"),
    [
        ("abs(z)", lambda z: np.abs(z[0]), 0.1, 1, (0.0,)),
        ("h2(z)", lambda z: z[0] ** 2 - 1, 0.5, 1, ()),
        ("z1*z2", lambda z: z[0] * z[1], 0.25, 2, ()),
    ],
)
def test_weak_recovery(target, plain, noise, r, kinks):
    scenario = gs.BayesLimit(target=target, noise=noise, samples_per_dim=1.0)
    found = gs.predict(scenario, what="thresholds")
    alpha = best_possible.weak_recovery(plain, noise, r, kinks)
    assert found.alpha_weak.item() == pytest.approx(alpha, rel=1e-7)


def test_a_linear_target_in_closed_form():
    """z and noise delta: I = 1/(V + delta), and V (1 + alpha/(V + delta)) = 1."""
    V = 0.4
    delta = 0.25
    information, psi = best_channels.noisy(lambda z: z[0], delta, np.array([[1 - V]]))
    assert information.item() == pytest.approx(1 / (V + delta), rel=1e-12)
    entropy = -(np.log(2 * np.pi * (V + delta)) + 1) / 2
    assert psi == pytest.approx(entropy, rel=1e-12)
    mse = best_possible.noisy_error(lambda z: z[0], delta, 1 - V)
    assert mse == pytest.approx(V + delta, rel=1e-12)


def test_weak_recovery_of_phase_retrieval_without_noise_is_one_half():
    def information(q):
        return best_channels.exact(lambda z: ([z, -z], [1.0, 1.0]), q), 0.0

    assert best_possible.alpha_of(information, 1e-7) == pytest.approx(0.5, rel=1e-5)
