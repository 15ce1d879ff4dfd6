"""Where stages of order 1 and 2 happen, in samples per dimension."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from giantstep.core.base.display import Readable
from giantstep.core.base.errors import InputError
from giantstep.core.maths.gaussian.subspaces import (
    direction_text,
    tidy_signs,
)
from giantstep.core.maths.gaussian.target import Target
from giantstep.core.run.verbs import predict
from giantstep.core.scenario.families import family_class

if TYPE_CHECKING:
    import xarray


class ProportionalAnswer(Readable):
    """An answer about a target that also knows its thresholds in n/d."""

    target: Target

    def thresholds(self, noise: float = 0.0, flip: float = 0.0) -> xarray.Dataset:
        """Return n/d above which message passing, the best known fast algorithm, learns
        each direction (`BayesLimit`).

        0 for a stage of order 1, a number at order 2, else inf (bayes_multi_index
        section 4): the exponents say whether samples of order d are enough, this says
        how many (``alpha_direction``, of the directions ``vector``). Targets of several
        directions that are no labels need some `noise`.

        >>> import giantstep as gs
        >>> round(float(gs.exponents("abs(z)").thresholds().alpha_direction[0]), 9)
        0.5
        """
        scenario = family_class("bayes-limit")(
            target=self.target, noise=noise, flip=flip, samples_per_dim=1.0
        )
        return predict(scenario, what="thresholds")


def stages_text(target: Target) -> str:
    """Return n/d above which message passing learns each direction without noise, in
    words.
    """
    if target.directions > 2:
        return "order d; n/d of every stage: .thresholds()"
    try:
        scenario: Any = family_class("bayes-limit")(target=target, samples_per_dim=1.0)
        alphas, rows = scenario.direction_thresholds()
    except InputError:
        return "order d; n/d of every stage at some noise: .thresholds(noise=...)"
    texts = [
        f"{direction_text(row)} {_above(alpha)}"
        for alpha, row in zip(alphas.tolist(), tidy_signs(rows))
    ]
    return "; ".join(texts)


def _above(alpha: float) -> str:
    if math.isnan(alpha):
        return "at an unknown n/d"
    if math.isinf(alpha):
        return "never with samples of order d"
    return f"above n = {alpha:.6g} d" if alpha > 0 else "at any n/d"
