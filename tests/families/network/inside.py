"""What the limit of a scenario works with, for tests that look inside: problem, layers,
features, spectrum.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.readout import Features, FiniteSize, Spectrum
from giantstep.core.readout.finite_size import whole_sizes
from giantstep.core.readout.fits import Asked
from giantstep.problems.network.answers.errors import Table
from giantstep.problems.network.answers.spectrum import spectra
from giantstep.problems.network.describe import Description, describe, finite_size
from giantstep.problems.network.experiment import trained_networks, whiten
from giantstep.problems.network.follow import follow
from giantstep.problems.network.layer import Layer
from giantstep.problems.network.problem import Problem, Share, share_points


def as_network(scenario):
    """Return the network that a preset stands for."""
    if isinstance(scenario, gs.Network):
        return scenario
    return scenario.network(int(scenario.step_counts(scenario.point())[0]))


def points_of(scenario, dim=np.inf, **fields):
    """Return the points of a scenario as the engines take them; `fields` may be lists
    (`__` for the dot).
    """
    values = {name: np.atleast_1d(value) for name, value in scenario.point().items()}
    values |= {
        name.replace("__", "."): np.atleast_1d(value) for name, value in fields.items()
    }
    values["dim"] = np.atleast_1d(dim)
    count = max(len(value) for value in values.values())
    return {
        name: np.broadcast_to(np.asarray(v, dtype=float), count).copy()
        for name, v in values.items()
    }


def answer_of(scenario, what="errors", dim=np.inf, settings=None, **fields):
    """Return the answer of the limit itself, which no table has been made of."""
    points = points_of(scenario, dim, **fields)
    return scenario.limit(points, what, scenario.prepare(points, what, settings or {}))


def share_of(scenario, dim=np.inf, **fields) -> Share:
    """Return the one problem of some points of a scenario; `fields` are those of the
    network.
    """
    network = as_network(scenario)
    points = whole_sizes(points_of(network, dim, **fields))
    (share,) = share_points(network, points, np.arange(len(points["dim"])))
    return share


def problem_of(scenario, dim=np.inf, zeta=None, pi=None, **fields) -> Problem:
    """Return the problem of one point, with other blocks than those of the scenario
    where they are given.
    """
    problem = share_of(scenario, dim, **fields).problem
    if zeta is None:
        return problem
    return dataclasses.replace(
        problem, zeta=np.array(zeta, dtype=float), pi=np.array([pi], dtype=float)
    )


def layers_of(problem: Problem, theory: str = "exact") -> list[Layer]:
    """Return the layer before the first step and after every one."""
    return [moment.layer for moment in follow(problem, theory, {})]


def advanced(problem: Problem, layer: Layer) -> Layer:
    """Return a layer after all steps of the problem."""
    for number, step in enumerate(problem.network.steps):
        layer = step.advance(problem, layer, number, "exact")
    return layer


def described(problem: Problem, layer: Layer, **options) -> Description:
    """Return what the read-out sees of the one parameter set there is."""
    (seen,) = describe(problem, layer, **options)
    return seen


def labelled(problem: Problem, seen: Description) -> Features:
    """Return the features of a description with the label noise of its problem."""
    return dataclasses.replace(
        seen.features, hh=seen.features.hh + problem.numbers["noise"][0]
    )


def asked_of(scenario, dim=np.inf, finer=1.0, **fields) -> tuple[Asked, Description]:
    """Return the fit that is asked for at some points after the last step, on a rule
    that may be `finer`.
    """
    share = share_of(scenario, dim, **fields)
    *_, moment = follow(share.problem, "exact", {})
    seen = described(moment.problem, moment.layer, finer=finer)
    points = whole_sizes(points_of(as_network(scenario), dim, **fields))
    size = finite_size(moment.problem, moment.layer, share.set_of_point, points["dim"])
    return Asked(
        seen.features, seen.bulks, share.set_of_point, points, 1e-10, size
    ), seen


def spectrum_of(scenario, dim=np.inf) -> tuple[Spectrum, FiniteSize]:
    """Return the spectrum of the features after the last step."""
    share = share_of(scenario, dim)
    *_, moment = follow(share.problem, "exact", {})
    network = as_network(scenario)
    table = Table(network, whole_sizes(points_of(network, dim)), moment.time + 1)
    ((_, spectrum, size, _),) = spectra(table, share, moment)
    return spectrum, size


def only_the_experiment_answers(
    scenario, field, missing, what="errors", dim=24, **asked
):
    """Hold that the limit says in a sentence which theory is missing, and that a real
    network answers all the same.
    """
    with pytest.raises(gs.InputError) as caught:
        gs.predict(scenario, what=what, **asked)
    said = str(caught.value)
    assert (
        said.startswith(f"Field `{field}` has no limit here: what is missing is ")
        and missing in said
    ), said
    assert said.endswith("`gs.simulate` trains the real network.")
    seen = gs.simulate(scenario, what=what, dim=dim, trials=1)
    assert bool(seen.converged), str(seen.status.values)


def trained_of(scenario, dim, draws, **fields):
    """Return the real network after its last step."""
    network = as_network(scenario)
    points = points_of(network, **fields)
    *_, trained = trained_networks(
        network, points, whiten(network, points, dim), dim, draws, {}
    )
    return trained
