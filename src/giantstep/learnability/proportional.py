"""Where stages of order 1 and 2 happen when samples are proportional to the dimension: thresholds in n/d."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from giantstep.errors import InputError
from giantstep.gaussian.subspaces import direction_text, tidy_signs
from giantstep.gaussian.target import Target

if TYPE_CHECKING:
    import xarray


def proportional_thresholds(target: Target, noise: float, flip: float) -> xarray.Dataset:
    """Return n/d above which message passing learns each direction of a target, as `BayesLimit` has it.

    A stage of order 1 is learnt at every n/d, one of order 2 above a threshold, one of order 3 or more never with
    samples proportional to d (bayes_multi_index section 4). Several directions without labels need some noise.
    """
    from giantstep.families import family_class
    from giantstep.study import predict

    scenario = family_class("bayes-limit")(target=target, noise=noise, flip=flip, samples_per_dim=1.0)
    return predict(scenario, what="thresholds")


def stages_text(target: Target) -> str:
    """Return n/d above which message passing learns each direction without noise, in words; at once where it is known.

    >>> stages_text(Target("abs(z)")), stages_text(Target("sign(z1)+sign(z2)"))
    ('z above n = 0.5 d', '0.707 z1 + 0.707 z2 at any n/d; 0.707 z1 - 0.707 z2 above n = 2.05238 d')
    """
    from giantstep.families import family_class

    if target.directions > 2:
        return "order d; n/d of every stage: .thresholds()"
    try:
        scenario: Any = family_class("bayes-limit")(target=target, samples_per_dim=1.0)
        alphas, rows = scenario.direction_thresholds()
    except InputError:
        return "order d; n/d of every stage at some noise: .thresholds(noise=...)"
    texts = [f"{direction_text(row)} {_above(alpha)}" for alpha, row in zip(alphas.tolist(), tidy_signs(rows))]
    return "; ".join(texts)


def _above(alpha: float) -> str:
    if math.isnan(alpha):
        return "at an unknown n/d"
    if math.isinf(alpha):
        return "never with samples of order d"
    return f"above n = {alpha:.6g} d" if alpha > 0 else "at any n/d"
