"""Averages with the residual of a target, over the rule of its nodes: what a gradient is made of."""

from __future__ import annotations

import numpy as np

from giantstep.gaussian.conditional import ConditionalTarget
from giantstep.gaussian.directions import Directions
from giantstep.types import Floats


class Residual:
    """E[res f], E[res f zt] and E[res f zt zt^T] for functions f of kappa (M, k, N), res = kept y - output(kappa)."""

    def __init__(self, given: ConditionalTarget, basis: Directions, kept: Floats, output: Floats) -> None:
        self.given, self.output, self.kept = given, output, kept
        self.turn = np.concatenate([basis.learnt, basis.rest], axis=1)
        self.res = kept[:, None] * given.h - output

    def mean(self, f: Floats) -> Floats:
        """Return E[res f] (M, k)."""
        return (f @ (self.given.weights * self.res)[:, :, None])[:, :, 0]

    def linear(self, f: Floats) -> Floats:
        """Return E[res f zt] (M, k, R)."""
        weighted = self.given.weights * f
        learnt = (weighted * self.res[:, None]) @ self.given.nodes
        return np.concatenate([learnt, self.kept[:, None, None] * (weighted @ self.given.h1)], axis=2) @ self.turn.T

    def quadratic(self, f: Floats, columns: Floats) -> Floats:
        """Return E[res f zt zt^T] columns (M, k, R, C): E[res f] times them beside the directions that res sees."""
        given, weighted = self.given, self.given.weights * f
        m, L = given.nodes.shape[1], given.h1.shape[1]
        matrix = np.empty((*f.shape[:2], m + L, m + L))
        along = given.nodes.T
        matrix[..., :m, :m] = ((weighted * self.res[:, None])[:, :, None, :] * along) @ given.nodes
        matrix[..., :m, m:] = self.kept[:, None, None, None] * ((weighted[:, :, None, :] * along) @ given.h1)
        matrix[..., m:, :m] = np.swapaxes(matrix[..., :m, m:], 2, 3)
        bent = (weighted @ given.h2.reshape(len(given.h2), -1)).reshape(*f.shape[:2], L, L)
        said = (weighted @ self.output[:, :, None])[..., None]
        matrix[..., m:, m:] = self.kept[:, None, None, None] * bent - said * np.eye(L)
        inside = self.turn.T @ columns
        return self.mean(f)[..., None, None] * (columns - self.turn @ inside) + self.turn @ (matrix @ inside)

    def power(self, noise: Floats) -> Floats:
        """Return E[(y - f)^2 | kappa] (M, N)."""
        cross = 2 * self.kept[:, None] * self.given.h * self.output
        return self.given.square - cross + self.output**2 + noise[:, None]
