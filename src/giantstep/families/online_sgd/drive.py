"""What moves a batch of points: the numbers of the update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from giantstep.types import Floats, Integers


@dataclass(frozen=True, eq=False)
class Drive:
    """What moves a batch of B points: the parameters of the update, shape (B,), and the constraint.

    Attributes
    ----------
    pace : g = rate/p.
    dim, batch, inner, noise : d, n_b, the inner rate, the label noise.
    second_layer : a, shape (p,).
    constraint : ``"none"``, ``"projected"`` or ``"spherical"``.
    terms : ``"map"`` keeps all of E[F_j F_l |x|^2], ``"asymptotic"`` its leading term d chi_jl, and ``"published"``
        drops the correction by 1/n_b to the squared drift as well.
    classes : class of each neuron where neurons of a class stay equal; sampled moments are averaged over them.
    """

    pace: Floats
    dim: Floats
    batch: Floats
    inner: Floats
    noise: Floats
    second_layer: Floats
    constraint: str = "none"
    terms: str = "map"
    classes: Integers | None = None

    def take(self, places: Any) -> Drive:
        """Return some of the points."""
        pace, dim, batch, inner, noise = (
            part[places] for part in (self.pace, self.dim, self.batch, self.inner, self.noise)
        )
        return Drive(pace, dim, batch, inner, noise, self.second_layer, self.constraint, self.terms, self.classes)
