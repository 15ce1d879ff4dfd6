"""The curve of fixed points for a first picture: read off the spline on which the roots of the true one are begun."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from scipy.special import expit

from giantstep.families.bayes_limit.curve import Curve, Turn
from giantstep.solve.spline import Spline
from giantstep.types import Floats

_FINER = 8
"""Steps of the integral of I between two knots of the spline."""


class SurveyedCurve(Curve):
    """A curve known to 1e-3: alpha from rough values, Psi by dPsi/dq = r I/2."""

    def __init__(self, curve: Curve) -> None:
        super().__init__(curve.channel)
        self._true = curve

    def at(self, t: float) -> tuple[float, float]:
        """Return log alpha and Psi at q = expit(t)."""
        knots, psi = self._entropies
        end = min(max(t, float(knots[0])), float(knots[-1]))
        if end == t:
            return float(self._rough(t)), float(np.interp(t, knots, psi))
        if t not in self._values:
            value = float(self._rough_values(np.array([t]))[0])
            ends = np.array([end, t])
            slopes = self._slope(ends, np.array([float(self._rough(end)), value]))
            change = (t - end) * float(np.diff(slopes)[0] / np.diff(np.log(slopes))[0])  # about exponential in t
            self._values[t] = value, float(np.interp(end, knots, psi)) + change
        return self._values[t]

    @property
    def weak(self) -> float:
        """Where q leaves zero."""
        return self._true.weak

    @property
    def _rough(self) -> Spline:
        return self._true._rough

    @cached_property
    def _rough_turns(self) -> Floats:
        return self._rough.turns()

    @property
    def _table(self) -> tuple[Floats, Spline]:
        return self._rough.x, self._rough

    @cached_property
    def _entropies(self) -> tuple[Floats, Floats]:
        """Nodes t and Psi there, from the true value at the first one on."""
        knots = self._rough.x
        t = np.interp(np.arange(_FINER * (len(knots) - 1) + 1) / _FINER, np.arange(len(knots)), knots)
        slope = self._slope(t, self._rough(t))
        steps = 0.5 * (slope[1:] + slope[:-1]) * np.diff(t)
        return t, self._true.at(float(t[0]))[1] + np.concatenate([[0.0], np.cumsum(steps)])

    def _slope(self, t: Floats, log_alpha: Floats) -> Floats:
        """Return dPsi/dt = r I q (1 - q)/2."""
        return np.asarray(0.5 * self.channel.directions * np.exp(-log_alpha) * expit(t) ** 2)

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        """The extrema of alpha(q), in the order of q."""
        places = self._rough_turns
        level = self._rough(np.concatenate([self._rough.x[:1], places]))
        return tuple(
            Turn(float(expit(t)), math.exp(value), bool(value > before))
            for t, value, before in zip(places.tolist(), level[1:].tolist(), level[:-1].tolist())
        )

    def _near(self, wanted: float, t: float, slope: float, spline: Spline) -> tuple[float, float, float]:
        return t, slope, 1.0
