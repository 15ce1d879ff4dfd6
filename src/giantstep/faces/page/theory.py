"""What is shown, in words: equations, the meaning of the variables, papers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from giantstep.faces.page.markup import Html, greek, joined, pretty, tag, words


def theory_html(
    about: Mapping[str, Any],
    study: Mapping[str, Any],
    variables: Sequence[str],
    paper: str = "",
) -> Html:
    """Return the equations of a family, the meaning of the variables shown, and its
    papers.
    """
    plain = tag(
        "pre",
        greek(about["update_rule"]),
        tabindex="0",
        aria_label="Model and update rule",
    )
    equations = [_equation(equation) for equation in about["page"].get("equations", [])]
    if equations:
        text = tag(
            "details", tag("summary", "The model as plain text"), plain, class_="plain"
        )
    else:
        text = plain
    what = []
    for variable in about["questions"][study["what"]]["variables"]:
        if variable["name"] in variables:
            symbol = pretty(variable["symbol"]) or variable["name"]
            meaning = f"{words(variable['name'])}: {greek(variable['meaning'])}"
            what += [tag("dt", symbol, class_="math"), tag("dd", meaning)]
    name = study.get("limit", {}).get("theory") or next(iter(about["theories"]))
    what += [
        tag("dt", "theory"),
        tag("dd", f"{name}: {about['theories'].get(name, '')}"),
    ]
    papers = sorted(about["papers"], key=lambda one: bool(one["key"] != paper))
    shown = [_paper(one, one["key"] == paper) for one in papers]
    return joined(
        tag("div", *equations, text, class_="equations"),
        tag("dl", *what, class_="what"),
        *shown,
    )


def _equation(equation: Mapping[str, str]) -> Html:
    title = equation["title"]
    cite = equation.get("cite")
    caption = tag(
        "figcaption",
        title,
        *(
            [tag("span", f" {cite}", title="a formula of the theory notes")]
            if cite
            else []
        ),
    )
    latex = re.sub(r"\\field\{([^}]+)\}", r"\\htmlData{field=\1}", equation["latex"])
    if re.search(
        r"\\begin\{(?!aligned\})|\\\\\[|\\&", latex
    ):  # what cannot be cut between its parts
        cut = [[latex]]
    else:
        lines = re.sub(r"\\(begin|end)\{aligned\}|&", "", latex).split(r"\\")
        cut = [re.split(r"\\q?quad", line) for line in lines]
    pieces = [
        [tag("span", class_="piece", data_latex=one) for one in line] for line in cut
    ]
    made = [tag("div", *some) for some in pieces]
    return tag(
        "figure",
        caption,
        tag(
            "div", *made, class_="formula", tabindex="0", role="group", aria_label=title
        ),
    )


def _paper(paper: Mapping[str, str], is_shown: bool) -> Html:
    bibtex = paper["bibtex"]
    eprint = re.search(r"eprint\s*=\s*\{([^}]+)\}", bibtex)
    away = {"rel": "noopener noreferrer", "target": "_blank"}
    source = Html("")
    if eprint:
        source = tag(
            "a", f"arXiv {eprint[1]}", href=f"https://arxiv.org/abs/{eprint[1]}", **away
        )
    title = re.sub(r"[{}\\]", "", paper["title"] or paper["key"])
    head = tag(
        "div",
        f"{_authors(bibtex)}: {title} ",
        source,
        " (this figure)" if is_shown else "",
    )
    return tag(
        "div",
        head,
        tag("details", tag("summary", "BibTeX"), tag("pre", bibtex)),
        class_="paper",
    )


def _authors(bibtex: str) -> str:
    """Return "Dandi et al. 2025" of a BibTeX entry."""
    found = re.search(r"author\s*=\s*\{(.*?)\},?\n", bibtex, re.DOTALL)
    people = re.split(r"\s+and\s+", found[1]) if found else [""]
    names = [
        re.sub(r"\\['\"`^~=.]|[{}\\]", "", person.split(",")[0]).strip()
        for person in people
    ]
    if len(names) > 2:
        more = " et al."
    elif len(names) == 2:
        more = f" and {names[1]}"
    else:
        more = ""
    year = re.search(r"year\s*=\s*\{(\d+)\}", bibtex)
    return f"{names[0]}{more} {year[1] if year else ''}"
