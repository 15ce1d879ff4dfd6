"""One direction with Gaussian noise: the channel by matrix products, bayes_multi_index section 5."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from giantstep.families.bayes_limit.line import REACH, Line
from giantstep.gaussian.quadrature import gauss_legendre_panels, normal_density
from giantstep.types import Floats, Indices

_Y_STEP, _Y_BLOCK, _Y_REACH = 0.4, 48, 8.0
_OMEGA_BLOCK = 8.0
"""Width of a block of omega, in units of sqrt(1 - q)."""
_TINY = 1e-290
MOST_NODES, MOST_PANELS = 4_000_000, 200_000
_MOST_RULES, _MOST_KEPT = 6, 1_000_000
"""Rules that are kept, and values of the likelihood that one keeps."""


class Steps(NamedTuple):
    """How fine the rules are.

    Attributes
    ----------
    omega : the step of omega over sqrt(min(q, 1 - q)).
    nodes, stride : nodes of a panel of z, and every how many y count.
    reach, visible : standard deviations of z that count, and those whose images y are integrated over.
    """

    omega: float = 0.12
    nodes: int = 12
    stride: int = 1
    reach: float = REACH
    visible: float = 7.6


ACCURATE, ROUGH = Steps(), Steps(0.5, 6, 2, 5.5, 5.0)


class Block(NamedTuple):
    """Some y: the z whose g is near enough to be seen, in increasing order, and the likelihood (z, y)."""

    near: Indices
    likelihood: Floats


@dataclass(frozen=True)
class Rule:
    """Nodes z with weights dz and g there; the likelihood of y, block by block."""

    z: Floats
    weights: Floats
    blocks: Callable[[], Iterable[Block]]
    dy: float


def y_step(noise: float, jump: float) -> float:
    """Return the step of the trapezoid rule in y.

    Where g jumps by J the odds of its two sides turn over y ~ noise/J: poles at distance pi noise/J from the real line.
    """
    step = _Y_STEP * float(np.sqrt(noise))
    return min(step, max(0.7 * noise / jump, 0.1 * step)) if jump > 0 else step


def even_nodes(low: float, high: float, step: float) -> Floats:
    """Return equally spaced nodes; a range of more steps than memory holds raises MemoryError."""
    if not high - low < MOST_NODES * step:
        raise MemoryError("the outputs of the target spread too far for the steps that its noise asks for")
    return np.arange(low, high, step)


@dataclass(frozen=True)
class Noisy:
    """y = g(z) + sqrt(noise) N(0, 1)."""

    line: Line
    noise: float
    jump: float = 0.0
    """Largest jump of g."""

    directions = 1
    continuous_mass = 0.0
    spacing, farthest = 0.4, 18.0

    @property
    def last(self) -> float:
        """How far in logit q the curve is tabulated at once: q = 1 - noise/12."""
        return float(np.clip(2.5 - np.log(self.noise), 5.5, 14.0))

    @cached_property
    def _steepness(self) -> tuple[Floats, Floats]:
        z = np.linspace(-REACH, REACH, 3401)
        slope = np.abs(self.line.slope(z))
        around = np.maximum(slope, np.maximum(np.roll(slope, 1), np.roll(slope, -1)))
        return z, np.where(np.isfinite(around), around, 0.0)

    def z_rule(self, V: float, steps: Steps = ACCURATE) -> tuple[Floats, Floats]:
        """Return nodes and weights dz: panels of at most min(1, 2.5 sqrt(V), 3 sqrt(noise)/|g'|), broken at kinks."""
        return self._panels(min(1.0, 2.5 * float(np.sqrt(V))), steps)

    def _panels(self, widest: float, steps: Steps) -> tuple[Floats, Floats]:
        z, slope = self._steepness
        width = np.minimum(widest, 3 * np.sqrt(self.noise) / np.maximum(slope, 1e-12))
        grown = np.concatenate([[0.0], np.cumsum(0.5 * (1 / width[1:] + 1 / width[:-1]) * np.diff(z))])
        reach = steps.reach
        stops = np.array([-reach, *(kink for kink in self.line.kinks if abs(kink) < reach), reach])
        at = np.interp(stops, z, grown)
        if not at[-1] - at[0] < MOST_PANELS:
            raise MemoryError("the noise is too small for the slope of the target")
        edges = [
            np.interp(np.linspace(low, high, max(1, int(np.ceil(high - low))) + 1), grown, z)
            for low, high in zip(at, at[1:])
        ]
        for piece, low, high in zip(edges, stops, stops[1:]):
            piece[0], piece[-1] = low, high
        return gauss_legendre_panels(np.unique(np.concatenate(edges)), steps.nodes)

    @cached_property
    def _kept(self) -> dict[tuple[float, Steps], Rule]:
        return {}

    def _rule(self, V: float, steps: Steps) -> Rule:
        """Return the rule for a posterior variance; where the noise alone decides, it is the same for many."""
        alone = float((3 * np.sqrt(self.noise) / np.maximum(self._steepness[1], 1e-12)).max())
        widest = min(1.0, 2.5 * float(np.sqrt(V)), alone)
        if steps is ROUGH:
            widest = float(2.0 ** (np.floor(2 * np.log2(widest)) / 2))
        if (widest, steps) not in self._kept:
            z, weights = self._panels(widest, steps)
            g, nodes = self.line(z), self.y_nodes(steps)
            blocks = list(self._blocks(g, nodes)) if len(z) * _Y_BLOCK < _MOST_KEPT else None
            dy = steps.stride * y_step(self.noise, self.jump)
            if len(self._kept) >= _MOST_RULES:
                self._kept.pop(next(iter(self._kept)))
            lazily = partial(self._blocks, g, nodes) if blocks is None else partial(iter, blocks)
            self._kept[widest, steps] = Rule(z, weights, lazily, dy)
        return self._kept[widest, steps]

    def y_nodes(self, steps: Steps = ACCURATE) -> Floats:
        """Return equally spaced y over what is visible of g and its noise."""
        z = np.concatenate([np.linspace(-steps.visible, steps.visible, 3001), np.asarray(self.line.kinks)])
        seen = self.line(z[np.abs(z) <= steps.visible])
        margin, step = _Y_REACH * np.sqrt(self.noise), y_step(self.noise, self.jump)
        return even_nodes(float(seen.min() - margin), float(seen.max() + margin + step), step)[:: steps.stride]

    def likelihood(self, y: Floats, g: Floats) -> Floats:
        """Return N(y; g, noise) for all pairs."""
        s = np.sqrt(self.noise)
        return normal_density((y[:, None] - g) / s) / s

    def information(self, q: float) -> tuple[float, float]:
        """Return I(q) and Psi(q), bayes_multi_index (2)."""
        return self._integrate(q, ACCURATE)

    def survey(self, q: Floats) -> Floats:
        """Return I at many q from rough rules."""
        return np.array([self._integrate(float(x), ROUGH, with_psi=False)[0] for x in q])

    def _omega_rule(self, q: float, step: float, reach: float) -> tuple[Floats, Floats]:
        """Return omega and weights of N(0, q); omega >= 0 alone where the other half gives the same."""
        count = int(np.ceil(reach * np.sqrt(q) / step))
        omega: Floats = step * np.arange(0.0 if self.line.is_even_or_odd else -count, count + 1)
        weights = step * normal_density(omega / np.sqrt(q)) / np.sqrt(q)
        return omega, np.where(omega > 0, 2.0, 1.0) * weights if self.line.is_even_or_odd else weights

    def _integrate(self, q: float, steps: Steps, with_psi: bool = True) -> tuple[float, float]:
        """Return I and, where asked for, Psi, block by block in omega and y."""
        V, step = 1 - q, steps.omega * float(np.sqrt(min(q, 1 - q)))
        s = np.sqrt(V)
        omega, density = self._omega_rule(q, step, steps.reach)
        rule = self._rule(V, steps)
        z, size = rule.z, max(64, int(_OMEGA_BLOCK * s / step))
        information = psi = 0.0
        for start in range(0, len(omega), size):
            own = omega[start : start + size]
            low, high = np.searchsorted(z, [own[0] - 8.6 * s, own[-1] + 8.6 * s])
            if low == high:
                continue
            away = (z[low:high] - own[:, None]) / s
            K = normal_density(away) * (rule.weights[low:high] / s)
            both = np.concatenate([K, away * K])
            for near, likelihood in rule.blocks():
                first, last = np.searchsorted(near, [low, high])
                if first == last:
                    continue
                seen, L = _columns(near[first:last] - low), likelihood[first:last]
                summed = both[:, seen] @ L
                Z, slope = np.maximum(summed[: len(own)], _TINY), summed[len(own) :]
                shares = rule.dy * density[start : start + size]
                information += float(shares @ np.einsum("oy,oy,oy->o", slope, slope, 1 / Z)) / V
                psi += float(shares @ np.einsum("oy,oy->o", Z, np.log(Z))) if with_psi else 0.0
        return information, psi

    def _blocks(self, g: Floats, nodes: Floats) -> Iterator[Block]:
        """Yield the likelihood block by block in y."""
        margin = 8.6 * np.sqrt(self.noise)
        first, last = np.searchsorted(nodes, [g.min() - margin, g.max() + margin])
        for start in range(first, last, _Y_BLOCK):
            y = nodes[start : min(start + _Y_BLOCK, last)]
            near: Indices = np.flatnonzero((g > y[0] - margin) & (g < y[-1] + margin))
            if len(near):
                yield Block(near, self.likelihood(y, g[near]).T)

    def onset(self) -> tuple[float, float]:
        """Return E m1^2 and rho, bayes_multi_index (12)."""
        rule = self._rule(1.0, ACCURATE)
        z, density = rule.z, rule.weights * normal_density(rule.z)
        m1 = rho = 0.0
        for near, L in rule.blocks():
            P = np.maximum(density[near] @ L, _TINY)
            m1 += rule.dy * float((((density * z)[near] @ L) ** 2 / P).sum())
            rho += rule.dy * float((((density * (z**2 - 1))[near] @ L) ** 2 / P).sum())
        return m1, rho

    def errors(self, q: float) -> tuple[float, float]:
        """Return the best square error; there are no labels."""
        return self.noise + max(0.0, self.line.second_moment - self.line.mean_square(q)), np.nan


def _columns(index: Indices) -> Indices | slice:
    """Return neighbouring columns as a slice, which needs no copy."""
    together = index[-1] - index[0] == len(index) - 1
    return slice(int(index[0]), int(index[-1]) + 1) if together else index
