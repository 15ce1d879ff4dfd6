"""Conditionally Gaussian features: functions of kappa at the nodes of a rule."""

from __future__ import annotations

from dataclasses import dataclass

from giantstep.types import Floats, Integers


@dataclass(frozen=True)
class Tables:
    """Functions of kappa at N nodes with normal weights: `weights` (M, N), `mu0`... (M, k, N), `h`... (M, N).

    `channel` (M, C k, N) holds the C channels of every block and `omega` (M, C k) their weights; `stretch` (M, k, N) is
    s_q nu_q, what a feature gains when the input is stretched (0 where that is not counted). After a finite batch `mu1`
    is E sigma' (the notes' mub1), and the channels are kappa mub1 and mub2/2.
    """

    nodes: Floats
    weights: Floats
    mu0: Floats
    mu1: Floats
    mu2: Floats
    channel: Floats
    omega: Floats
    stretch: Floats
    h: Floats
    h1: Floats
    hh: Floats
    gamma: Floats

    def take(self, index: Integers) -> Tables:
        """Return the tables listed in `index`; a single table is kept single, to be broadcast."""
        if len(self.weights) == 1:
            return self
        return Tables(**{name: getattr(self, name)[index] for name in self.__dataclass_fields__})
