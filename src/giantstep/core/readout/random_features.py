"""Closed forms at an unchanged bulk: random features, one small step, growing steps
with polynomial spikes.

The bulk is that of random features, F0 = c1 X W0^T + c_{>1} Z with population
covariance Omega = c1^2 W0 W0^T + c_{>1}^2. With q = p/n, lambda = ridge q and nu the
effective ridge, every error follows from the nu-regularised population risk V(nu),
step_size_regimes (3f):

    test = (V - nu V')/(1 - gamma), train = (lambda/nu)^2 test, objective = (lambda/nu)
    V

The steps differ in V only: one spike of finite strength after a small step, or the free
regressors kappa^k of the spikes that diverge after a growing one. Coefficients are
c_k = E[sigma He_k]/k!.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from giantstep.core.base.deadline import check_time
from giantstep.core.base.types import Array, Booleans, Floats, Integers
from giantstep.core.maths.gaussian import Function, expectation

HIGHEST_PLATEAU = 50
"""Degree up to which plateaus are computed: the monomials of more are too much alike
for double precision.
"""
BISECTIONS = 200
"""Halvings of the bracket of nu: from 1e-300 on, to the last digit."""
SMALLEST = 1e-300
UNDERFLOW = 1e-290
"""A bracket that is not empty where ridge and rest are 0, and its end above which it is
still divided.
"""
NOTHING_GAINED = 1e-9
"""What a degree adds to the projection of the target, relative to E g^2, that is
rounding.
"""


@dataclass(frozen=True)
class RandomFeatures:
    """Random-features bulk of B points at its effective ridge nu: traces t, tau1 and
    their derivatives in nu.
    """

    ridge: Floats  # lambda = ridge p/n
    load: Floats  # q = p/n
    nu: Floats
    t: Floats
    dt: Floats
    tau: Floats
    dtau: Floats
    slope: Floats  # 1 - gamma

    def errors(self, V: Floats, dV: Floats) -> tuple[Floats, Floats, Floats]:
        """Return (test, train, objective) of the population risk V with derivative
        dV.
        """
        test = (V - self.nu * dV) / self.slope
        with np.errstate(divide="ignore", invalid="ignore"):
            # lambda/nu -> 1 - q as both vanish
            shrink = np.where(self.nu > 0, self.ridge / self.nu, 1 - self.load)
        return test, shrink**2 * test, shrink * V


def linear_and_rest(activation: Function) -> tuple[float, float]:
    """Return c_1 and c_{>1}^2 of the activation."""
    c0, c1 = activation.hermite(1)
    power = activation.second_moment(np.zeros(1), np.ones(1))[0]
    rest = float(power - c0**2 - c1**2)
    # a linear activation has a rest of rounding, of either sign
    return float(c1), max(rest, 0.0)


def slope_variance(activation: Function) -> float:
    """Return Var sigma'(z), what the rank-one part of a gradient leaves out."""
    square, _ = expectation(
        lambda z: activation.derivative(z) ** 2, kinks=activation.kinks
    )
    # E sigma' = c_1
    _, c1 = activation.hermite(1)
    return float(square - c1**2)


def bulk_traces(
    c1: float, rest: float, width: Floats, nu: Array
) -> tuple[Array, Array, Array, Array]:
    """Return t, t', tau1, tau1' at nu, real or complex, `rest` = c_{>1}^2:
    step_size_regimes (3a), (3b), (3c).
    """
    x = nu + rest
    # A t^2 + B t = 1, by the formula without cancellation
    A = c1**2 * width * x
    B = x + c1**2 * (1 - width)
    t = 2 / (B + np.sqrt(B**2 + 4 * A))
    dt = -(c1**2 * width * t**2 + t) / (2 * A * t + B)
    tau = width * (1 - x * t) / c1**2
    dtau = -width * (t + x * dt) / c1**2
    return t, dt, tau, dtau


def solve_random_features(
    activation: Function, samples: Floats, width: Floats, ridge: Floats
) -> RandomFeatures:
    """Solve step_size_regimes (3d) for nu at every point by bisection; all arrays (B,),
    ratios per dimension.
    """
    c1, rest = linear_and_rest(activation)
    q = width / samples
    goal = ridge * q
    top = q * (c1**2 + rest)

    def excess(nu: Floats) -> Floats:
        t, *_ = bulk_traces(c1, rest, width, nu)
        return nu * (1 - q * (1 - nu * t)) - goal

    # lambda(nu) increases above its last zero; the bracket starts there because it is
    # negative below
    low = np.zeros_like(goal)
    high = goal + top + SMALLEST
    for _ in range(BISECTIONS):
        check_time()
        # over many orders of magnitude by the geometric mean, from zero by thousandths
        from_zero = np.where(high > UNDERFLOW, high * 1e-3, 0.0)
        middle = np.where(low > 0, np.sqrt(low * high), from_zero)
        middle = np.where(high < 4 * low, 0.5 * (low + high), middle)
        below = excess(middle) < 0
        low = np.where(below, middle, low)
        high = np.where(below, high, middle)
    # without a ridge nu vanishes where there are more samples than neurons
    nu = np.where((goal == 0) & (q < 1), 0.0, 0.5 * (low + high))
    t, dt, tau, dtau = bulk_traces(c1, rest, width, nu)
    return RandomFeatures(
        ridge=goal,
        load=q,
        nu=nu,
        t=t,
        dt=dt,
        tau=tau,
        dtau=dtau,
        slope=1 - q + q * (2 * nu * t + nu**2 * dt),
    )


def after_step(
    activation: Function,
    target: Floats,
    label_power: Floats,
    bulk: RandomFeatures,
    eta: Floats,
    power: Floats,
    cosine: Floats,
    degrees: Integers,
) -> tuple[Floats, Floats]:
    """Return V and V' of points whose spikes of degree 1..`degrees` diverge (B,); with
    0 the step is small.

    `target` are E[g h_k] of the target, `label_power` is E y^2 (B,), and `power` eta^2
    b^2, b = |beta|, which may be negative where the initial output matters.
    """
    c0, c1 = activation.hermite(1)
    # a constant is learnt for free where c0 is not 0
    free = 0.0
    if abs(c0) > 1e-12:
        free = target[0] ** 2
    linear = (c1 * target[1]) ** 2
    # random features, step_size_regimes (3e), with the spike of a step of size eta =
    # O(1), (5a)
    t = c1**4 * bulk.t
    dt = c1**4 * bulk.dt
    w = 1 - c1**2 * bulk.tau
    dw = -(c1**2) * bulk.dtau
    up = t * w**2
    down = 1 + power * t * w
    dup = dt * w**2 + 2 * t * w * dw
    ddown = power * (dt * w + t * dw)
    weight = target[1] ** 4 * eta**2
    V = label_power - free - linear * bulk.tau - weight * up / down
    dV = -linear * bulk.dtau - weight * (dup / down - up * ddown / down**2)
    # spikes that diverge are fitted free: (7a)
    for degree in np.unique(degrees[degrees > 0]).tolist():
        rows = degrees == degree
        active = active_degrees(activation, degree)
        rest = linear
        if 1 in active:
            # what the free regressors have of the linear part, the bulk need not fit
            rest = linear * (1 - cosine[rows] ** 2)
        fitted = projected_power(target, cosine[rows], active)
        V[rows] = label_power[rows] - fitted - rest * bulk.tau[rows]
        dV[rows] = -rest * bulk.dtau[rows]
    return V, dV


def active_degrees(activation: Function, degree: int) -> list[int]:
    """Return the degrees up to `degree` whose coefficient of the activation does not
    vanish; 0 is the constant.
    """
    coefficients = activation.hermite(max(degree, 1))
    return [k for k in range(degree + 1) if abs(coefficients[k]) > 1e-10]


def projected_power(target: Floats, cosine: Floats, degrees: list[int]) -> Floats:
    """Return |P y|^2, the squared norm of the projection of y on the monomials kappa^k,
    k in `degrees`.
    """
    orders = np.arange(max(degrees, default=0) + 1)
    monomials = np.zeros((len(orders), len(degrees)))
    for column, degree in enumerate(degrees):
        monomials[: degree + 1, column] = _unit_monomial(degree)
    # h_j^y = E[g h_j] cos^j
    values = target[: len(orders)] * cosine[:, None] ** orders
    basis, _ = np.linalg.qr(monomials)
    return np.sum((values @ basis) ** 2, axis=1)


def _unit_monomial(degree: int) -> Floats:
    """Return kappa^degree in the basis h_0, h_1, ..., divided by its length (E kappa^(2
    degree))^(1/2).

    The coefficient of h_j is k!/(2^m m! j!) sqrt(j!), m = (k - j)/2; logarithms hold
    factorials of any size.
    """
    # every second degree: a monomial has the parity of its degree
    orders = np.arange(degree, -1, -2)
    pairs = (degree - orders) / 2
    # E kappa^(2 degree) = (2 degree)!/(2^degree degree!)
    log_power = gammaln(2 * degree + 1) - degree * np.log(2) - gammaln(degree + 1)
    log_length = 0.5 * log_power
    logs = (
        gammaln(degree + 1)
        - pairs * np.log(2)
        - gammaln(pairs + 1)
        - 0.5 * gammaln(orders + 1)
    )
    coefficients = np.zeros(degree + 1)
    coefficients[orders] = np.exp(logs - log_length)
    return coefficients


def last_degree_counts(
    activation: Function, target: Floats, cosine: Floats, degrees: Integers
) -> Booleans:
    """Tell at which points (B,) the last of the degrees 1..`degrees` adds to what is
    fitted of the target.

    It adds nothing where the activation does not have it, nor where the target has
    nothing along it.
    """
    counts = np.zeros(len(degrees), dtype=bool)
    for degree in np.unique(degrees[degrees > 0]).tolist():
        rows = degrees == degree
        active = active_degrees(activation, degree)
        if degree in active:
            before = projected_power(target, cosine[rows], active[:-1])
            gained = projected_power(target, cosine[rows], active) - before
            counts[rows] = gained > NOTHING_GAINED * np.sum(target**2)
    return counts
