"""Averages with the residual of a target over the nodes of its rule: what a gradient
asks for.
"""

from __future__ import annotations

import numpy as np

from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian.conditional import ConditionalTarget
from giantstep.core.maths.gaussian.subspaces import Directions


class Residual:
    """E[res f], E[res f zt] and E[res f zt zt^T] for functions f of kappa (M, k, N),
    res = kept y - output(kappa).
    """

    def __init__(
        self, given: ConditionalTarget, basis: Directions, kept: Floats, output: Floats
    ) -> None:
        self.given = given
        self.output = output
        self.kept = kept
        self.turn = np.concatenate([basis.learnt, basis.rest], axis=1)
        self.res = kept[:, None] * given.h - output

    def mean(self, f: Floats) -> Floats:
        """Return E[res f] (M, k)."""
        return (f @ (self.given.weights * self.res)[:, :, None])[:, :, 0]

    def linear(self, f: Floats) -> Floats:
        """Return E[res f zt] (M, k, R)."""
        weighted = self.given.weights * f
        along_learnt = (weighted * self.res[:, None]) @ self.given.nodes
        # the output does not see xi, so that only the label is left beside it
        along_rest = self.kept[:, None, None] * (weighted @ self.given.h1)
        return np.concatenate([along_learnt, along_rest], axis=2) @ self.turn.T

    def quadratic(self, f: Floats, columns: Floats) -> Floats:
        """Return E[res f zt zt^T] columns (M, k, R, C): E[res f] times them beside the
        directions that res sees.
        """
        inside = self.turn.T @ columns
        across = columns - self.turn @ inside
        seen = self.turn @ (self._second_moments(f) @ inside)
        return self.mean(f)[..., None, None] * across + seen

    def _second_moments(self, f: Floats) -> Floats:
        """Return E[res f (kappa, xi) (kappa, xi)^T] (M, k, m + L, m + L)."""
        given = self.given
        weighted = given.weights * f
        m = given.nodes.shape[1]
        L = given.h1.shape[1]
        kappa = given.nodes.T
        kept = self.kept[:, None, None, None]
        matrix = np.empty((*f.shape[:2], m + L, m + L))
        weighted_residual = weighted * self.res[:, None]
        matrix[..., :m, :m] = (weighted_residual[:, :, None, :] * kappa) @ given.nodes
        mixed = kept * ((weighted[:, :, None, :] * kappa) @ given.h1)
        matrix[..., :m, m:] = mixed
        matrix[..., m:, :m] = np.swapaxes(mixed, 2, 3)
        # E[xi xi^T] = I is what the output leaves of its part
        label = weighted @ given.h2.reshape(len(given.h2), -1)
        label = label.reshape(*f.shape[:2], L, L)
        output = (weighted @ self.output[:, :, None])[..., None]
        matrix[..., m:, m:] = kept * label - output * np.eye(L)
        return matrix

    def power(self, noise: Floats) -> Floats:
        """Return E[(y - f)^2 | kappa] (M, N)."""
        cross = 2 * self.kept[:, None] * self.given.h * self.output
        return self.given.square - cross + self.output**2 + noise[:, None]
