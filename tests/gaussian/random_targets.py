"""Random targets of one to three directions that are hard to average: peaks, waves,
kinks, circles, jumps, products.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian import Target

Draw = Callable[[np.random.Generator, str], str]


def _number(rng: np.random.Generator, low: float, high: float) -> str:
    return f"{rng.uniform(low, high):.3g}"


def _peak(rng: np.random.Generator, u: str) -> str:
    width = 10 ** rng.uniform(0, 3.3)
    place = _number(rng, -1.5, 1.5)
    if rng.random() < 0.5:
        return f"1/(1 + {width:.3g}*({u} - ({place}))**2)"
    return f"exp(-{width:.3g}*({u} - ({place}))**2)"


def _wave(rng: np.random.Generator, u: str) -> str:
    return f"{rng.choice(['sin', 'cos'])}({_number(rng, 3, 60)}*({u}))"


def _steep(rng: np.random.Generator, u: str) -> str:
    return (
        f"{rng.choice(['tanh', 'erf'])}({10 ** rng.uniform(0.5, 2):.3g}*({u} -"
        f" ({_number(rng, -1, 1)})))"
    )


def _kink(rng: np.random.Generator, u: str) -> str:
    return f"{rng.choice(['abs', 'relu'])}({u} - ({_number(rng, -1, 1)}))"


def _jump(rng: np.random.Generator, u: str) -> str:
    return f"sign({u} - ({_number(rng, -1, 1)}))"


def _gentle(rng: np.random.Generator, u: str) -> str:
    return str(rng.choice([f"tanh({u})", f"sin({u})", f"h2({u})", f"({u})"]))


_ALONG_ONE: tuple[Draw, ...] = (_peak, _wave, _steep, _kink, _jump, _gentle)


def _field(rng: np.random.Generator, k: int) -> str:
    """Return a variable, or a sum of two with simple weights."""
    if k == 1:
        return "z1"
    if rng.random() < 0.5:
        return f"z{rng.integers(1, k + 1)}"
    first, second = rng.permutation(k)[:2] + 1
    return (
        f"z{first} {rng.choice(['+', '-'])} {rng.choice(['', '2*', '0.5*'])}z{second}"
    )


def _curved(rng: np.random.Generator, k: int) -> str:
    """Return what is rough or narrow on no plane."""
    square = " + ".join(f"z{j}**2" for j in range(1, k + 1))
    radius = _number(rng, 0.5, 2.5)
    return str(
        rng.choice(
            [
                f"relu({square} - {radius})",
                f"abs({square} - {radius})",
                f"sign({square} - {radius})",
                f"sin({_number(rng, 1, 12)}*z1*z2)",
                f"exp(-{_number(rng, 1, 30)}*({square}))",
                f"abs(z1*z2 - {radius})",
            ]
        )
    )


def random_expression(number: int) -> tuple[str, int]:
    """Return the text of a hard target, and its number of directions."""
    rng = np.random.default_rng([51, number])
    k = 1 + number % 3
    parts = [
        _ALONG_ONE[rng.integers(len(_ALONG_ONE))](rng, _field(rng, k))
        for _ in range(rng.integers(1, 3))
    ]
    if k > 1 and rng.random() < 0.35:
        parts[0] = _curved(rng, k)
    parts.append(f"z{rng.integers(1, k + 1)}")
    text = f" {rng.choice(['+', '+', '*'])} ".join(f"({part})" for part in parts[:-1])
    return f"{text} + {parts[-1]}", k


def random_target(number: int) -> Target:
    """Return a hard target: every second one as a callable, of which nothing but its
    values is known.
    """
    text, k = random_expression(number)
    known = Target(text, directions=k)
    if number % 2:
        return known
    return Target(lambda z: known(z), directions=k, name=f"callable {text}")


def brute_force(target: Target, seed: int) -> tuple[float, Floats]:
    """Return E g^2 and (E g, E[g z_j]) from one value in each cell of a fine mesh,
    without any rule of the package.
    """
    rng = np.random.default_rng(seed)
    k = target.directions
    cells = {1: 1 << 20, 2: 1500, 3: 150}[k]
    axis = np.linspace(-7.0, 7.0, cells + 1)[:-1]
    width = 14.0 / cells
    others = np.array(list(itertools.product(axis, repeat=k - 1))).reshape(
        cells ** (k - 1), k - 1
    )
    mass = 0.0
    second = 0.0
    first = np.zeros(k + 1)
    rows = max(1, (1 << 20) // cells)
    for start in range(0, len(others), rows):
        some = others[start : start + rows]
        z = np.empty((len(some), cells, k))
        z[..., :-1] = some[:, None]
        z[..., -1] = axis
        z += width * rng.random(z.shape)
        weight = np.exp(-0.5 * np.sum(z * z, axis=-1)).ravel()
        z = z.reshape(-1, k)
        g = np.asarray(target(z), dtype=float)
        mass += weight.sum()
        second += weight @ (g * g)
        first[0] += weight @ g
        first[1:] += (weight * g) @ z
    return second / mass, first / mass
