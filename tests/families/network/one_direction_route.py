"""Slow, independent routes to the limit, written from the theory pages; they share no
code with the read-out.

- `damped`: sections 3 and 4 point by point: adaptive quadrature (scipy), plain
  iteration, fluctuations by a complex step through spiked_features (3.2)-(3.4) instead
  of the linear algebra of spiked_features (4.5).
- `effective_ridges`: the Nu-Q form (step_size_regimes section 9): one effective ridge
  per input projection, and explicit derivatives of the objective.
- `random_features`: the closed form of Mei and Montanari (spiked_features section 11);
  `random_features_bulk`: the same by a scalar root (step_size_regimes section 3);
  `random_features_stieltjes`: the spectrum from a quartic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, optimize, special

Array = NDArray[Any]
Scalar = Callable[[Array], Array]

FUNCTIONS: dict[str, tuple[Scalar, tuple[float, ...]]] = {
    "relu": (lambda z: np.maximum(z, 0), (0.0,)),
    "tanh": (np.tanh, ()),
    "sin": (np.sin, ()),
    "erf": (special.erf, ()),
    "sign": (np.sign, (0.0,)),
    "softplus": (lambda z: np.logaddexp(0, z), ()),
    "linear": (lambda z: 1.0 * z, ()),
    "h2": (lambda z: z**2 - 1, ()),
    "gelu": (lambda z: z * special.ndtr(z), ()),
}
"""Functions by name, with the places of their kinks."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


def normal_moments(name: str, A: float, s: float) -> tuple[float, float, float, float]:
    """Return E f, E z f, E f^2 and E (z^2-1) f of f(A + s z), on Gauss-Legendre panels
    broken at kinks.
    """
    f, kinks = FUNCTIONS[name]
    breaks = [(kink - A) / s for kink in kinks] if s != 0 else []
    edges = np.unique(np.clip([*np.linspace(-10, 10, 25), *breaks], -10, 10))
    half = np.diff(edges)[:, None] / 2
    z = (edges[:-1, None] + half * (1 + _NODES)).ravel()
    w = (half * _WEIGHTS).ravel() * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    values = f(A + s * z)
    return (
        float(w @ values),
        float(w @ (z * values)),
        float(w @ values**2),
        float(w @ ((z**2 - 1) * values)),
    )


@dataclass
class Problem:
    """Spiked random features w_i = s_q w0_i + u_q v, in the letters of spiked_features;
    `dim` as in its section 4.4.
    """

    activation: str
    target: str
    pi: Sequence[float]
    u: Sequence[float]
    s: Sequence[float]
    gamma: float
    alpha: float
    beta: float
    ridge: float
    noise: float = 0.0
    dim: float = np.inf
    _table: dict[float, Array] = field(default_factory=dict, repr=False)

    @property
    def k(self) -> int:
        return len(self.pi)

    @property
    def r(self) -> float:
        return self.alpha / self.beta

    @cached_property
    def breaks(self) -> list[float]:
        """Where the functions of kappa bend: at zero, at the target's kinks, and where
        these are smeared.
        """
        rho = np.sqrt(1 - self.gamma**2)
        places = [
            0.0,
            *(k / self.gamma for k in FUNCTIONS[self.target][1] if self.gamma != 0),
        ]
        widths = [abs(s / u) for s, u in zip(self.s, self.u) if u] + (
            [rho / abs(self.gamma)] if rho and self.gamma else []
        )
        places += [
            place + sign * 3 * width
            for place in tuple(places)
            for width in widths
            for sign in (-1, 1)
        ]
        return sorted(place for place in set(places) if abs(place) < 9.5)

    def functions(self, kappa: float) -> Array:
        """Return mu0, mu1, mu2 of the blocks and h, h1, hh at one kappa, remembered."""
        known = self._table.get(kappa)
        if known is None:
            moments = np.array(
                [
                    normal_moments(self.activation, u * kappa, s)
                    for u, s in zip(self.u, self.s)
                ]
            )
            mu0 = moments[:, 0]
            mu1 = moments[:, 1]
            mu2 = np.maximum(moments[:, 2] - mu0**2 - mu1**2, 0)
            rho = np.sqrt(1 - self.gamma**2)
            h, h1, hh, _ = normal_moments(self.target, self.gamma * kappa, rho)
            known = np.concatenate(
                [mu0, mu1, mu2, [h, h1 if rho else 0.0, hh + self.noise]]
            )
            self._table[kappa] = known
        return known

    def split(self, values: Array) -> tuple[Array, Array, Array, float, float, float]:
        k = self.k
        return values[:k], values[k : 2 * k], values[2 * k : 3 * k], *values[3 * k :]

    def mean(self, f: Callable[[float], Array]) -> Array:
        """Return E f(kappa), adaptively."""

        def weighted(kappa: float) -> Array:
            return np.exp(-(kappa**2) / 2) / np.sqrt(2 * np.pi) * f(kappa)

        return integrate.quad_vec(
            weighted,
            -9.5,
            9.5,
            epsabs=1e-13,
            epsrel=1e-11,
            norm="max",
            points=self.breaks,
        )[0]


@dataclass
class Solution:
    """What a route found; the letters are those of spiked_features."""

    test: float
    train: float
    norm: float
    objective: float
    V1: Array = field(default_factory=lambda: np.empty(0))
    V2: Array = field(default_factory=lambda: np.empty(0))
    theta: Array = field(default_factory=lambda: np.empty(0))
    t: Array = field(default_factory=lambda: np.empty(0))
    psi: Array = field(default_factory=lambda: np.empty(0))
    Q1: Array = field(default_factory=lambda: np.empty(0))
    Q2: Array = field(default_factory=lambda: np.empty(0))


def traces(
    problem: Problem, Vh1: Array, D: Array, R: Array
) -> tuple[Array, Array, Array]:
    """Return (V1, V2, R) of spiked_features (3.2)-(3.4) by plain iteration; real or
    complex.
    """
    widths = np.asarray(problem.pi) * problem.beta
    eye = np.eye(problem.k)
    for _ in range(100_000):
        g = np.linalg.solve(eye + Vh1 * R, Vh1)
        new = widths / (D + np.diag(g))
        change = np.max(np.abs(new.real / R.real - 1))
        if np.iscomplexobj(new):
            moved = np.max(np.abs(new.imag - R.imag)) / max(
                np.max(np.abs(new.imag)), 1e-300
            )
        else:
            moved = 0.0
        R = new
        if change < 1e-15 and moved < 1e-14:
            break
    S = np.linalg.solve(eye + R[:, None] * Vh1, np.diag(R))
    return S / problem.beta, R / problem.beta, R


def damped(
    problem: Problem, tolerance: float = 1e-13, max_steps: int = 4000
) -> Solution:
    """Solve sections 3 and 4 by plain iteration and adaptive quadrature."""
    k = problem.k
    r = problem.r
    ridge = problem.ridge
    beta = problem.beta

    def variance(V1: Array, V2: Array, mu1: Array, mu2: Array) -> float:
        return float(mu1 @ V1 @ mu1 + mu2 @ V2)

    R = np.asarray(problem.pi) * beta / ridge
    V1 = np.diag(R) / beta
    V2 = R / beta
    for _ in range(max_steps):

        def hats(kappa: float) -> Array:
            _, mu1, mu2, *_ = problem.split(problem.functions(kappa))
            return np.concatenate([np.outer(mu1, mu1).ravel(), mu2]) / (
                1 + variance(V1, V2, mu1, mu2)
            )

        found = r * problem.mean(hats)
        Vh1 = found[: k * k].reshape(k, k)
        Vh2 = found[k * k :]
        new1, new2, R = traces(problem, Vh1, ridge + Vh2, R)
        change = max(
            np.max(np.abs(new1 - V1)) / np.max(np.abs(new1)),
            np.max(np.abs(new2 / V2 - 1)),
        )
        V1 = new1
        V2 = new2
        if change < tolerance:
            break
    else:
        raise RuntimeError(f"no convergence, the last change is {change:.1e}")

    def signal(kappa: float) -> Array:
        mu0, mu1, mu2, h, h1, _ = problem.split(problem.functions(kappa))
        B = np.concatenate([mu0, kappa * mu1])
        return np.concatenate([np.outer(B, B).ravel(), B * h, mu1 * h1]) / (
            1 + variance(V1, V2, mu1, mu2)
        )

    found = r * problem.mean(signal)
    gram = found[: 4 * k * k].reshape(2 * k, 2 * k)
    rhs = found[4 * k * k : 4 * k * k + 2 * k]
    psih = found[-k:]
    penalty = np.concatenate([1 / (problem.dim * R), 1 / R])
    both = np.linalg.lstsq(gram + np.diag(penalty), rhs, rcond=1e-14)[0]
    theta = both[:k]
    t = both[k:]
    psi = beta * V1 @ psih

    def bare(kappa: float) -> tuple[float, float, Array, Array]:
        mu0, mu1, mu2, h, h1, hh = problem.split(problem.functions(kappa))
        c = theta @ mu0 + kappa * t @ mu1
        return (
            hh - 2 * c * h + c**2 - 2 * h1 * (psi @ mu1),
            1 + variance(V1, V2, mu1, mu2),
            mu1,
            mu2,
        )

    def residual(
        kappa: float, Q1: Array, Q2: Array
    ) -> tuple[float, float, Array, Array]:
        value, denominator, mu1, mu2 = bare(kappa)
        return value + variance(Q1, Q2, mu1, mu2), denominator, mu1, mu2

    def fluctuations(Q1: Array, Q2: Array) -> tuple[Array, Array]:
        def hats(kappa: float) -> Array:
            value, denominator, mu1, mu2 = residual(kappa, Q1, Q2)
            return (
                np.concatenate([np.outer(mu1, mu1).ravel(), mu2])
                * value
                / denominator**2
            )

        moved = r * problem.mean(hats)
        A = moved[: k * k].reshape(k, k) + beta * np.outer(psih, psih)
        e = moved[k * k :] + beta * (t**2 + theta**2 / problem.dim) / R**2
        step = 1e-20
        d1, d2, _ = traces(
            problem, Vh1 + 1j * step * A, ridge + Vh2 + 1j * step * e, R + 0j
        )
        return -d1.imag / step, -d2.imag / step

    Q1, Q2 = np.zeros((k, k)), np.zeros(k)
    for _ in range(max_steps):
        new1, new2 = fluctuations(Q1, Q2)
        change = np.max(np.abs(new2 - Q2)) / np.max(np.abs(new2))
        Q1 = new1
        Q2 = new2
        if change < tolerance:
            break

    def errors(kappa: float) -> Array:
        value, denominator, _, _ = residual(kappa, Q1, Q2)
        return np.array([value, value / denominator**2])

    test, train = problem.mean(errors)
    norm = float(Q2.sum())
    return Solution(
        test, train, norm, train + ridge / r * norm, V1, V2, theta, t, psi, Q1, Q2
    )


def effective_ridges(
    problem: Problem, tolerance: float = 1e-14, max_steps: int = 100_000
) -> Solution:
    """Solve the Nu-Q form (step_size_regimes section 9 without its chi feature); needs
    a finite `dim`.
    """
    fixed = [
        *np.arange(-9, 10),
        *(sign * 2.0**-j for j in range(1, 6) for sign in (-1, 1)),
        *problem.breaks,
    ]
    edges = np.unique(np.clip(fixed, -9, 9))
    half = np.diff(edges)[:, None] / 2
    kappa = (edges[:-1, None] + half * (1 + _NODES)).ravel()
    P = (half * _WEIGHTS).ravel() * np.exp(-(kappa**2) / 2)
    P /= P.sum()
    k = problem.k
    count = len(kappa)
    table = np.array([problem.functions(x) for x in kappa])
    C0 = table[:, :k].T
    C1 = table[:, k : 2 * k].T
    C2 = table[:, 2 * k : 3 * k].T
    mean, slope, second = table[:, 3 * k :].T
    y2 = second - mean**2 - slope**2
    # N/d, N/n, d/n
    ratio, q, phi = (
        problem.beta,
        problem.beta / problem.alpha,
        1 / problem.alpha,
    )
    N = problem.beta * problem.dim
    w = np.asarray(problem.pi)
    ridge = problem.ridge * q
    eye = np.eye(count)

    Q = np.full(k, 0.5)
    nu = np.full(count, ridge + q * float(w @ (C1**2 + C2) @ P))
    for _ in range(max_steps):
        B = P / nu
        H = ratio * (C1.T * (w * Q)) @ C1
        L = np.linalg.inv(eye + H * B)
        X = L @ H
        Y = B[:, None] * L
        new_Q = 1 / (1 + C2 @ B + np.einsum("zp,pr,zr->z", C1, Y, C1))
        new_nu = ridge + q * (w * Q) @ C2 + phi * np.diag(X)
        change = max(np.max(np.abs(new_Q / Q - 1)), np.max(np.abs(new_nu / nu - 1)))
        Q = new_Q
        nu = new_nu
        if change < tolerance:
            break
    B = P / nu
    H = ratio * (C1.T * (w * Q)) @ C1
    L = np.linalg.inv(eye + H * B)
    X = L @ H
    Y = B[:, None] * L
    K = N * (C0.T * (w * Q)) @ C0 + np.outer(kappa, kappa) * H
    root = np.sqrt(B)
    g = root * np.linalg.solve(eye + root[:, None] * K * root, root * mean)
    psi_value = B @ y2 + mean @ g + slope @ Y @ slope
    E = C2 + (C1 @ L.T) ** 2
    S = ratio * (Q**2)[:, None] * w * (C1 @ Y @ C1.T) ** 2
    dQ = -np.linalg.solve(np.eye(k) - S, (Q**2)[:, None] * E)
    A = -q * (E.T * w) @ dQ + phi * X**2
    by_Q = (
        -ratio * w * (C1 @ (Y @ slope)) ** 2
        - N * w * (C0 @ g) ** 2
        - ratio * w * (C1 @ (kappa * g)) ** 2
    )
    e = y2 + (L @ slope) ** 2 + (g / B) ** 2 + by_Q @ dQ
    error = np.linalg.solve(eye - A * (P / nu**2), e)
    train = float(P @ ((ridge / nu) ** 2 * error))
    objective = float(ridge * psi_value)
    return Solution(
        float(P @ error),
        train,
        (objective - train) / problem.ridge * problem.r,
        objective,
    )


def hermite(name: str, order: int) -> float:
    """Return E He_j f for j = 0, 1, and E f^2 for j = -1."""
    mean, slope, second, _ = normal_moments(name, 0.0, 1.0)
    return {0: mean, 1: slope, -1: second}[order]


def random_features(
    activation: str, target: str, alpha: float, beta: float, ridge: float, noise: float
) -> float:
    """Return the test error of untrained random features by the closed form of Mei and
    Montanari.
    """
    c0, c1, second = (hermite(activation, j) for j in (0, 1, -1))
    g0, g1, power = (hermite(target, j) for j in (0, 1, -1))
    spread = second - c0**2 - c1**2
    zt = c1**2 / spread
    lb = ridge / alpha / spread
    p1 = beta
    p2 = alpha
    last = 1j * np.sqrt(p1 * p2 * lb)
    nu1 = nu2 = 0j
    for xi in last * np.append(np.geomspace(1e3, 1, 200), 1.0):
        for _ in range(20_000):
            common = 1 - zt * nu1 * nu2
            new1 = p1 / (-xi - nu2 - zt * nu2 / common)
            new2 = p2 / (-xi - nu1 - zt * nu1 / common)
            change = abs(new1 - nu1) + abs(new2 - nu2)
            nu1 = (nu1 + new1) / 2
            nu2 = (nu2 + new2) / 2
            if change < 1e-15 * (abs(nu1) + abs(nu2)):
                break
    x = (nu1 * nu2).real
    E0 = (
        -(x**5) * zt**3
        + 3 * x**4 * zt**2
        + (p1 * p2 - p1 - p2 + 1) * x**3 * zt**3
        - 2 * x**3 * zt**2
        - 3 * x**3 * zt
        + (p1 + p2 - 3 * p1 * p2 + 1) * x**2 * zt**2
        + 2 * x**2 * zt
        + x**2
        + 3 * p1 * p2 * x * zt
        - p1 * p2
    )
    E1 = p2 * x**3 * zt**2 - p2 * x**2 * zt + p1 * p2 * x * zt - p1 * p2
    E2 = (
        x**5 * zt**3
        - 3 * x**4 * zt**2
        + (p1 - 1) * x**3 * zt**3
        + 2 * x**3 * zt**2
        + 3 * x**3 * zt
        - (p1 + 1) * x**2 * zt**2
        - 2 * x**2 * zt
        - x**2
    )
    F = power - g1**2 - (g0**2 if abs(c0) > 1e-12 else 0.0)
    return noise + g1**2 * E1 / E0 + (noise + F) * E2 / E0 + F


def _untrained(
    activation: str, beta: float
) -> tuple[float, float, Callable[[float], tuple[float, float]]]:
    c0, c1, second = (hermite(activation, j) for j in (0, 1, -1))
    spread = second - c0**2 - c1**2

    def trace(nu: float) -> tuple[float, float]:
        """Return t(nu) and t'(nu)."""
        x = nu + spread
        a = c1**2 * beta * x
        b = x + c1**2 * (1 - beta)
        t = 2 / (b + np.sqrt(b**2 + 4 * a))
        return t, -(c1**2 * beta * t**2 + t) / (2 * a * t + b)

    return c1, spread, trace


def random_features_bulk(
    activation: str, target: str, alpha: float, beta: float, ridge: float, noise: float
) -> tuple[float, float, float]:
    """Return test and training error and objective of random features from one scalar
    root.
    """
    c1, spread, trace = _untrained(activation, beta)
    g0, g1, power = (hermite(target, j) for j in (0, 1, -1))
    q = beta / alpha
    ridge = ridge * q

    def excess(log_nu: float) -> float:
        nu = np.exp(log_nu)
        return nu * (1 - q * (1 - nu * trace(nu)[0])) / ridge - 1

    top = np.log(ridge + q * (c1**2 + spread))
    nu = float(
        np.exp(
            optimize.brentq(
                excess, np.log(ridge) - 1e-9, top + 1e-9, xtol=1e-15, rtol=1e-15
            )
        )
    )
    t, dt = trace(nu)
    x = nu + spread
    free = g0**2 if abs(hermite(activation, 0)) > 1e-12 else 0.0
    V = power + noise - free - g1**2 * beta * (1 - x * t)
    dV = g1**2 * beta * (t + x * dt)
    test = (V - nu * dV) / (1 - q + q * (2 * nu * t + nu**2 * dt))
    return test, (ridge / nu) ** 2 * test, ridge / nu * V


def random_features_stieltjes(
    activation: str, r: float, beta: float, z: complex
) -> complex:
    """Return m(z) = tr(Phi^T Phi/p - z)^-1/p of untrained features: the root of a
    quartic with Im m > 0.
    """
    c1, spread, _ = _untrained(activation, beta)
    q, zn = 1 / r, z / r  # the quartic is that of Phi^T Phi/n
    nu = np.polynomial.Polynomial([0, 1])
    ell = -zn - (1 - q) * nu
    x = nu + spread
    quartic = (
        c1**2 * beta * x * ell**2
        + q * nu**2 * (x + c1**2 * (1 - beta)) * ell
        - q**2 * nu**4
    )
    best = -np.inf
    chosen = 0j
    for root in quartic.roots():
        t = (-zn - (1 - q) * root) / (q * root**2)
        u = (1 - (root + spread) * t) / (c1**2 * t)
        margin = min(-root.imag, t.imag, -u.imag)
        if margin > best:
            best = margin
            chosen = -root * t / zn
    return chosen / r


def marchenko_pastur(x: Array, r: float, scale: float) -> Array:
    """Return the density of Phi^T Phi/p for independent features of variance `scale`,
    r = n/p.
    """
    low = scale * (1 - np.sqrt(r)) ** 2
    high = scale * (1 + np.sqrt(r)) ** 2
    return np.sqrt(np.maximum((high - x) * (x - low), 0)) / (2 * np.pi * scale * x)
