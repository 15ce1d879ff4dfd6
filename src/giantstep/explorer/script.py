"""The Python that makes the figure of the page: studies as TOML, lines, dots, axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from giantstep.study import Study

_HEAD = '''"""A figure of the giantstep explorer."""

import giantstep as gs
from matplotlib import pyplot as plt
'''


def figure_script(studies: Mapping[str, Study], variables: Sequence[str], log: str, dots: Study | None) -> str:
    """Return Python that computes studies and draws variables, one panel each, into ``figure.png``.

    Parameters
    ----------
    studies : label -> study, drawn as lines.
    variables : what is drawn; the question's own choice where it is empty.
    log : logarithmic axes, ``""``, ``"x"``, ``"y"`` or ``"xy"``.
    dots : the study whose experiment is drawn over the lines.
    """
    shown = list(variables) or list(_default(next(iter(studies.values()))))
    lines = [_HEAD, "studies = {"]
    lines += [f"    {label!r}: gs.Study.from_toml({_quoted(study.to_toml())})," for label, study in studies.items()]
    lines += [
        "}",
        f"variables = {shown!r}",
        "figure, panels = plt.subplots(1, len(variables), figsize=(5.6 * len(variables), 4), squeeze=False)",
        "for label, study in studies.items():",
        "    result = study.predict()",
        "    for panel, name in zip(panels[0], variables):",
        f"        gs.plot(result, name, axes=panel, log={log!r})",
    ]
    if dots is not None:
        lines += [
            f"dots = gs.Study.from_toml({_quoted(dots.to_toml())}).compare()",
            "for panel, name in zip(panels[0], variables):",
            f"    gs.plot(dots.sel(source=['experiment']), name, axes=panel, log={log!r})",
            "print(gs.agreement(dots))",
        ]
    return "\n".join([*lines, 'figure.savefig("figure.png", dpi=200)']) + "\n"


def _quoted(text: str) -> str:
    """Write a text as a Python literal, over several lines where nothing in it forbids that."""
    return repr(text) if '"""' in text or "\\" in text else f'"""\n{text}"""'


def _default(study: Study) -> tuple[str, ...]:
    questions = study.scenario.questions
    question = questions[study.what or next(iter(questions))]
    return question.plot or (question.variables[0].name,)
