"""The finite size of the read-out after some steps: finite_size_steps, level by level.

A ridge fit on isotropic rows after gradients of the population has all its terms. Fits of classes, and finite batches
described as isotropic, have the means of the blocks alone; inputs with a covariance have them and the stretch (6.5).
What is not known to move the means leaves them as those of independent rows, `FiniteSize(1/d)`.
"""

from __future__ import annotations

import numpy as np

from giantstep.families.network.layer import Layer, scale_of
from giantstep.families.network.problem import Problem
from giantstep.readout import FiniteSize, SignBulk
from giantstep.readout.block_means import products_of_means
from giantstep.readout.finite_size import one_stretch, stretch_of_atoms
from giantstep.types import Floats, Integers

_WHOLE = "whole numbers of samples and neurons; "
ALL_TERMS = _WHOLE + (
    "the means of the blocks as the steps leave them, the action of neurons on themselves, stretched inputs and the "
    "number of fitted parameters (finite_size_steps, all terms)"
)
MEANS_ONLY = _WHOLE + "the means of the blocks as the steps leave them (finite_size_steps sections 2 to 4)"
MEANS_AND_STRETCH = _WHOLE + (
    "the means of the blocks as the steps leave them, and stretched inputs (finite_size_steps section 6)"
)
ON_BATCHES = _WHOLE + (
    "the means of the blocks as those of independent rows, with a ridge of 1/(d R), and what the output of the network "
    "adds to them (finite_size_steps sections 2 and 7), as if the batches had no preferred directions"
)
INDEPENDENT = _WHOLE + "the means of the blocks as those of independent rows, with a ridge of 1/(d R)"
STRETCHED = INDEPENDENT + ", and stretched inputs"
LARGE_MEANS = 0.3
"""What steps may add to the squared length of the mean of a block, in units of its rows, for first order in it."""


def finite_size(problem: Problem, layer: Layer, members: Integers, dim: Floats) -> FiniteSize:
    """Return the finite size of points of these dimensions (B,), whose parameter sets are `members` (B,)."""
    inverse_dim, k = 1 / dim, len(problem.zeta)
    if not np.isfinite(dim).any():
        return FiniteSize(inverse_dim)
    if isinstance(layer.batch, SignBulk):
        return FiniteSize(inverse_dim)
    if layer.batch is not None:
        products = products_of_means(layer.feedback, problem.neurons)[:, 0]
        independent = np.eye(k) * (layer.B[..., 0] ** 2 / problem.neurons)[:, None]
        return FiniteSize(inverse_dim, excess=(products - independent)[members])
    if layer.stretched:
        return FiniteSize(inverse_dim, stretch=one_stretch(inverse_dim, k))
    gram = gram_of_means(problem, layer)[members]
    if not problem.isotropic:
        if problem.network.readout.classes:  # the identity of their fit does not know the stretch
            return FiniteSize(inverse_dim, gram)
        scale = (problem.inputs.eigenvalues * layer.B**2).swapaxes(1, 2)[members]
        return FiniteSize(inverse_dim, gram, stretch_of_atoms(inverse_dim, scale, problem.inputs.masses))
    if not layer.all_terms:
        return FiniteSize(inverse_dim, gram)
    directions = np.full(len(dim), float(layer.U.shape[2]))
    return FiniteSize(inverse_dim, gram, one_stretch(inverse_dim, k), directions)


def gram_of_means(problem: Problem, layer: Layer) -> Floats:
    """Return Gamh of (2.4) (M, k, k), or lambda Gam(lambda) at the atoms (6.2) (M, K, k, k)."""
    products = products_of_means(layer.feedback, problem.neurons)
    if not problem.isotropic:
        return problem.inputs.eigenvalues[:, None, None] * products
    s = layer.B[..., 0]
    return products[:, 0] / (s[:, :, None] * s[:, None, :])


def terms_of(problem: Problem, layer: Layer) -> str:
    """Say which terms of a finite size are in."""
    if layer.batch is not None:
        return INDEPENDENT if isinstance(layer.batch, SignBulk) else ON_BATCHES
    if layer.stretched:
        return STRETCHED
    if not problem.isotropic and not problem.network.readout.classes:
        return MEANS_AND_STRETCH
    return ALL_TERMS if layer.all_terms else MEANS_ONLY


def means_warning(problem: Problem, layer: Layer) -> list[str]:
    """Warn where the mean of a block is too long: finite_size_steps section 13; nodes of a law are no blocks."""
    if layer.batch is not None or layer.stretched or problem.network.second_layer == "gaussian":
        return []
    squares = np.einsum("m...qq->m...q", gram_of_means(problem, layer))
    if squares.ndim == 3:
        squares = problem.inputs.average(squares.swapaxes(1, 2)) / scale_of(problem, layer) ** 2
    added = float(np.max(squares - 1 / problem.neurons))
    if not added > LARGE_MEANS:
        return []
    return [
        f"The steps add {added:.2g} to the squared length of the mean of a block, in units of its rows: the correction "
        f"at a finite dim is of first order in it ({LARGE_MEANS:g} at most)."
    ]
