"""Laws of the second layer that several families share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pydantic

from giantstep.core.base.errors import bad_field
from giantstep.core.scenario.fields import Numbers, field
from giantstep.core.scenario.model import Part


class Vocabulary(Part):
    """A finitely supported law of the second layer: a fraction `probabilities` of the
    neurons has each of `values`.

    >>> Vocabulary([1, -1], [0.9, 0.1])
    Vocabulary(values=(1.0, -1.0), probabilities=(0.9, 0.1))
    """

    if TYPE_CHECKING:

        def __init__(
            self, values: Sequence[float], probabilities: Sequence[float] = ...
        ) -> None: ...

    values: Numbers = field(
        "zeta_q", "values of the second layer (`OneStep`: at the start, times sqrt(p))"
    )
    probabilities: Numbers = field(
        "pi_q", "fraction of neurons with each value; equal if left out", default=()
    )

    @pydantic.model_validator(mode="before")
    @classmethod
    def _equal_by_default(cls, fields: Any) -> Any:
        if (
            isinstance(fields, dict)
            and fields.get("values") is not None
            and "probabilities" not in fields
        ):
            count = np.size(fields["values"])
            return {**fields, "probabilities": [1 / count] * count if count else []}
        return fields

    def check(self) -> None:
        """Check that the law is one."""
        if not self.values:
            raise bad_field(
                "values", list(self.values), "a list of at least one number"
            )
        count = len(self.values)
        total = sum(self.probabilities)
        for good, allowed in (
            (
                len(self.probabilities) == count,
                f"a list of {count} numbers, one for each value",
            ),
            (min(self.probabilities, default=1) > 0, "all above 0"),
            (
                math.isclose(total, 1.0, rel_tol=0, abs_tol=1e-9),
                f"numbers that sum to one (they sum to {total:g})",
            ),
        ):
            if not good:
                raise bad_field("probabilities", list(self.probabilities), allowed)
