"""Which points of a grid have an estimator at all: penalties and sample sizes that are refused before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from giantstep.errors import bad_field
from giantstep.families.mixture_glm.mixture import GaussianMixture, check_gram
from giantstep.families.mixture_glm.parts import Blocks, Spiked
from giantstep.families.mixture_glm.responses import BlockModel
from giantstep.types import Booleans, Points

if TYPE_CHECKING:
    from giantstep.families.mixture_glm.scenario import MixtureGLM


def check_existence(scenario: MixtureGLM, points: Points) -> None:
    """Refuse points whose teacher, penalty or sample size admits no estimator; raise `bad_field`."""
    _check_teacher(scenario, points)
    _check_fixed_vectors(scenario, points)
    _check_unpenalised(scenario, points)


def _check_teacher(scenario: MixtureGLM, points: Points) -> None:
    parts, norms = scenario.covariances, np.unique(points["teacher_norm"])
    if parts.has_teacher and np.any(norms != 1):
        raise bad_field("teacher_norm", norms[norms != 1][0], "left out where the covariances bring the teacher")
    for norm in norms if scenario.uses_teacher else []:
        if isinstance(parts, Spiked):
            _check_spikes(scenario, parts, norm)
        elif isinstance(parts, Blocks) and not parts.moments.size:
            for block, overlaps in enumerate(parts.overlaps(norm, scenario.tau, scenario.gram), 1):
                check_gram(f"covariances.teacher_means (block {block})", *overlaps)
        elif not parts.has_teacher:
            check_gram("teacher_means", norm, scenario.tau, scenario.gram)
    if scenario.uses_teacher:
        rho = scenario.mixture.rho(norms)
        if np.any(rho <= 0):
            allowed = 'such that the teacher field varies in every cluster (unless labels are "cluster" or "random")'
            if parts.has_teacher:
                raise bad_field("covariances", parts, allowed)
            raise bad_field("teacher_norm", float(norms[0]), allowed)


def _check_fixed_vectors(scenario: MixtureGLM, points: Points) -> None:
    data = scenario.mixture.data
    if not np.any(points["l1"]) or not isinstance(data, BlockModel) or data.law != "fixed":
        return
    values = np.linalg.eigvalsh(data.moments_at(points["teacher_norm"]))
    if np.any(values[..., -2] > 1e-9 * np.maximum(values[..., -1], 1.0)):
        allowed = '"gaussian" where teacher and means are not one vector in each block (moments of rank above 1)'
        raise bad_field("covariances.law", "fixed", allowed)


def _check_spikes(scenario: MixtureGLM, parts: Spiked, norm: float) -> None:
    along = parts.along_mean
    gram = np.block([[scenario.gram, along[None]], [along[:, None], np.eye(len(along))]])
    check_gram("covariances.teacher_alignment", norm, np.append(scenario.tau, parts.along_teacher), gram)


def _check_unpenalised(scenario: MixtureGLM, points: Points) -> None:
    alpha, loss = points["samples_per_dim"], scenario.loss
    free = (points["ridge"] == 0) & (points["l1"] == 0)
    if not free.any():
        return
    rank = _rank_per_dim(scenario.mixture)
    if loss == "interpolate":
        if np.any(alpha >= rank):
            allowed = f'below {rank:g} where loss="interpolate" (above it, loss="square")'
            raise bad_field("samples_per_dim", float(alpha[alpha >= rank][0]), allowed)
        return
    if loss != "maxmargin" and rank < 1:
        raise bad_field("ridge", 0.0, "above 0 where the covariances summed over clusters are singular")
    if loss not in ("square", "huber"):
        _check_separable(scenario, points, free)
    elif np.any(alpha[free] == 1):
        raise bad_field("ridge", 0.0, "above 0 where samples_per_dim=1 (the error diverges there)")
    elif np.any(alpha[free] < 1):
        raise bad_field("ridge", 0.0, 'above 0 where samples_per_dim <= 1 (loss="interpolate" is the limit)')


def _check_separable(scenario: MixtureGLM, points: Points, free: Booleans) -> None:
    """Refuse a hard margin above the threshold of separability, and no penalty below it, where it is known at once."""
    from giantstep.families.mixture_glm.problem import MixtureProblem
    from giantstep.families.mixture_glm.separability import closed_threshold  # scipy.optimize is slow to load

    problem = MixtureProblem.of(scenario, points).take(np.flatnonzero(free))
    for index in problem.kinds():
        critical, alpha = closed_threshold(problem.take(index[:1])), problem.alpha[index]
        if critical is None:
            return
        if scenario.loss == "maxmargin" and alpha.max() >= critical:
            allowed = f"below alpha_c={critical:.7g} (not separable from there on)"
            raise bad_field("samples_per_dim", float(alpha.max()), allowed)
        if scenario.loss in ("logistic", "hinge") and alpha.min() <= critical:
            allowed = f'above 0 where samples_per_dim <= alpha_c={critical:.7g} (loss="maxmargin" is the limit)'
            raise bad_field("ridge", 0.0, allowed)


def _rank_per_dim(mixture: GaussianMixture) -> float:
    """Fraction of the directions in which the data vary at all."""
    data = mixture.data
    if isinstance(data, BlockModel):
        return round(float(data.weights @ ((mixture.p @ data.variances) > 0)), 12)  # many weights sum to 1 - 1e-16
    values = np.linalg.eigvalsh(np.tensordot(mixture.p, data.matrices, 1))
    return float(np.mean(values > 1e-12 * values[-1]))
