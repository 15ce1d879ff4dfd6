"""Answers in words and tables, as HTML: what a comparison says, where a variable is
best, what it depends on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from giantstep.faces.page.markup import Html, joined, short, tag, words

_NOTE = (
    "z is the gap between experiment and {} in standard errors; by chance the largest"
    " of so many passes its line once in 1,000. At a finite dimension small gaps remain"
    " that are no error of either side."
)


def agreement_html(
    report: Mapping[str, Any], shown: Sequence[str], remarks: Sequence[str]
) -> dict[str, Any]:
    """Return the verdicts on the variables shown, and the report: verdicts in words,
    then the numbers.
    """
    judged = [row for row in report["variables"] if row["variable"] in shown]
    rows = judged or [row for row in report["variables"] if row["own"]]
    verdicts = [
        {"verdict": row["verdict"], "sentence": _plain(row["sentence"])} for row in rows
    ]
    heads = (
        "variable",
        "points",
        "largest |z|",
        "by chance",
        "gap",
        "visible gap",
        "verdict",
    )
    numbers = [
        (
            words(row["variable"]),
            row["points"],
            *(_known(row[name], "{:.2f}") for name in ("largest_z", "chance_z")),
            *(
                _plain(_known(row[name], "{:.3g}%", 100))
                for name in ("gap", "visible_gap")
            ),
            row["verdict"],
        )
        for row in rows
    ]
    html = joined(
        *(
            tag("p", row["sentence"], class_=f"verdict {row['verdict']}")
            for row in verdicts
        ),
        *(tag("p", _plain(text)) for text in report["notes"]),
        _table(heads, numbers),
        *(
            tag("p", text, class_="help")
            for text in (_NOTE.format(report["compared_with"]), *remarks)
        ),
    )
    return {"verdicts": verdicts, "html": html}


def _plain(text: str) -> str:
    """Return a sentence with names as the page writes them.

    >>> _plain("test_error agrees at samples_per_dim = 2")
    'test error agrees at samples per dim = 2'
    """
    plain = re.sub(r"\b[a-z]+(?:_[a-z0-9]+)+\b", lambda found: words(found[0]), text)
    return re.sub(r"[\d.]+e-\d+%", "less than 0.001%", plain)


def optimum_text(
    variable: str,
    fields: Mapping[str, Sequence[Any]],
    values: Sequence[Any],
    *,
    largest: bool,
) -> str:
    """Return where a variable is best, in a sentence."""
    places = []
    for name, at in fields.items():
        numbers = "; ".join(short(place, 5) for place in at)
        places.append(f"{words(name)} {numbers}")
    extreme = "smallest"
    if largest:
        extreme = "largest"
    best = "; ".join(short(value, 5) for value in values)
    return f"{extreme} {words(variable)} {best} at {', '.join(places)}"


def sensitivities_html(found: Mapping[str, Any]) -> Html:
    """Return the derivatives of a variable as a table, elasticities with bars."""
    sizes = [
        abs(value) if isinstance(value, int | float) else 0.0
        for value in found["elasticity"]
    ]
    largest = max(sizes, default=0.0) or 1.0
    rows = []
    for name, at, slope, value, size in zip(
        *(found[one] for one in ("field", "at", "derivative", "elasticity")),
        sizes,
        strict=True,
    ):
        way = "up" if isinstance(value, int | float) and value > 0 else "down"
        bar = tag(
            "span",
            class_=f"pull {way}",
            style=f"width:{round(100 * size / largest)}px",
            aria_hidden="true",
        )
        rows.append(
            (
                words(name),
                short(at),
                short(slope),
                tag("span", bar, f" {short(value, 3)}"),
            )
        )
    note = (
        f"Percent that {words(found['named'])} = {short(found['value'], 5)} changes for"
        f" one percent of a field, at the values of the sliders. {found['remark']}"
    )
    return joined(
        _table(("field", "at", "derivative", "elasticity"), rows),
        tag("p", note, class_="help"),
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> Html:
    head = tag("thead", tag("tr", *(tag("th", one, scope="col") for one in heads)))
    return tag(
        "table",
        head,
        tag("tbody", *(tag("tr", *(tag("td", cell) for cell in row)) for row in rows)),
    )


def _known(value: Any, form: str, factor: float = 1.0) -> str:
    if isinstance(value, int | float):
        return form.format(factor * value)
    return "–"
