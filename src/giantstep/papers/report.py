"""What a rebuilt figure says about itself: agreement of every experiment in it, and its
own checks.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from giantstep.core.base.jsondata import json_data
from giantstep.core.result.report import Agreement
from giantstep.core.result.verdicts import SEE, Verdict, together

FINITE_SIZE = 7.0
"""Relative gaps up to this over d (over r_eff, for inputs with a covariance) are
granted to finite-size terms the limit does not know.

They are of order 1/d; measured where they are largest (test error, with seeds of their
own): ReLU on ReLU, p/d = 4, n/p = 2.4: -5.1(3)%, -2.8(3)%, -2.1(3)%, -0.6(5)% at d =
64, 128, 256, 512; vocabulary of 4, p/d = 1.5, n/p = 0.3: 6.8(7)%, 3.8(5)%, 1.5(4)%,
1.4(6)% at d = 85, 170, 341, 682.
"""


@dataclass(frozen=True)
class Comparison:
    """One experiment of a figure beside its limit.

    `allow` is the relative gap granted to finite-size terms that the limit does not
    know.
    """

    name: str
    meaning: str
    agreement: Agreement
    allow: float
    settings: dict[str, Any]

    @property
    def agrees(self) -> bool:
        """Whether no number is beyond the line by more than `allow`."""
        return self.agreement.passes(self.allow)

    def verdict(self, see: float = SEE) -> Verdict:
        """Return the verdict on its variables together, which are named with the study
        they belong to.
        """
        found = self.agreement.verdict(see, self.allow)
        return replace(found, variable=self.name)


@dataclass(frozen=True)
class Check:
    """One number with a line it must stay below, or pass where `above` is set; a line
    is optional.
    """

    name: str
    meaning: str
    value: float
    line: float | None = None
    above: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", float(self.value))

    @property
    def agrees(self) -> bool:
        """Whether the number is on the right side of its line."""
        if self.line is None:
            return True
        if self.above:
            return self.value > self.line
        return self.value < self.line

    def __str__(self) -> str:
        text = f"{self.name}: {self.value:.4g}"
        if self.line is not None:
            text += f" ({'above' if self.above else 'below'} {self.line:g}: {'holds' if self.agrees else 'does NOT hold'})"
        return f"{text}\n    {self.meaning}"


@dataclass
class Report:
    """The report of a rebuilt figure; printing it gives what the text file holds."""

    name: str
    title: str
    paper: str
    quick: bool
    device: str
    seconds: float
    comparisons: list[Comparison] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    ours: bool = False

    @property
    def agrees(self) -> bool:
        """Whether limit and experiment disagree in no panel and every check holds."""
        panels = all(comparison.agrees for comparison in self.comparisons)
        return panels and all(check.agrees for check in self.checks)

    def verdict(self, see: float = SEE) -> Verdict:
        """Return the verdict on the figure: on its experiments together, unless one of
        its checks fails.
        """
        verdicts = [comparison.verdict(see) for comparison in self.comparisons]
        trials = min((verdict.trials for verdict in verdicts), default=0)
        names = {comparison.agreement.theory.name for comparison in self.comparisons}
        theory = names.pop() if len(names) == 1 else "theory"
        found = together(
            verdicts,
            max((verdict.asked for verdict in verdicts), default=see),
            trials,
            theory,
        )
        judged = [check for check in self.checks if check.line is not None]
        failed = [check.name for check in judged if not check.agrees]
        if verdicts:
            said = ""
        else:
            said = "No experiment of this figure is judged by its gaps."
        if failed:
            checks = f"A check does NOT hold: {'; '.join(failed)}."
            return replace(
                found,
                verdict="disagrees",
                sentence=f"{said or found.sentence} {checks}",
            )
        if judged:
            checks = (
                f" {'Every check holds' if len(judged) > 1 else 'The check holds'}."
            )
        else:
            checks = ""
        if not verdicts:
            if judged:
                said = said
            else:
                said = "This figure has no experiment: nothing was compared."
        return replace(found, sentence=f"{said or found.sentence}{checks}")

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "figure": self.name,
            "title": self.title,
            "paper": self.paper,
            "quick": self.quick,
            "device": self.device,
            "seconds": round(self.seconds, 1),
            "agrees": self.agrees,
            "verdict": self.verdict().verdict,
            "sentence": self.verdict().sentence,
            "comparisons": [
                {
                    "name": c.name,
                    "meaning": c.meaning,
                    **c.settings,
                    **c.agreement.to_dict(c.allow),
                }
                for c in self.comparisons
            ],
            "checks": [
                {**asdict(check), "agrees": check.agrees} for check in self.checks
            ],
            "notes": self.notes,
        }

    def to_json(self) -> str:
        """Return the report as strict JSON."""
        return json.dumps(json_data(self.to_dict()), indent=2, allow_nan=False) + "\n"

    def __str__(self) -> str:
        size = "quick (small) sizes" if self.quick else "full sizes"
        if self.ours:
            whose = f"{self.paper} (a figure of our own)"
        else:
            whose = self.paper
        lines = [
            f"{self.name}: {self.title}",
            f"{whose}; {size}, {self.device}, {self.seconds:.0f} s",
            "",
        ]
        for part in self.comparisons:
            settings = ", ".join(
                f"{name}={value}" for name, value in part.settings.items()
            )
            lines += [
                f"{part.name}: {part.meaning}",
                f"    {settings}; gaps up to {part.allow:.1%} are granted to the finite dimension",
            ]
            lines += [
                f"    {line}" for line in part.agreement.table(part.allow).splitlines()
            ]
            lines.append("")
        lines += [str(check) for check in self.checks]
        lines += [""] * bool(self.checks) + self.notes + [""] * bool(self.notes)
        lines.append(self.verdict().sentence)
        return "\n".join(lines)
