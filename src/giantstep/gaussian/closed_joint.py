"""E[s(u_a) s(u_b)] in closed form for jointly Gaussian u of covariance C (..., n, n): gradient_dynamics section 2.2."""

from __future__ import annotations

import numpy as np

from giantstep.types import Floats


def relu_i2(C: Floats, a: int, b: int) -> Floats:
    """Return it for s = relu."""
    size = np.sqrt(C[..., a, a] * C[..., b, b])
    r = np.clip(C[..., a, b] / size, -1.0, 1.0)
    return np.asarray(size / (2 * np.pi) * (np.sqrt(1 - r**2) + r * (np.pi - np.arccos(r))))
