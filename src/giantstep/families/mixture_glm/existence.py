"""Which points of a grid have an estimator at all: penalties and sample sizes that are refused at the door."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from giantstep.errors import bad_field
from giantstep.families.mixture_glm.models import BlockModel, Mixture, check_gram, describe
from giantstep.families.mixture_glm.parts import Blocks, Dense, Spiked
from giantstep.types import Booleans, Floats

if TYPE_CHECKING:
    from giantstep.families.mixture_glm.scenario import MixtureGLM


def check_existence(scenario: MixtureGLM, points: Mapping[str, Floats]) -> None:
    """Refuse points whose teacher, penalty or sample size admits no estimator; raise `bad_field`."""
    _check_teacher(scenario, points)
    _check_fixed_vectors(scenario, points)
    _check_unpenalised(scenario, points)


def _check_teacher(scenario: MixtureGLM, points: Mapping[str, Floats]) -> None:
    parts, norms = scenario.covariances, np.unique(points["teacher_norm"])
    own_teacher = isinstance(parts, Dense) and (parts.teacher.size or parts.cross.size)
    own_teacher = own_teacher or (isinstance(parts, Blocks) and bool(parts.teacher or parts.moments.size))
    if own_teacher:
        if np.any(norms != 1):
            raise bad_field("teacher_norm", norms[norms != 1][0], "left out where the covariances bring the teacher")
    elif isinstance(parts, Spiked):
        for norm in norms:
            _check_spikes(scenario, parts, norm)
    else:
        for norm in norms if scenario.uses_teacher else []:
            check_gram("teacher_means", norm, scenario.tau, scenario.gram)
            if isinstance(parts, Blocks) and (parts.means.size or parts.teacher_means.size):
                _check_blocks(scenario, parts, norm)
    if scenario.uses_teacher:
        rho = describe(scenario).rho(norms)
        if np.any(rho <= 0):
            raise bad_field(
                "covariances" if own_teacher else "teacher_norm",
                parts if own_teacher else float(norms[0]),
                'such that the teacher field varies in every cluster (unless labels are "cluster" or "random")',
            )


def _check_blocks(scenario: MixtureGLM, parts: Blocks, norm: float) -> None:
    """Refuse overlaps of teacher and means that no vectors have in one of the blocks."""
    for k in range(len(parts.weights)):
        tau = np.asarray(parts.teacher_means)[k] if parts.teacher_means.size else scenario.tau
        gram = np.asarray(parts.means)[k] if parts.means.size else scenario.gram
        check_gram(f"covariances.teacher_means (block {k + 1})", norm, tau, gram)


def _check_fixed_vectors(scenario: MixtureGLM, points: Mapping[str, Floats]) -> None:
    data = describe(scenario).data
    if not np.any(points["l1"]) or not isinstance(data, BlockModel) or data.law != "fixed":
        return
    values = np.linalg.eigvalsh(data.moments_at(points["teacher_norm"]))
    if np.any(values[..., -2] > 1e-9 * np.maximum(values[..., -1], 1.0)):
        allowed = '"gaussian" where teacher and means are not one vector in each block (moments of rank above 1)'
        raise bad_field("covariances.law", "fixed", allowed)


def _check_spikes(scenario: MixtureGLM, parts: Spiked, norm: float) -> None:
    zeros = [0.0] * len(parts.strengths)
    omega, nu = np.array(parts.teacher_alignment or zeros), np.array(parts.mean_alignment or zeros)
    gram = np.block([[scenario.gram, nu[None]], [nu[:, None], np.eye(len(zeros))]])
    check_gram("covariances.teacher_alignment", norm, np.append(scenario.tau, omega), gram)


def _check_unpenalised(scenario: MixtureGLM, points: Mapping[str, Floats]) -> None:
    alpha, loss = points["samples_per_dim"], scenario.loss
    free = (points["ridge"] == 0) & (points["l1"] == 0)
    if not free.any():
        return
    rank = _rank_per_dim(describe(scenario))
    if loss == "interpolate":
        if np.any(alpha >= rank):
            bad = float(alpha[alpha >= rank][0])
            raise bad_field(
                "samples_per_dim", bad, f'below {rank:g} where loss="interpolate" (above it, loss="square")'
            )
        return
    if loss in ("square", "huber"):
        if rank < 1:
            raise bad_field("ridge", 0.0, "above 0 where the covariances summed over clusters are singular")
        few = free & (alpha <= 1)
        if few.any():
            if np.any(alpha[few] == 1):
                raise bad_field("ridge", 0.0, "above 0 where samples_per_dim=1 (the error diverges there)")
            raise bad_field("ridge", 0.0, 'above 0 where samples_per_dim <= 1 (loss="interpolate" is the limit)')
        return
    if loss != "maxmargin" and rank < 1:
        raise bad_field("ridge", 0.0, "above 0 where the covariances summed over clusters are singular")
    _check_separable(scenario, points, free)


def _check_separable(scenario: MixtureGLM, points: Mapping[str, Floats], free: Booleans) -> None:
    from giantstep.families.mixture_glm.separability import closed_threshold

    for place in np.flatnonzero(free):
        critical = closed_threshold(
            scenario, *(float(points[name][place]) for name in ("noise", "flip", "teacher_norm"))
        )
        if critical is None:
            return
        alpha = float(points["samples_per_dim"][place])
        if scenario.loss == "maxmargin" and alpha >= critical:
            raise bad_field("samples_per_dim", alpha, f"below alpha_c={critical:.7g} (not separable from there on)")
        if scenario.loss in ("logistic", "hinge") and alpha <= critical:
            raise bad_field(
                "ridge", 0.0, f'above 0 where samples_per_dim <= alpha_c={critical:.7g} (loss="maxmargin" is the limit)'
            )


def _rank_per_dim(mixture: Mixture) -> float:
    """Fraction of the directions in which the data vary at all."""
    data = mixture.data
    if isinstance(data, BlockModel):
        return round(float(data.weights @ ((mixture.p @ data.variances) > 0)), 12)  # many weights sum to 1 - 1e-16
    values = np.linalg.eigvalsh(np.tensordot(mixture.p, data.matrices, 1))
    return float(np.mean(values > 1e-12 * values[-1]))
