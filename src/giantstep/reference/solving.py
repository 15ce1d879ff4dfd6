"""Derivatives and fixed points of functions of a few numbers.

The derivative of a function f that is made of sums, products and inverses is
Im f(x + i h)/h. Nothing is subtracted, so h can be 1e-20 and the derivative is good to
rounding: a "complex step".

>>> f = lambda x: np.array([x[0] * x[1], 1 / x[0]])
>>> print(jacobian(f, np.array([2.0, 3.0])))
[[ 3.    2.  ]
 [-0.25  0.  ]]
>>> print(fixed_point(np.cos, np.ones(1), plain=3).round(6))
[0.739085]
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from giantstep.reference.gaussian import Array

TINY = 1e-20


def jacobian(function: Callable[[Array], Array], x: Array) -> Array:
    """Return the derivatives of a function, each by a complex step."""
    columns = []
    for unit in np.eye(len(x)):
        columns.append(function(x + 1j * TINY * unit).imag / TINY)
    return np.stack(columns, axis=1)


def fixed_point(function: Callable[[Array], Array], x: Array, plain: int) -> Array:
    """Solve x = function(x): plain sweeps from x, then Newton."""
    for _ in range(plain):
        x = function(x)
    for _ in range(30):
        linear = np.eye(len(x)) - jacobian(function, x)
        move = np.linalg.solve(linear, function(x) - x)
        x = x + move
        if np.max(np.abs(move)) < 1e-13 * np.max(np.abs(x)):
            return x
    raise RuntimeError("Newton's method does not converge")
