"""One neuron in one giant step on a finite batch: how the norm of its row spreads.

Page: "Several giant steps, each on a finite fresh batch" (finite_batches_several_steps),
(1.1), (1.2) and section 3. The files `finite_batches` and `finite_batch_readout` use it.

Problem. The row of a neuron is the mean of its block and a rest b with |b|^2 = c + O(1/sqrt d).
After a step, how does |b|^2 differ between the neurons of a block, and what of that is
known from b before the step and from the batch?

Order of the argument.

1. `slopes`: sigma'(A + s z) for a neuron whose mean says A, split in the part that is
   constant, the part that is linear in z ~ N(0, 1), and what is left, sp.
2. `norms`: the sums over a batch that these make of |b|^2, (3.1) to (3.5).

An example: relu with A = 0 and s = 1 has D_1 = 1/2 and E sp^2 = 1/4 - 1/(2 pi).

>>> at = slopes(
...     lambda z: np.maximum(z, 0), lambda z: 1.0 * (z > 0), [0.0], np.zeros(1), 1.0
... )
>>> print(at.D[1].round(9), (at.v - 0.25 + 0.5 / np.pi).round(9))
[0.5] [0.]
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from giantstep.reference.gaussian import REACH, Array, Function, panels


@dataclass
class Slopes:
    """(1.1) and (1.2) at an array of A, for one block."""

    D: Array  # (5, N)
    v: Array
    k3: Array
    k4: Array
    a1: Array
    a2: Array
    a3: Array
    e3: Array
    b2: Array
    he2: Array  # E He_2(z) sigma'^2


def slopes(
    activation: Function,
    slope_of: Function,
    kinks: Sequence[float],
    A: Array,
    s: float,
) -> Slopes:
    """Return (1.1) and (1.2): sigma'(A + s z) = D_1 + s D_2 z + sp(z)."""
    values, place = np.unique(np.round(A, 13), return_inverse=True)
    edges = np.tile(np.linspace(-REACH, REACH, 19), (len(values), 1))
    # sigma has its kink where z = (kink - A)/s.
    moved = (np.array(kinks, dtype=float) - values[:, None]) / s
    edges = np.hstack([edges, np.clip(moved, -REACH, REACH)])
    z, weights = panels(np.sort(edges, axis=1))

    def mean(function: Array) -> Array:
        return np.sum(weights * function, axis=1)

    row = values[:, None] + s * z
    slope = slope_of(row)
    D = np.array(
        [
            mean(activation(row)),
            mean(slope),
            mean(z * slope) / s,
            mean((z**2 - 1) * slope) / s**2,
            mean((z**3 - 3 * z) * slope) / s**3,
        ]
    )
    sp = slope - D[1][:, None] - s * D[2][:, None] * z
    return Slopes(
        D=D[:, place],
        v=mean(sp**2)[place],
        k3=mean(sp**3)[place],
        k4=mean(sp**4)[place],
        a1=mean(z * sp**2)[place],
        a2=mean(z**2 * sp**2)[place],
        a3=mean(z * sp**3)[place],
        e3=mean(z**3 * sp)[place],
        b2=mean((z**2 - 1) * sp**2)[place],
        he2=mean((z**2 - 1) * slope**2)[place],
    )


@dataclass
class Norms:
    """(3.1) to (3.5) for one block: functions of a sample, and two numbers."""

    r2: Array
    fl: Array
    fy: Array
    gain: float
    variance: float


def norms(
    at: Slopes, res: Array, weights: Array, e: float, c: float, inverse: float
) -> Norms:
    """Return how a step changes the norms of the rows of a block; `inverse` = 1/alpha."""  # noqa: E501
    D = at.D
    r2 = e * res * D[2]  # (3.1)
    ep = e * res / np.sqrt(c)
    m1 = weights @ r2
    kr = 1 + m1 + r2 * inverse
    dk = (2 + 2 * m1) * r2 * inverse + (r2 * inverse) ** 2
    c3 = c * D[3]
    gain = (1 + m1) ** 2 + c * (1 + m1) * e * (weights @ (res * D[4]))  # (3.2)
    gain += e**2 * inverse * (weights @ (res**2 * (at.he2 / (2 * c) - D[1] * D[3])))
    fl = 2 * ep * c3 * kr + ep**2 * at.a1 * inverse  # (3.3)
    fy = c3 * dk + 2 * ep * at.a1 * kr * inverse  # (3.4)
    fy = ep * (fy + ep**2 * at.k3 * inverse**2)
    # (3.5): moments of a row of K, then those of its rest.
    f1 = m1
    f2 = weights @ r2**2 * inverse
    f3 = weights @ r2**3 * inverse**2
    f4 = weights @ r2**4 * inverse**3
    F2 = f2 + f1**2
    F3 = f3 + 3 * f2 * f1 + f1**3
    F4 = f4 + 4 * f3 * f1 + 2 * f2**2 + 6 * f2 * f1**2 + f1**4
    K2 = 1 + 2 * f1 + F2
    K4 = 1 + 4 * f1 + 6 * F2 + 4 * F3 + F4
    pulled = weights @ (ep**2 * at.v)
    vsp = 2 * (K4 - K2**2)
    vsp += 4 * inverse * (weights @ (ep**2 * at.a2 * kr**2))
    vsp += 4 * inverse**2 * pulled * (weights @ r2**2)
    vsp += 4 * inverse**2 * (weights @ (ep**3 * at.a3 * kr))
    vsp += 2 * inverse**2 * pulled**2
    vsp += inverse**3 * (weights @ (ep**4 * (at.k4 - at.v**2)))
    vsp += 4 * (weights @ (ep * at.e3 * kr * dk))
    vsp += 2 * inverse * (weights @ (ep**2 * at.b2 * dk))
    # What (5.3) asks for; the part of fl is a variable of its own there.
    variance = c**2 * (vsp - weights @ fl**2 * inverse)
    return Norms(r2=r2, fl=fl, fy=fy, gain=gain, variance=variance)
