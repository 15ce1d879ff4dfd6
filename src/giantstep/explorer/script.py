"""The figure of the page as matplotlib draws it: the Python that makes it, and the figure itself as PDF."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray

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
    """Return Python that computes studies and draws variables, one panel each, into ``figure.png``.

    Parameters
    ----------
    studies : label -> study, drawn as lines.
    variables : what is drawn; the question's own choice where it is empty.
    log : logarithmic axes, ``""``, ``"x"``, ``"y"`` or ``"xy"``.
    dots : the study whose experiment is drawn over the lines.
    """
    first = next(iter(studies.values()))
    question = first.scenario.questions[first.what or next(iter(first.scenario.questions))]
    shown = list(variables) or list(question.plot or (question.variables[0].name,))
    lines = [f"    {label!r}: gs.Study.from_toml({_quoted(study.to_toml())})," for label, study in studies.items()]
    text = _LINES.format(studies="\n".join(lines), variables=shown, log=log)
    if dots is not None:
        text += _DOTS.format(study=_quoted(dots.to_toml()), log=log)
    return text + 'figure.savefig("figure.png", dpi=200)\n'


def figure_pdf(limits: Mapping[str, xarray.Dataset], variables: Sequence[str], log: str) -> bytes:
    """Return limits drawn into one panel for each variable, as the bytes of a PDF."""
    from io import BytesIO

    from matplotlib.figure import Figure

    from giantstep.figures.plot import plot

    names = list(variables) or [str(name) for name in next(iter(limits.values())).data_vars][:1]
    figure = Figure(figsize=(5.6 * len(names), 4), layout="constrained")
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    for panel, name in zip(panels, names):
        for number, (label, limit) in enumerate(limits.items()):
            before = len(panel.lines)
            plot(limit, name, axes=panel, log=log)
            drawn = [line for line in panel.lines[before:] if len(line.get_xdata()) > 1]
            if len(limits) > 1 and len(drawn) == 1:  # one curve of each study: told apart by colour and name
                drawn[0].set(color=f"C{number}", label=label)
        if len(limits) > 1 and panel.get_legend_handles_labels()[1]:
            panel.legend(fontsize="small")
    file = BytesIO()
    figure.savefig(file, format="pdf")
    return file.getvalue()


def _quoted(text: str) -> str:
    """Write a text as a Python literal, over several lines where nothing in it forbids that."""
    return repr(text) if '"""' in text or "\\" in text else f'"""\n{text}"""'
