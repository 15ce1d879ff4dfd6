"""The figure of the page as the Python that makes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from giantstep.study import Study

_LINES = '''"""A figure of the giantstep explorer."""

import giantstep as gs
from matplotlib import pyplot as plt

studies = {{
{studies}
}}
variables = {variables!r}
figure, panels = plt.subplots(1, len(variables), figsize=(5.6 * len(variables), 4), squeeze=False)
for label, study in studies.items():
    result = study.predict()
    for panel, name in zip(panels[0], variables):
        gs.plot(result, name, axes=panel, log={log!r})
'''
_DOTS = """dots = gs.Study.from_toml({study}).compare()
for panel, name in zip(panels[0], variables):
    gs.plot(dots.sel(source=['experiment']), name, axes=panel, log={log!r})
print(gs.agreement(dots))
"""


def figure_script(studies: Mapping[str, Study], variables: Sequence[str], log: str, dots: Study | None) -> str:
    """Return Python that draws the variables of studies (the question's own choice, if none) into ``figure.png``.

    Each has a panel; studies are lines by their labels, the experiment of `dots` stands over them.
    """
    first = next(iter(studies.values()))
    question = first.scenario.questions[first.what or next(iter(first.scenario.questions))]
    shown = list(variables) or list(question.plot or (question.variables[0].name,))
    lines = [f"    {label!r}: gs.Study.from_toml({_quoted(study.to_toml())})," for label, study in studies.items()]
    text = _LINES.format(studies="\n".join(lines), variables=shown, log=log)
    if dots is not None:
        text += _DOTS.format(study=_quoted(dots.to_toml()), log=log)
    return text + 'figure.savefig("figure.png", dpi=200)\n'


def _quoted(text: str) -> str:
    """Write a text as a Python literal, over several lines where nothing in it forbids that."""
    return repr(text) if '"""' in text or "\\" in text else f'"""\n{text}"""'
