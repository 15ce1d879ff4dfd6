"""The maximal step: the largest that keeps the features bounded."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from giantstep.errors import bad_field
from giantstep.families.one_step.second_layer import second_layer_law, warn_of_gaussian
from giantstep.families.one_step.steps.base import Models, Moved, ReadOut, Start, take_points
from giantstep.families.one_step.steps.gradient import GradientStep, slope_variance, spike_directions
from giantstep.family import Answer
from giantstep.scenario import Number, field
from giantstep.types import Floats, Points

if TYPE_CHECKING:
    from giantstep.families.one_step.model import SpikedModel
    from giantstep.families.one_step.scenario import OneStep

FEEDBACK = "feedback"
"""The entry of the points that lengthens the spike by `_feedback`."""
_ISOTROPIC = "against networks it was found off by -9 to +8%, and by up to 13% after a logistic fit"
"""What is known of the isotropic theory."""
_FED_BACK = ("test_error", "train_error", "objective", "test_misclassified", "norm")


class MaximalStep(GradientStep):
    """One gradient step of the largest size that keeps the features bounded: eta_raw = rate * p.

    w_i = w0_i + rate * zeta_q (1/n0) sum_mu (y_mu - f0(x_mu)) sigma'(<w0_i, x_mu>) x_mu, on a batch of n0 =
    batch_per_dim * d samples of its own; ``batch_per_dim=inf`` is the population gradient.

    >>> import giantstep as gs
    >>> s = gs.OneStep(activation="tanh", target="sin(z)", width_per_dim=1.0, samples_per_dim=1.5, ridge=0.1,
    ...                step=MaximalStep(rate=3.0, batch_per_dim=0.5))
    >>> gs.predict(s, step__batch_per_dim=[0.5, gs.inf]).test_error.values.round(4)
    array([0.2895, 0.0223])
    """

    if TYPE_CHECKING:

        def __init__(self, rate: float, batch_per_dim: float = ...) -> None: ...

    kind: Literal["maximal"] = "maximal"
    rate: Number = field("eta", "step size divided by the width: eta_raw = rate * p")
    batch_per_dim: Number = field(
        "alpha0 = n0/d", "samples of the first batch per dimension", default=math.inf, gt=0, infinite=True
    )

    def check_scenario(self, scenario: OneStep) -> None:
        """Refuse rows off the sphere and activations without a derivative."""
        if scenario.rows != "sphere":
            raise bad_field("rows", scenario.rows, '"sphere" for a MaximalStep')
        super().check_scenario(scenario)

    def size(self, points: Points) -> Floats:
        """Return eta = rate sqrt(p)."""
        return points["step.rate"] * np.sqrt(np.maximum(1, np.rint(points["width_per_dim"] * points["dim"])))

    # -- the limit -------------------------------------------------------------------------------------------------

    def choose_theory(self, scenario: OneStep, points: Points, wanted: str | None) -> tuple[Models, list[str]]:
        """Choose the exact theory wherever it covers the network, else the isotropic one, with a warning."""
        reason = _outside_exact_batch(scenario)
        finite = np.isfinite(points["step.batch_per_dim"]) & (points["step.rate"] != 0)
        if wanted == "exact" and finite.any() and reason:
            raise bad_field("theory", wanted, f'"isotropic" where step.batch_per_dim is finite, because {reason}')
        if wanted == "isotropic":
            return super().choose_theory(scenario, points, wanted)
        warnings = []
        if finite.any() and reason:
            warnings.append(
                f"The isotropic approximation answers where step.batch_per_dim is finite, because {reason}; "
                f'{_ISOTROPIC} (theory="isotropic" chooses it in silence, step.batch_per_dim=inf is exact).'
            )
        parts = [("isotropic" if reason else "exact", np.flatnonzero(finite)), ("exact", np.flatnonzero(~finite))]
        return [(theory, index) for theory, index in parts if index.size], warnings

    def approximations(self, points: Points, models: Models) -> dict[str, str]:
        """Name the isotropic theory of a step."""
        stepped = any(theory == "isotropic" and np.any(points["step.rate"][index] != 0) for theory, index in models)
        return {"the features after the step are described by an isotropic bulk": _ISOTROPIC} if stepped else {}

    def warnings(self, scenario: OneStep, points: Points) -> list[str]:
        """Warn of a continuous second layer without a dimension."""
        return warn_of_gaussian(scenario, points)

    def model(self, scenario: OneStep, points: Points, theory: str) -> SpikedModel:
        """Return the features of spiked_features section 6 (finite batch), 5.2 (large batch) or 5.1 (isotropic)."""
        activation = scenario.activation
        finite = bool(np.all(np.isfinite(points["step.batch_per_dim"]) & (points["step.rate"] != 0)))
        linear = activation.polynomial is not None and len(activation.polynomial) <= 2  # an isotropic bulk, exactly
        if theory == "exact" and finite and not linear:
            return _after_batch(scenario, points)
        if theory == "exact" and not finite:
            return _after_large_batch(scenario, points)
        return _isotropic(scenario, points)

    def errors(self, scenario: OneStep, points: Points, models: Models, read_out: ReadOut) -> Answer:
        """Add, to first order, what the fluctuating initial output does to the step at a finite dimension.

        The equations hold for a longer spike only; where the feedback shortens it the change is reflected.
        """
        answer = read_out(points, models)
        length = _feedback(scenario, points)
        exact = [index[length[index] != 0] for theory, index in models if theory == "exact"]
        index = np.concatenate([*exact, np.empty(0, dtype=np.int64)])
        if not index.size:
            return answer
        longer = {**take_points(points, index), FEEDBACK: np.abs(length[index])}
        moved = read_out(longer, [("exact", np.arange(len(index)))])
        sign = np.sign(length[index])
        for name in _FED_BACK:
            base = answer.values[name][index]
            changed = base + sign * (moved.values[name] - base)
            answer.values[name][index] = np.where(changed > 0, changed, base)
        status = answer.status.astype(object)
        status[index] = np.where(status[index] == "", moved.status, status[index])
        answer.status = status.astype(str)
        return answer

    # -- the experiment --------------------------------------------------------------------------------------------

    def move(self, scenario: OneStep, point: Points, start: Start) -> Moved:
        """Follow the gradient on the population, or on a batch; its bulk rows are then without the spike."""
        from giantstep.lab.network import batch_gradient
        from giantstep.lab.population_gradient import population_gradient

        rows, zeta, xp = start.network.weights, start.second_layer, start.draws.xp
        batch = float(point["step.batch_per_dim"][0])
        sizes = float(point["step.rate"][0]) * zeta[:, None]
        if math.isinf(batch):
            kept = 1 - 2 * float(point["flip"][0])
            weights = population_gradient(scenario.activation, scenario.target, rows, zeta, xp, kept)
            weights *= sizes
            weights += rows
            return Moved(weights, rows)
        count = max(1, round(batch * rows.shape[1]))
        weights, spike = batch_gradient(start.network, zeta, count, start.draws)
        weights *= sizes
        weights += rows
        bulk = weights - sizes * (float(scenario.activation.hermite(1)[1]) * spike)
        return Moved(weights, bulk, spike_directions(spike, xp))


def _outside_exact_batch(scenario: OneStep) -> str:
    """Say why the exact theory of a finite batch does not cover this network; empty where it does."""
    from giantstep.readout import PACKED_BLOCKS

    if scenario.second_layer == "gaussian":
        return "the exact one is not verified for a Gaussian second layer"
    if scenario.rows == "gaussian":
        return 'the exact one is not verified for rows="gaussian"'
    if scenario.blocks > PACKED_BLOCKS:
        return f"the exact one is built for at most {PACKED_BLOCKS} blocks"
    return ""


def _coefficients(scenario: OneStep, points: Points) -> tuple[Floats, Floats, Floats, float]:
    """Return c_j = E He_j sigma (j = 0..3), g_j = E He_j y (3, B), e_q = rate zeta_q (B, k), and m, the output f0."""
    normalised = np.sqrt([1.0, 1.0, 2.0, 6.0])
    zeta, pi = second_layer_law(scenario)
    c = scenario.activation.hermite(3) * normalised
    g = np.repeat((scenario.target.hermite(2) * normalised[:3])[:, None], len(points["noise"]), axis=1)
    g[1] *= 1 - 2 * points["flip"]  # turned classes: y is a smaller sign and noise, its g_0 and g_2 are zero
    return c, g, points["step.rate"][:, None] * zeta, c[0] * np.sum(pi * zeta)


def _after_batch(scenario: OneStep, points: Points) -> SpikedModel:
    """Return the features after a finite batch, whose bulk is anisotropic: spiked_features section 6."""
    from giantstep.families.one_step.batch import batch_statistics
    from giantstep.families.one_step.model import SpikedModel

    c, _, e, m = _coefficients(scenario, points)
    noise, ones = points["noise"], np.ones_like(e)
    batch = batch_statistics(scenario.activation, scenario.target, m, e, points["step.batch_per_dim"], noise)
    u, norm = e * c[1] * batch.strength[:, None], np.sqrt(batch.row_norm)
    return SpikedModel(second_layer_law(scenario)[1], u, norm, batch.gamma, noise, ones, 0 * ones, batch)


def _after_large_batch(scenario: OneStep, points: Points) -> SpikedModel:
    """Return the features after a batch n0 >> d: spiked_features section 5.2."""
    from giantstep.families.one_step.model import SpikedModel

    (_, c1, c2, c3), (g0, g1, g2), e, m = _coefficients(scenario, points)
    s = 1 + e * (g0 - m)[:, None] * c2
    extra = points.get(FEEDBACK, np.zeros(len(e)))
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = 1 + e * c2 * g2[:, None] / s  # spiked_features (5.5)
    G = np.sqrt(g1**2 + extra)
    gamma = np.where(extra > 0, np.abs(g1) / np.where(extra > 0, G, 1.0), 1.0)
    u = e * c1 * (np.copysign(1.0, g1) * G)[:, None]
    pi = second_layer_law(scenario)[1]
    return SpikedModel(pi, u, s, gamma, points["noise"], slope, e * g1[:, None] * c3)


def _isotropic(scenario: OneStep, points: Points) -> SpikedModel:
    """Return the published map onto an isotropic bulk: spiked_features section 5.1."""
    from giantstep.families.one_step.model import SpikedModel

    (_, c1, c2, _), (g0, g1, _), e, m = _coefficients(scenario, points)
    power = scenario.target.second_moment(np.zeros(1), np.ones(1))[0] + points["noise"] - 2 * g0 * m + m**2
    fluctuation = power / points["step.batch_per_dim"]  # E(y - m)^2 d/n0
    G = np.sqrt(g1**2 + fluctuation)
    gamma = np.divide(g1, G, out=np.ones_like(G), where=G > 0)
    s = 1 + e * (g0 - m)[:, None] * c2
    spread = e**2 * fluctuation[:, None] * slope_variance(scenario.activation)
    # without spread s keeps its sign: the published map at an infinite batch
    s = np.where(spread > 0, np.sqrt(s**2 + spread), s)
    ones = np.ones_like(e)
    pi = second_layer_law(scenario)[1]
    return SpikedModel(pi, e * c1 * G[:, None], s, gamma, points["noise"], ones, 0 * ones)


def _feedback(scenario: OneStep, points: Points) -> Floats:
    """Return what the initial output f0 adds to |E (y - f0) x|^2 at a finite dimension, of order 1/p (large batch).

    f0 is m + c1 <w, x> with w = sum_j zeta_j w0_j/p, so the spike gets a part along w, which is correlated with
    every row: in law it is an independent part of squared length [c1^2 E zeta^2 - 2/rate]/p (it may be negative). For a
    finite batch the correlation with the anisotropic bulk is not known, and nothing is added.
    """
    zeta, pi = second_layer_law(scenario)
    c1 = scenario.activation.hermite(1)[1]
    rate, width = points["step.rate"], points["width_per_dim"] * points["dim"]
    known = np.isfinite(points["dim"]) & np.isinf(points["step.batch_per_dim"]) & (rate != 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(known, (np.sum(pi * zeta**2) * c1**2 - 2 / rate) / width, 0.0)
