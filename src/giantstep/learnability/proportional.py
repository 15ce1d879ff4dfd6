"""Where stages of order 1 and 2 happen when samples are proportional to the dimension: thresholds in n/d."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
