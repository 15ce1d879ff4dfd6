"""Up to how many samples two classes are separable, and how wide the margin is: one
convex minimisation.

For inputs of covariance I (clusters whitened), x_par the coordinates of x along teacher
and means, Z ~ N(0,1):

    1/alpha(kappa) = min_t E[(kappa sqrt(1 + |t|^2) + Z - y t.x_par)_+^2] (mixture_glm
    section 5.3)

At kappa = 0 this is alpha_c, and holds for clusters whose covariances are proportional
to one another, since scaling a sample does not change its side: cluster c then enters
with its own scale.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy
from scipy.special import ndtr

from giantstep.core.base.errors import bad_field
from giantstep.core.base.types import Booleans, Floats, Points
from giantstep.core.maths.gaussian import normal_density
from giantstep.core.readout.losses.channel import quadrature
from giantstep.problems.mixture_glm.mixture import check_gram
from giantstep.problems.mixture_glm.parts import Blocks, Spiked
from giantstep.problems.mixture_glm.problem import MixtureProblem, State
from giantstep.problems.mixture_glm.responses import BlockModel

if TYPE_CHECKING:
    from giantstep.problems.mixture_glm.scenario import MixtureGLM

_KAPPAS = np.concatenate([[0.0], np.geomspace(1e-3, 12.0, 32)])
"""Margins, in units of a whitened input, between which starts are interpolated: from
none to very few samples.
"""


class Geometry(NamedTuple):
    """Whitened clusters: a rule over (cluster, coordinate along the teacher, label) and
    where its nodes lie.
    """

    weights: Floats  # (N,) of the nodes
    # (N, r) the coordinates y (x_par, shift) that t multiplies, the intercept last
    signed: Floats
    # (K, 1 + r') mean of each cluster along the teacher and in the other directions
    means: Floats
    # whether the label is a sign of the teacher field without noise, separable at any
    # number of samples
    certain: bool


def minimal_energy(
    geometry: Geometry, kappa: float, start: Floats | None = None
) -> tuple[float, Floats, float]:
    """Minimise E[(kappa sqrt(1 + |t|^2) + Z - y t.x_par)_+^2], convex in t (teacher,
    means, intercept).

    Return the minimum 1/alpha, the t there, and the fraction that pulls.
    """
    weights = geometry.weights
    D = geometry.signed
    inner = geometry.means.shape[1]  # the intercept has no length
    across = slice(1, inner)

    def standardise(t: Floats) -> tuple[Floats, float, float]:
        """Return mean/deviation of the argument given the node, |(1, t)| and the
        deviation.
        """
        length = math.sqrt(1 + t[:inner] @ t[:inner])
        scale = math.sqrt(1 + t[across] @ t[across])
        return (kappa * length - D @ t) / scale, length, scale

    def energy(t: Floats) -> tuple[float, Floats]:
        a, length, scale = standardise(t)
        P = ndtr(a)
        f = normal_density(a)
        value = weights @ (scale**2 * ((1 + a**2) * P + a * f))
        push = weights * (2 * scale * (a * P + f))
        gradient = -(push @ D)
        gradient[:inner] += push.sum() * kappa * t[:inner] / length
        gradient[across] += 2 * (weights @ P) * t[across]
        return float(value), gradient

    begin = np.zeros(D.shape[1]) if start is None else start
    found = scipy.optimize.minimize(
        energy, begin, jac=True, method="BFGS", options={"gtol": 1e-11, "maxiter": 400}
    )
    return (
        float(found.fun),
        np.asarray(found.x),
        float(weights @ ndtr(standardise(found.x)[0])),
    )


def whiten(problem: MixtureProblem) -> Geometry | None:
    """Return the geometry of one point, or None where the covariances are no multiples
    of one that is not singular.
    """
    mixture = problem.mixture
    K = problem.clusters
    norm = problem.teacher_norm
    data = mixture.data
    scales = mixture.trace
    if np.any(scales <= 0) or not problem.binary:
        return None
    if isinstance(data, BlockModel):
        shapes = data.variances / scales[:, None]
        regular = bool(np.all(shapes > 0))
    else:
        shapes = (data.matrices / scales[:, None, None]).reshape(K, -1)
        regular = bool(np.linalg.eigvalsh(data.matrices[0])[0] > 1e-12 * scales[0])
    if not regular or np.abs(shapes - shapes[0]).max() > 1e-10 * np.abs(shapes).max():
        return None
    with np.errstate(all="ignore"):
        R = data.response(np.zeros(1), np.eye(K)[:1], norm).R[0]
    if not np.isfinite(R).all():
        return None
    root = np.sqrt(np.tile(scales[0] / scales, 2))
    R = R * root[:, None] * root
    explained = np.maximum(np.diagonal(R)[:K], 0.0)
    if explained[0] > 0:
        along = R[0, K:] / math.sqrt(explained[0])
    else:
        along = np.zeros(K)
    rest = np.maximum(mixture.rho(norm)[0] - explained, 0.0)
    return _geometry(problem, along, R[K:, K:], explained, rest, root[:K])


def _geometry(
    problem: MixtureProblem,
    along: Floats,
    gram: Floats,
    explained: Floats,
    rest: Floats,
    shift: Floats,
) -> Geometry:
    """Return the geometry of clusters with means `along` the teacher (K,) and this Gram
    matrix (K, K).

    The teacher field is tau + sqrt(explained) xi + sqrt(rest) N(0,1); `shift` (K,) is
    the factor of the intercept.
    """
    K = problem.clusters
    values, vectors = np.linalg.eigh(gram - np.outer(along, along))
    kept = values > 1e-12 * max(1.0, float(np.abs(gram).max(initial=0.0)))
    means = np.concatenate(
        [along[:, None], vectors[:, kept] * np.sqrt(values[kept])], axis=1
    )
    if problem.labels == "sign":
        rest = rest + float(problem.noise[0])
    ones = np.ones((1, K))
    rows = problem.label_rows(
        0 * ones, ones, np.sqrt(explained)[None], rest[None]
    ).with_mirrored()
    margins = quadrature(rows, problem.label_law, np.zeros((2 * K, 0)))
    c = margins.nodes.row % K
    y = np.where(margins.nodes.row < K, 1.0, -1.0)
    weights = problem.mixture.p[c] * margins.nodes.weights * margins.chance
    signed = (
        y[:, None]
        * (
            np.concatenate([means, shift[:, None]], axis=1)
            if problem.intercept
            else means
        )[c]
    )
    signed[:, 0] += margins.s
    certain = (
        problem.labels == "sign"
        and not problem.flip[0]
        and bool(np.all(rest <= 1e-12 * explained))
    )
    return Geometry(weights[weights > 0], signed[weights > 0], means, certain)


def critical(geometry: Geometry) -> float:
    """Return alpha_c."""
    energy = 0.0 if geometry.certain else minimal_energy(geometry, 0.0)[0]
    return 1 / energy if energy > 1e-9 else math.inf


def closed_threshold(problem: MixtureProblem) -> float | None:
    """Return alpha_c of one point where the covariances are proportional to one
    another, else None.
    """
    geometry = whiten(problem)
    return None if geometry is None else critical(geometry)


class MarginStart:
    """Starts of the max-margin iteration from the minimisation for an isotropic
    stand-in of the mixture.
    """

    def __init__(self, problem: MixtureProblem) -> None:
        mixture = problem.mixture
        K = problem.clusters
        self.problem = problem
        self.trace = float(mixture.p @ mixture.trace)
        gram = (
            mixture.data.response(
                np.array([1e8]), np.zeros((1, K)), problem.teacher_norm
            ).R[0, K:, K:]
            * 1e8
        )
        rho = np.full(K, float(mixture.p @ problem.rho[0]))
        along = mixture.tau / np.sqrt(rho) if rho[0] > 0 else np.zeros(K)
        scale = np.full(K, self.trace**-0.5)
        self.geometry = _geometry(
            problem, along, gram / self.trace, rho, np.zeros(K), scale
        )
        margins: list[tuple[float, Floats, float]] = []
        for kappa in _KAPPAS[::-1]:  # from wide margins, where t is small
            margins.append(
                minimal_energy(
                    self.geometry, kappa, margins[-1][1] if margins else None
                )
            )
        inverse_alpha, t, pulled = zip(*margins[::-1])
        self.inverse_alpha = np.array(inverse_alpha)
        self.columns = np.column_stack([_KAPPAS, pulled, t]).T

    def state(self, alpha: Floats) -> State:
        """Return the start at the sample sizes of a batch, mixture_glm section 4."""
        mixture = self.problem.mixture
        means = self.geometry.means
        kappa, pulled, *t = (
            np.interp(1 / alpha, self.inverse_alpha, column) for column in self.columns
        )
        kappa = np.maximum(kappa, 1e-3)[:, None]
        inner = np.stack(t[: means.shape[1]], axis=1)
        length = np.sqrt(1 + (inner**2).sum(axis=1))[:, None]
        q = mixture.trace / (self.trace * kappa**2)
        root = np.sqrt(q)
        m = root * np.sqrt(self.problem.rho) * inner[:, :1] / length
        h = root * np.sqrt(self.trace / mixture.trace) * (inner @ means.T) / length
        V = mixture.trace * np.maximum(1 - alpha * pulled, 1e-3)[:, None]
        if self.problem.intercept:
            b = t[-1] / (length * kappa)[:, 0] / math.sqrt(self.trace)
        else:
            b = np.zeros(len(alpha))
        return State(V, q, m, h, b)


# -- Which points of a grid have an estimator at all -----------------------------------


def check_existence(scenario: MixtureGLM, points: Points) -> None:
    """Refuse points whose teacher, penalty or sample size admits no estimator; raise
    `bad_field`.
    """
    _check_teacher(scenario, points)
    data = scenario.mixture.data
    if np.any(points["l1"]) and isinstance(data, BlockModel) and data.law == "fixed":
        values = np.linalg.eigvalsh(data.moments_at(points["teacher_norm"]))
        if np.any(values[..., -2] > 1e-9 * np.maximum(values[..., -1], 1.0)):
            allowed = (
                '"gaussian" where teacher and means are not one vector in each block'
                " (moments of rank above 1)"
            )
            raise bad_field("covariances.law", "fixed", allowed)
    _check_unpenalised(scenario, points)


def _check_teacher(scenario: MixtureGLM, points: Points) -> None:
    parts = scenario.covariances
    norms = np.unique(points["teacher_norm"])
    tau = scenario.tau
    gram = scenario.gram
    if parts.has_teacher and np.any(norms != 1):
        raise bad_field(
            "teacher_norm",
            norms[norms != 1][0],
            "left out where the covariances bring the teacher",
        )
    if not scenario.uses_teacher:
        return
    for norm in norms:
        if isinstance(parts, Spiked):
            teacher, mean = parts.along
            both = np.block([[gram, mean[None]], [mean[:, None], np.eye(len(mean))]])
            check_gram(
                "covariances.teacher_alignment", norm, np.append(tau, teacher), both
            )
        elif isinstance(parts, Blocks) and not parts.moments.size:
            for block, overlaps in enumerate(parts.overlaps(norm, tau, gram), 1):
                check_gram(f"covariances.teacher_means (block {block})", *overlaps)
        elif not parts.has_teacher:
            check_gram("teacher_means", norm, tau, gram)
    if np.any(scenario.mixture.rho(norms) <= 0):
        allowed = (
            "such that the teacher field varies in every cluster (unless labels are"
            ' "cluster" or "random")'
        )
        if parts.has_teacher:
            name = "covariances"
            value: Any = parts
        else:
            name = "teacher_norm"
            value = float(norms[0])
        raise bad_field(name, value, allowed)


def _check_unpenalised(scenario: MixtureGLM, points: Points) -> None:
    alpha = points["samples_per_dim"]
    loss = scenario.loss
    free = (points["ridge"] == 0) & (points["l1"] == 0)
    if not free.any():
        return
    mixture = scenario.mixture
    data = scenario.mixture.data
    if isinstance(
        data, BlockModel
    ):  # the fraction of the directions in which the data vary at all
        # many weights sum to 1 - 1e-16
        rank = round(float(data.weights @ ((mixture.p @ data.variances) > 0)), 12)
    else:
        values = np.linalg.eigvalsh(np.tensordot(mixture.p, data.matrices, 1))
        rank = float(np.mean(values > 1e-12 * values[-1]))
    if loss == "interpolate":
        if np.any(alpha >= rank):
            allowed = (
                f'below {rank:g} where loss="interpolate" (above it, loss="square")'
            )
            raise bad_field("samples_per_dim", float(alpha[alpha >= rank][0]), allowed)
    elif loss != "maxmargin" and rank < 1:
        raise bad_field(
            "ridge",
            0.0,
            "above 0 where the covariances summed over clusters are singular",
        )
    elif loss not in ("square", "huber"):
        _check_separable(scenario, points, free)
    elif np.any(alpha[free] <= 1):
        where = '<= 1 (loss="interpolate" is the limit)'
        if np.any(alpha[free] == 1):
            where = "= 1 (the error diverges there)"
        else:
            where = where
        raise bad_field("ridge", 0.0, f"above 0 where samples_per_dim {where}")


def _check_separable(scenario: MixtureGLM, points: Points, free: Booleans) -> None:
    """Refuse a hard margin above the threshold of separability, and no penalty below
    it, where it is known at once.
    """
    problem = MixtureProblem.of(scenario, points).take(np.flatnonzero(free))
    for index in problem.kinds():
        alpha_c = closed_threshold(problem.take(index[:1]))
        alpha = problem.alpha[index]
        if alpha_c is None:
            return
        if scenario.loss == "maxmargin" and alpha.max() >= alpha_c:
            allowed = f"below alpha_c={alpha_c:.7g} (not separable from there on)"
            raise bad_field("samples_per_dim", float(alpha.max()), allowed)
        if scenario.loss in ("logistic", "hinge") and alpha.min() <= alpha_c:
            allowed = (
                f"above 0 where samples_per_dim <= alpha_c={alpha_c:.7g}"
                ' (loss="maxmargin" is the limit)'
            )
            raise bad_field("ridge", 0.0, allowed)
