"""The engine against finite random matrices that are drawn here, without any network:
resolvents, errors, spectra.
"""

import dataclasses

import numpy as np
import pytest
from problems import ridge_fit

from giantstep.core.readout import (
    Equations,
    Features,
    FiniteSize,
    InputBulk,
    Spectrum,
    bulk_law,
    ridge_errors,
    solve_first_order,
)
from giantstep.core.readout.input_spread import InputSpread

PI, WEIGHTS = np.array([0.6, 0.4]), np.array([0.35, 0.65])
MU0 = np.array([[0.3, -0.2], [0.1, 0.4]])
MU1 = np.array([[1.0, 0.3], [0.5, -0.8]])
MU2 = np.array([[0.2, 0.6], [0.4, 0.1]])
H, H1, NOISE = np.array([1.0, -0.5]), np.array([0.7, 1.2]), 0.1
D = 240
DRAWS = 12


def clusters() -> Features:
    """Return two blocks at two values of kappa; the label also has a linear part along
    one direction x_1.
    """
    return Features(
        pi=PI,
        weights=WEIGHTS[None],
        mu0=MU0[None],
        mu1=MU1[None],
        mu2=MU2[None],
        T0=np.zeros((1, 2, 2)),
        omega=np.ones((1, 2)),
        Jp=np.ones((1, 1, 2)),
        h=H[None],
        h1=H1[None, None],
        hh=(H**2 + H1**2 + NOISE)[None],
    )


class Drawn:
    """Features Phi (n, p), their rows W (p, d) and labels y of one draw of `clusters`,
    on inputs of any lengths.
    """

    def __init__(self, rng, samples, width, mu0=MU0, root=None):
        self.rng = rng
        self.mu0 = mu0
        self.root = np.ones(D) if root is None else root
        p = round(width * D)
        self.block = np.repeat([0, 1], [round(PI[0] * p), p - round(PI[0] * p)])
        W = rng.normal(size=(p, D))
        self.W = W / np.linalg.norm(W, axis=1, keepdims=True)
        self.Phi, self.y = self.sample(round(samples * D))

    def sample(self, count):
        rng = self.rng
        kappa = self.rng.choice(2, count, p=WEIGHTS)
        X = rng.normal(size=(count, D))
        place = np.ix_(np.arange(2), kappa)
        mu0, mu1, mu2 = (values[place][self.block].T for values in (self.mu0, MU1, MU2))
        noise = rng.normal(size=(count, len(self.W)))
        y = H[kappa] + H1[kappa] * X[:, 0] + np.sqrt(NOISE) * rng.normal(size=count)
        return mu0 + mu1 * ((X * self.root) @ self.W.T) + np.sqrt(mu2) * noise, y

    def resolvent(self, ridge):
        return np.linalg.inv(
            self.Phi.T @ self.Phi / len(self.W) + ridge * np.eye(len(self.W))
        )

    def traces(self, ridge):
        """Return V2_q and V1_qq', the traces of the resolvent over blocks, without and
        with the rows.
        """
        inverse = self.resolvent(ridge)
        p = len(self.W)
        inside = [self.block == q for q in range(2)]
        rows = self.root * self.W
        V2 = [np.trace(inverse[np.ix_(q, q)]) / p for q in inside]
        V1 = [
            [np.sum((rows[q] @ rows[r].T) * inverse[np.ix_(q, r)]) / p for r in inside]
            for q in inside
        ]
        return np.array(V2), np.array(V1)

    def errors(self, ridge):
        p, (fresh, labels) = len(self.W), self.sample(4 * D)
        a = self.resolvent(ridge) @ (self.Phi.T @ self.y) / np.sqrt(p)
        train = np.mean((self.y - self.Phi @ a / np.sqrt(p)) ** 2)
        return np.mean((labels - fresh @ a / np.sqrt(p)) ** 2), train, a @ a / p


@pytest.mark.parametrize(
    ("samples", "width", "ridge"), [(2.0, 1.2, 0.1), (3.0, 0.5, 1e-3)]
)
def test_block_traces_of_the_resolvent(samples, width, ridge):
    """One draw knows them to 1/d; it has mu0 = 0, a perturbation of finite rank that no
    trace sees in the limit.
    """
    first = solve_first_order(ridge_fit(clusters(), samples, width, ridge))
    seen = Drawn(np.random.default_rng(0), samples, width, mu0=np.zeros((2, 2))).traces(
        ridge
    )
    np.testing.assert_allclose(first.response.R[0] / width, seen[0], rtol=0.02)
    np.testing.assert_allclose(
        first.response.S[0] / width, seen[1], rtol=0.04, atol=0.01 * np.max(seen[0])
    )


@pytest.mark.parametrize(
    ("samples", "width", "ridge"), [(2.0, 1.2, 0.1), (0.6, 1.5, 0.02), (1.5, 0.5, 0.0)]
)
def test_errors_of_the_fit(samples, width, ridge):
    """Test error, training error and norm within chance and 2% of twelve draws, on both
    sides of n = p.
    """
    rng = np.random.default_rng(1)
    seen = np.array([Drawn(rng, samples, width).errors(ridge) for _ in range(DRAWS)])
    error = seen.std(axis=0, ddof=1) / np.sqrt(DRAWS)
    found = ridge_errors(
        solve_first_order(ridge_fit(clusters(), samples, width, ridge)),
        FiniteSize(np.array([1 / D])),
    )
    expected = np.array([found.test[0], found.train[0], found.norm[0]])
    assert np.all(np.abs(seen.mean(axis=0) - expected) < 3 * error + 0.02 * expected)
    other = dataclasses.replace(clusters(), mu2=2 * MU2[None])  # would be seen
    wrong = ridge_errors(
        solve_first_order(ridge_fit(other, samples, width, ridge)),
        FiniteSize(np.array([1 / D])),
    )
    assert not np.all(
        np.abs(seen.mean(axis=0) - [wrong.test[0], wrong.train[0], wrong.norm[0]])
        < 3 * error
    )


def test_the_law_of_the_eigenvalues():
    """The distribution of a drawn matrix, its largest eigenvalue and the share of
    zeros, p > n.
    """
    samples = 0.8
    width = 1.2
    equations = ridge_fit(clusters(), samples, width, 1.0)
    spectrum = Spectrum(equations)
    drawn = Drawn(np.random.default_rng(2), samples, width, mu0=np.zeros((2, 2)))
    values = np.linalg.eigvalsh(drawn.Phi.T @ drawn.Phi / len(drawn.W))
    law = bulk_law(spectrum)
    x = np.linspace(0.05, 0.95 * law.upper, 15)
    np.testing.assert_allclose(
        law.cdf(x), np.mean(values <= x[:, None], axis=1), atol=0.01
    )
    assert law.upper == pytest.approx(values[-1], rel=0.03)
    assert law.atom == pytest.approx(1 - samples / width, abs=1e-9)
    assert law.mass + law.atom == pytest.approx(1, abs=1e-3)


def test_rows_of_inputs_with_a_covariance():
    """Traces for inputs of two eigenvalues, the rows Sigma^1/2 w_i; `product` is lambda
    at the atoms.
    """
    eigenvalues = np.array([2.5, 0.5])
    masses = np.array([0.25, 0.75])
    samples = 2.0
    width = 1.2
    ridge = 0.1
    plain = ridge_fit(clusters(), samples, width, ridge)
    k = 2
    R = 1
    spread = InputSpread(
        np.zeros((k, R, 1)),
        np.zeros((k, 1)),
        np.ones((k, R)),
        np.zeros(R, int),
        np.eye(R),
        np.zeros((k, R)),
    )
    bulk = InputBulk(eigenvalues[:, None, None] * np.ones((2, k, k)), masses, spread)
    first = solve_first_order(
        Equations(plain.features, plain.ratio, plain.width, plain.a, plain.b, bulk)
    )
    assert first.residual[0] < 1e-12
    root = np.sqrt(np.repeat(eigenvalues, (masses * D).astype(int)))
    V2, V1 = Drawn(
        np.random.default_rng(3), samples, width, np.zeros((2, 2)), root
    ).traces(ridge)
    np.testing.assert_allclose(first.response.R[0] / width, V2, rtol=0.02)
    np.testing.assert_allclose(
        first.response.S[0] / width, V1, rtol=0.05, atol=0.01 * np.max(V2)
    )
    assert not np.allclose(
        solve_first_order(plain).response.S[0] / width,
        V1,
        rtol=0.05,
        atol=0.01 * np.max(V2),
    )
