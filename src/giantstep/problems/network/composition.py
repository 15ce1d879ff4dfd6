"""What composes: for every pair of options of a network whether the limit is exact,
approximate, or has no theory.

Nothing is declared twice: every part says itself what it lacks (`Step.missing`) and
what it approximates (`Step.remarks`); the table asks them. The experiment answers every
pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np

from giantstep.core.base.errors import InputError
from giantstep.problems.inputs.parts import InputBlocks
from giantstep.problems.network.limit import refuse_missing
from giantstep.problems.network.readouts import Logistic, Ridge
from giantstep.problems.network.scenario import Network
from giantstep.problems.network.steps import MaximalStep

OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "two directions": {"target": "z1 + z1*z2"},
    "covariance": {"inputs": InputBlocks([2.5, 0.5], [0.25, 0.75], [0.5, 0.5])},
    "finite batch": {"steps.batch_per_dim": 2.0},
    "logistic": {
        # classes are signs, which are flipped and have no noise
        "target": "sign(z1)",
        "noise": 0.0,
        "flip": 0.05,
        "readout": Logistic(0.1),
    },
    "Gaussian second layer": {"second_layer": "gaussian"},
    "Gaussian rows": {"rows": "gaussian"},
    # as many samples as the plain network has for its fit: they are the same ones
    "the step's own sample": {"fit_sample": "same", "steps.batch_per_dim": 2.0},
    "no ridge": {"readout": Ridge(0.0)},
    "preconditioner": {"steps.precondition": 1.0},
    "correlation loss": {"steps.loss": "correlation"},
}
"""What may be asked of a network, as changes of the plain one (one direction,
isotropic, large batches, ridge).
"""
BOTH: Mapping[frozenset[str], Mapping[str, Any]] = {
    frozenset({"two directions", "logistic"}): {"target": "sign(z1 + z2)"}
}
"""Where two options change the same field: the label is then a sign of one direction of
two.
"""
Verdict = Literal["exact", "approximate", "no theory"]


@dataclass(frozen=True)
class Pair:
    """Two options after some maximal steps, what the limit makes of them, and in words
    what it lacks.
    """

    first: str
    second: str
    network: Network
    verdict: Verdict
    said: str


def plain_network(steps: int) -> Network:
    """Return the network that options change: so many maximal steps along one
    direction.
    """
    sizes = {"width_per_dim": 1.2, "samples_per_dim": 2.0, "readout": Ridge(0.1)}
    return Network(
        target="tanh(z1)", noise=0.05, steps=[MaximalStep(1.5)] * steps, **sizes
    )


def pair_of(first: str, second: str, steps: int) -> Pair:
    """Return two options of a network after so many maximal steps, and what the limit
    makes of them.
    """
    changes = {
        **OPTIONS[first],
        **OPTIONS[second],
        # the last one wins: it replaces what either option makes of the field
        **BOTH.get(frozenset({first, second}), {}),
    }
    # a logistic fit needs a penalty where classes can be separated
    if {first, second} == {"logistic", "no ridge"}:
        changes["readout"] = Logistic(0.1)
        said = (
            "a theory of logistic fits without a penalty, which diverge where the"
            " classes are separable"
        )
        return Pair(
            first, second, plain_network(steps).replace(changes), "no theory", said
        )
    network = plain_network(steps).replace(changes)
    # the bare limit is judged
    points = {**network.point(), "dim": np.array([np.inf])}
    # refusals come first: what has no theory approximates nothing
    try:
        refuse_missing(network, points, "errors", None)
    except InputError as error:
        return Pair(first, second, network, "no theory", str(error))
    remarks = [
        text
        for place in network.places
        for text in network.steps[place.number].remarks(place, points, None)
    ]
    return Pair(
        first,
        second,
        network,
        "approximate" if remarks else "exact",
        # steps that are alike say the same: once is enough
        " ".join(dict.fromkeys(remarks)),
    )


def all_pairs(steps: int) -> Iterator[Pair]:
    """Yield every pair of options after so many maximal steps."""
    for first, second in combinations(OPTIONS, 2):
        yield pair_of(first, second, steps)
