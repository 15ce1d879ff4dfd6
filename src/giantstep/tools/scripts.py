"""The verb `script`: a scenario's experiment as a program of its own, which a co-author
runs without giantstep.

The module `script` of a family writes what one trial does. Here is what all programs
share: the head that says what is studied, the sizes, the loop over trials, and the
table of means with their standard errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from pydantic import BaseModel

from giantstep.core.base.errors import InputError, bad_field
from giantstep.core.base.jsondata import with_infinity
from giantstep.core.maths.gaussian.source import (
    Language,
)
from giantstep.core.scenario.checks import check_whole
from giantstep.core.scenario.model import Scenario
from giantstep.core.scenario.names import dotted_names
from giantstep.core.scenario.own_classes import refuse_file
from giantstep.core.scenario.program import Program, to_torch
from giantstep.core.scenario.toml import write_toml

if TYPE_CHECKING:
    from giantstep.core.run.study import Study
    from giantstep.core.scenario.family import Question

LANGUAGES: tuple[Language, ...] = get_args(Language)
USUAL_DIM = 300
"""Dimension of a program where neither the caller nor the scenario says one: a trial
takes seconds.
"""
MOST_LINES = 120
"""Longer programs are not read."""
_COMMENT_COLUMN = 40
"""Where comments begin, in characters: behind most lines."""
_SPECIAL = ("erf", "expit", "ndtr")


def script(
    scenario: Scenario,
    *,
    dim: int | None = None,
    trials: int = 10,
    seed: int = 0,
    lang: Literal["numpy", "torch"] = "numpy",
) -> str:
    """Write the experiment of a scenario as a program that runs without giantstep.

    It draws the data, trains the real network (or runs the algorithm of the family),
    fits, and prints every judged variable of the scenario's first question: the mean
    over trials and its standard error. It is a second implementation: its random
    numbers are not those of `simulate`.

    Parameters
    ----------
    scenario : what is studied.
    dim : dimension of the data; that of the scenario where it has one, else 300.
    trials : number of independent repetitions, at least 2.
    seed : any whole number from 0 on.
    lang : ``"numpy"``, or ``"torch"``, where gradients are those of autograd.

    Returns
    -------
    str
        The text of the program, at most 120 lines.

    Examples
    --------
    >>> import giantstep as gs
    >>> text = gs.script(gs.OneStep.example(), dim=100, trials=5)
    >>> "giantstep" in text.partition("import")[2], len(text.splitlines()) <= 120
    (False, True)
    """
    if not isinstance(scenario, Scenario):
        raise InputError(f"A script needs a scenario, not a {type(scenario).__name__}.")
    refuse_file(scenario, "a script")
    if lang not in LANGUAGES:
        raise bad_field("lang", lang, " or ".join(LANGUAGES))
    own = scenario.own_dim() or getattr(scenario, "dim", None)
    size = check_whole(
        "dim", own or USUAL_DIM if dim is None else dim, "a whole number at least 2", 2
    )
    if own is not None and size != own:
        raise bad_field("dim", size, f"{own}, which the scenario says")
    repetitions = check_whole(
        "trials", trials, "a whole number at least 2, since one trial has no spread", 2
    )
    start = check_whole(
        "seed", seed, "a whole number from 0 to 2**64 - 1", 0, 2**64 - 1
    )
    question = next(iter(scenario.questions.values()))
    text = _written(
        scenario,
        scenario.program(size, lang),
        question,
        (size, repetitions, start),
        lang,
    )
    lines = len(text.splitlines())
    if lines > MOST_LINES:
        raise InputError(
            f"The program would have {lines} lines, more than {MOST_LINES}: it has too"
            " many parts."
        )
    return text


def one_scenario(study: Study, changes: Mapping[str, Any]) -> Scenario:
    """Return the scenario of a study with fields changed; what still varies, or another
    question, is refused.
    """
    first = next(iter(study.scenario.questions))
    if study.what not in (None, first):
        raise bad_field(
            "what", study.what, f'"{first}" (or left out) where a script is written'
        )
    fields = {**dotted_names(study.grid), **changes}
    for name, value in fields.items():
        if isinstance(value, list | tuple) or np.ndim(value):
            raise InputError(
                f"Field `{name}` varies in the study, but a script has one value: --set"
                f" {name}=VALUE."
            )
    return study.scenario.replace(fields)


# -- the program -----------------------------------------------------------------------

_REPORT = """\
def report(results):
    for name, axes in VARIABLES.items():
        values = np.array([result[name] for result in results], dtype=float)
        mean, stderr = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(results))
        for place in np.ndindex(mean.shape):
            where = " ".join(f"{axis}={INDEX[axis][i]}" for axis, i in zip(axes, place))
            print(f"{name:22s} {where:28s} {mean[place]: .6g} +- {stderr[place]:.2g}")
"""  # noqa: E501
_LOOPS = {
    "numpy": "report([trial(np.random.default_rng([seed, t])) for t in range(trials)])",
    "torch": "torch.manual_seed(seed)\nreport([trial() for t in range(trials)])",
}


def _written(
    scenario: Scenario,
    program: Program,
    question: Question,
    size: tuple[int, int, int],
    lang: Language,
) -> str:
    dim, trials, seed = size
    body = program.functions.strip("\n") + "\n\n" + program.trial.strip("\n")
    special = [name for name in _SPECIAL if re.search(rf"(?<![\w.]){name}\(", body)]
    if lang == "torch":
        imports = [
            *program.imports,
            "import numpy as np",
            "import torch",
            "torch.set_default_dtype(torch.float64)",
        ]
    else:
        if special:
            scipy = [f"from scipy.special import {', '.join(special)}"]
        else:
            scipy = []
        imports = [*program.imports, "import numpy as np", *scipy]
    sizes = {
        "d": (str(dim), "dimension of the inputs"),
        **program.sizes,
        "trials, seed": (
            f"{trials}, {seed}",
            "repetitions; each draws everything anew",
        ),
    }
    if lang == "torch":
        body = to_torch(body)
        sizes = {name: (to_torch(value), said) for name, (value, said) in sizes.items()}
    parts = [
        "\n".join([_head(scenario), *imports]),
        "\n".join(
            _commented(f"{name} = {value}", said)
            for name, (value, said) in sizes.items()
        ),
        _declared(program, question),
        re.sub("\n\n\n+", "\n\n", body),
        _REPORT,
        _LOOPS[lang],
    ]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _commented(code: str, said: str) -> str:
    return f"{code:{_COMMENT_COLUMN}s}  # {said}" if said else code


def _head(scenario: Scenario) -> str:
    """Return the docstring: what is studied, as a study file says it, without what is
    as by default.
    """
    content = with_infinity({"family": scenario.family, **_told(scenario)})
    said = [
        f"    {line}" for line in write_toml({"scenario": content}).splitlines()[1:]
    ]
    title = f'"""{scenario.title}. Its scenario (other fields have their defaults):'
    return "\n".join([title, "", *said, '"""'])


def _told(part: BaseModel) -> dict[str, Any]:
    """Return the content of a scenario or of one of its parts, without fields that have
    their default.
    """
    plain = part.model_dump(mode="json")
    told: dict[str, Any] = {}
    for name, info in type(part).model_fields.items():
        value = getattr(part, name)
        if (
            name != "kind"
            and not info.is_required()
            and value == info.get_default(call_default_factory=True)
        ):
            continue
        if isinstance(value, BaseModel):
            told[name] = _told(value)
        elif isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
            told[name] = [_told(entry) for entry in value]
        else:
            told[name] = plain[name]
    return told


def _declared(program: Program, question: Question) -> str:
    """Return the tables of what is printed: variables with their axes, and the
    coordinates of the axes.
    """
    declared = {variable.name: variable for variable in question.variables}
    rows = []
    for name in program.variables:
        axes = tuple(dim for dim in declared[name].dims if dim in program.index)
        rows.append(_commented(f"    {name!r}: {axes!r},", declared[name].symbol))
    index = {name: list(values) for name, values in program.index.items()}
    table = "\n".join(rows)
    return (
        f"VARIABLES = {{  # what is printed, with its axes\n{table}\n}}\nINDEX ="
        f" {index!r}"
    )
