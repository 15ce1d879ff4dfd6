"""The extreme singular values of the weights after a small or growing step.

W1 = W0 + eta c1 a beta^T up to a vanishing remainder, with beta = X0^T r/n0. With c =
p/d, b0^2 = g1^2 + E r^2 d/n0, f0 the initial output (0 or 1) and eta in units of |a| =
sqrt(E zeta^2), ell = (1 - f0 eta c1^2)^2 + eta^2 c1^2 b0^2 is the squared length of
W1^T a/|a|. The bulk of singular values is that of W0, |1 -+ sqrt(c)|. One leaves it at
the top where ell > 1 + sqrt(c) (Baik, Ben Arous, Peche), and then,
step_size_regimes (4a),

    s^2 = ell + c ell/(ell - 1), (left . a)^2/|a|^2 = (1 - c/(ell - 1)^2)/(1 + c/(ell -
    1)), (right . w*)^2 = (eta c1 g1)^2/ell (1 - c/(ell - 1)^2).

With f0 = 1 and c < 1 one leaves it at the bottom where ell < 1 - sqrt(c), with the same
formulas.
"""

from __future__ import annotations

import numpy as np

from giantstep.core.base.types import Floats


def weight_spikes(
    width: Floats,
    eta: Floats,
    c1: float,
    g1: float,
    noise: Floats,
    initial_output: Floats,
) -> dict[str, Floats]:
    """Return bulk and extreme singular values (B,), `noise` = E r^2 d/n0; its edges and
    NaN inside the bulk.
    """
    moved = eta * c1
    # |W1^T a|^2/|a|^2
    ell = (1 - initial_output * moved * c1) ** 2 + moved**2 * (g1**2 + noise)
    lower = np.abs(1 - np.sqrt(width))
    upper = 1 + np.sqrt(width)
    top = ell > upper
    bottom = ell < 1 - np.sqrt(width)
    # inside the bulk there is no outlier, and ell may be 1
    with np.errstate(divide="ignore", invalid="ignore"):
        # step_size_regimes (4a)
        kept = np.where(top | bottom, 1 - width / (ell - 1) ** 2, np.nan)
        value = np.sqrt(ell + width * ell / (ell - 1))
        left = kept / (1 + width / (ell - 1))
        right = (moved * g1) ** 2 / ell * kept
    values = {
        "bulk_lower": lower,
        "bulk_upper": upper,
        "spike_strength": ell,
        "threshold": upper,
    }
    ends = (
        ("top", "", top, upper),
        ("bottom", "bottom_", bottom, lower),
    )
    for end, prefix, there, edge in ends:
        values[f"{end}_singular_value"] = np.where(there, value, edge)
        values[f"{prefix}left_alignment"] = np.where(there, left, np.nan)
        values[f"{prefix}right_alignment"] = np.where(there, right, np.nan)
    return values
