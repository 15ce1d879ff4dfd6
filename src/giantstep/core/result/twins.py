"""The gap on a table, split in two by its Gaussian twin: the same experiment on
Gaussian inputs of the same moments.

From theory to twin is what the finite size (and the approximations of the theory) make;
from twin to data what is due to the data, which are not Gaussian.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from giantstep.core.result.verdicts import normal_score

SEEN = 2.0
"""Standard errors, as a normal score, beyond which a part of a gap is seen, or one part
is larger than the other.
"""

SIZE = "finite size"
DATA = "the data are not Gaussian"


@dataclass(frozen=True)
class GapSplit:
    """The gap of a variable at one place in two parts, which add up to it: both are
    relative to the same number.
    """

    theory: float
    twin: float
    twin_stderr: float
    data: float
    data_stderr: float
    to_twin: float  # from theory to twin
    to_twin_stderr: float
    to_data: float  # from twin to data
    to_data_stderr: float
    larger: str  # the larger part in words; empty where neither is seen
    sure: bool  # whether so many trials tell which part is larger

    @classmethod
    def of(
        cls,
        theory: float,
        theory_stderr: float,
        twin: float,
        twin_stderr: float,
        data: float,
        data_stderr: float,
        *,
        scale: float,
        trials: int,
        approximate: bool,
    ) -> GapSplit | None:
        """Return the parts of a gap relative to `scale`; None where one of the three
        numbers is missing.
        """
        numbers = (theory, twin, twin_stderr, data, data_stderr, scale)
        if not all(map(math.isfinite, numbers)) or scale == 0:
            return None
        to_twin = twin - theory
        to_twin_stderr = math.hypot(theory_stderr, twin_stderr)
        to_data = data - twin
        to_data_stderr = math.hypot(twin_stderr, data_stderr)
        # |to_twin| - |to_data|; where both have one sign the twin is counted twice, else not at all  # noqa: E501
        apart = abs(to_twin) - abs(to_data)
        if to_twin * to_data > 0:
            apart_stderr = math.hypot(theory_stderr, 2 * twin_stderr, data_stderr)
        else:
            apart_stderr = math.hypot(theory_stderr, data_stderr)
        names = []
        if _is_seen(to_twin, to_twin_stderr, trials):
            names.append(
                f"{SIZE} and approximations of the theory" if approximate else SIZE
            )
        if _is_seen(to_data, to_data_stderr, trials):
            names.insert(0 if apart < 0 else len(names), DATA)
        return cls(
            theory=theory,
            twin=twin,
            twin_stderr=twin_stderr,
            data=data,
            data_stderr=data_stderr,
            to_twin=to_twin / scale,
            to_twin_stderr=to_twin_stderr / scale,
            to_data=to_data / scale,
            to_data_stderr=to_data_stderr / scale,
            larger=names[0] if names else "",
            sure=_is_seen(apart, apart_stderr, trials),
        )

    def sentence(self) -> str:
        """Say how large both parts are and which is the larger one."""
        to_twin = _part(self.to_twin, self.to_twin_stderr)
        to_data = _part(self.to_data, self.to_data_stderr)
        parts = (
            f"The Gaussian twin of the table splits it: {to_twin} from theory to twin,"
            f" {to_data} from twin to data."
        )
        if not self.larger:
            return (
                f"{parts} Neither part is beyond two standard errors; more trials would"
                " show them."
            )
        if self.sure:
            doubt = ""
        else:
            doubt = ", though so many trials do not tell for sure which part is larger"
        return f"{parts} The larger part: {self.larger}{doubt}."

    def cells(self, name: str) -> tuple[str, ...]:
        """Return the split as a row of a table."""
        larger = self.larger or "neither is seen"
        return (
            name,
            f"{self.theory:.4g}",
            f"{self.twin:.4g} ± {self.twin_stderr:.2g}",
            f"{self.data:.4g} ± {self.data_stderr:.2g}",
            _part(self.to_twin, self.to_twin_stderr),
            _part(self.to_data, self.to_data_stderr),
            larger if self.sure or not self.larger else f"{larger} (not sure)",
        )


HEADS = (
    "in parts",
    "theory",
    "Gaussian twin",
    "data",
    "theory to twin",
    "twin to data",
    "larger part",
)
"""Heads of a table of splits."""


def _is_seen(part: float, stderr: float, trials: int) -> bool:
    if stderr == 0:
        return part != 0
    return abs(float(normal_score(part / stderr, trials - 1))) > SEEN


def _part(part: float, stderr: float) -> str:
    return f"{100 * part:+.3g} ± {100 * stderr:.2g}%"
