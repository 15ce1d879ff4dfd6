"""What presets of the network share: fields of their own, answered by the network.

A preset says how many steps a point has and what the network's fields are called; it
never computes. Its points are sorted by their number of steps, each lot is asked of the
network with so many steps, and what comes back is joined.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np

from giantstep.core.base.errors import InputError, bad_field, field_error
from giantstep.core.base.types import Array, Floats, Points
from giantstep.core.scenario.answer import Answer
from giantstep.core.scenario.family import Question, Variable
from giantstep.problems.network.scenario import Network, OfNetwork

Reply = TypeVar("Reply")


class Preset(OfNetwork):
    """A network said in other fields: it translates fields and points, and takes what
    it shows of the answer.
    """

    formula_version: ClassVar[int] = 4
    # as the network's, in the names of the preset
    shared_fields: ClassVar[tuple[str, ...]] = ("samples_per_dim", "ridge")

    # -- what a preset says of its fields ----------------------------------------------

    def parts(self, steps: int) -> dict[str, Any]:
        """Return the steps, so many, and the read-out of the network that is meant;
        other fields have one name.
        """
        raise NotImplementedError

    def preset_field(self, name: str) -> str:
        """Return the field of the preset that means the same as a field of the
        network.
        """
        raise NotImplementedError

    def step_counts(self, points: Points) -> Array:
        """Return the number of steps of every point."""
        raise NotImplementedError

    def network_settings(
        self, settings: Mapping[str, Any], steps: int
    ) -> dict[str, Any]:
        """Return the settings as the network takes them."""
        return dict(settings)

    def preset_words(self, text: str) -> str:
        """Return what the network says in words of the preset."""
        return text

    def preset_values(self, what: str, values: Mapping[str, Array]) -> dict[str, Array]:
        """Return the variables of the preset; of a dimension that it does not have the
        last time, the one direction.
        """
        kept = _dims(self.questions[what].variables)
        dims = _dims(Network.questions[what].variables)
        return {
            name: _last_of(array, dims[name], kept[name])
            for name, array in values.items()
            if name in kept
        }

    # -- both engines ------------------------------------------------------------------

    def network(self, steps: int | None = None) -> Network:
        """Return the network that is meant, with so many steps (as many as the scenario
        has, if left out).
        """
        if steps is None:
            # the scenario without a grid is one point
            steps = int(self.step_counts(self.point())[0])
        if steps not in self._networks:
            parts = self.parts(steps)
            for name in Network.model_fields:
                # fields of one name mean the same, unless `parts` says otherwise
                if name in type(self).model_fields and name not in parts:
                    parts[name] = getattr(self, name)
            self._networks[steps] = Network(**parts)
        return self._networks[steps]

    @cached_property
    def _networks(self) -> dict[int, Network]:
        """Number of steps -> the network with so many, which every trial asks for."""
        return {}

    @cached_property
    def _fields(self) -> dict[int, dict[str, str]]:
        """Number of steps -> fields of the network with so many -> those of the
        preset.
        """
        return {}

    def _preset_fields(self, steps: int) -> dict[str, str]:
        """Return what the numbers of the network are called in the preset."""
        if steps not in self._fields:
            names = self.network(steps).numbers
            self._fields[steps] = {name: self.preset_field(name) for name in names}
        return self._fields[steps]

    def check(self) -> None:
        """Check what the network checks, in the words of the preset."""
        self.check_points(self.point())

    def check_points(self, points: Points) -> None:
        """Check a whole grid as the network does."""
        self._ask(points, {}, lambda net, inside, _: net.check_points(inside))

    def limit(self, points: Points, what: str, settings: Mapping[str, Any]) -> Answer:
        """Answer as the network does; later times of points with fewer steps are
        NaN.
        """
        answers = self._ask(
            points,
            settings,
            lambda net, inside, of_net: net.limit(inside, what, of_net),
        )
        # puts the lots back in the order of the points
        whole = Answer.joined(answers)
        whole.values = self.preset_values(what, whole.values)
        jumps: dict[str, Floats] = {}
        for name, dims in whole.jumps.items():
            # steps without places of their own share a field: the largest dim counts
            field = self.preset_field(name)
            jumps[field] = np.maximum(jumps.get(field, 0.0), dims)
        whole.jumps = jumps
        return whole

    def refuse_missing(
        self, points: Points, what: str, theory: str | None = None
    ) -> None:
        """Refuse what the network has no theory for, in the words of the preset."""
        self._ask(
            points, {}, lambda net, inside, _: net.refuse_missing(inside, what, theory)
        )

    def prepare(
        self, points: Points, what: str, settings: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Choose what both engines share; the points with most steps decide."""
        chosen = self._ask_longest(
            points,
            settings,
            lambda net, inside, of_net: net.prepare(inside, what, of_net),
        )
        # scenarios of one table may rename the theory differently: it stays as given
        return {**chosen, "theory": settings.get("theory")}

    def trial(
        self,
        points: Points,
        what: str,
        dim: int,
        draws: Any,
        settings: Mapping[str, Any],
    ) -> dict[str, Array]:
        """Train the network."""
        # points of one group have one number of steps
        ((_, values),) = self._ask(
            points,
            settings,
            lambda net, inside, of_net: net.trial(inside, what, dim, draws, of_net),
        )
        return self.preset_values(what, values)

    def kept(self, what: str) -> tuple[Variable, ...]:
        """Return what the network keeps, without the dimension of times where the
        preset has the last one only.
        """
        kept = self.network().kept(what)
        # the preset has no times where none of its variables has
        if any("time" in one.dims for one in self.questions[what].variables):
            return kept
        return tuple(replace(one, dims=_without(one.dims, ("time",))) for one in kept)

    def kept_memory(
        self, points: Points, what: str, dim: int, settings: Mapping[str, Any]
    ) -> int:
        """Return the bytes of what is kept of one trial."""
        # the more steps, the more times are kept
        return self._ask_longest(
            points,
            settings,
            lambda net, inside, of_net: net.kept_memory(inside, what, dim, of_net),
        )

    def networks(
        self,
        points: Points,
        what: str,
        dim: int,
        draws: Any,
        settings: Mapping[str, Any],
    ) -> dict[str, Array]:
        """Return the networks of a trial, after the last step where the preset has no
        times.
        """
        # as in `trial`: one number of steps
        ((_, values),) = self._ask(
            points,
            settings,
            lambda net, inside, of_net: net.networks(inside, what, dim, draws, of_net),
        )
        kept = _dims(self.kept(what))
        dims = _dims(self.network().kept(what))
        return {
            name: _last_of(array, dims[name], kept[name])
            for name, array in values.items()
        }

    def memory(
        self, points: Points, what: str, dim: int, settings: Mapping[str, Any]
    ) -> int:
        """Return the bytes one trial needs at its peak."""
        return self._ask_longest(
            points,
            settings,
            lambda net, inside, of_net: net.memory(inside, what, dim, of_net),
        )

    # -- asking the network ------------------------------------------------------------

    def _ask(
        self,
        points: Points,
        settings: Mapping[str, Any],
        question: Callable[[Network, Points, Mapping[str, Any]], Reply],
    ) -> list[tuple[Array, Reply]]:
        """Ask the network of every number of steps; return the points of each and its
        reply.
        """
        counts = self.step_counts(points)
        replies = []
        # networks of different numbers of steps are different scenarios
        for steps in np.unique(counts).tolist():
            rows = np.flatnonzero(counts == steps)
            replies.append((rows, self._reply(points, rows, settings, question, steps)))
        return replies

    def _ask_longest(
        self,
        points: Points,
        settings: Mapping[str, Any],
        question: Callable[[Network, Points, Mapping[str, Any]], Reply],
    ) -> Reply:
        """Return the reply of the network with the most steps, about its points."""
        counts = self.step_counts(points)
        most = int(counts.max())
        rows = np.flatnonzero(counts == most)
        return self._reply(points, rows, settings, question, most)

    def _reply(
        self,
        points: Points,
        rows: Array,
        settings: Mapping[str, Any],
        question: Callable[[Network, Points, Mapping[str, Any]], Reply],
        steps: int,
    ) -> Reply:
        """Return what the network with so many steps replies about some points."""
        with self.errors_of_preset():
            inside = self.network_points(points, rows, steps)
            of_network = self.network_settings(settings, steps)
            return question(self.network(steps), inside, of_network)

    def network_points(
        self, points: Points, rows: Array, steps: int
    ) -> dict[str, Array]:
        """Return the points of `rows` in the fields of the network."""
        inside = {}
        if "dim" in points:
            inside["dim"] = points["dim"][rows]
        numbers = self.network(steps).numbers
        for name, field in self._preset_fields(steps).items():
            if field in points:
                inside[name] = points[field][rows]
            else:
                # a field that the preset has no name for: what `parts` made of it
                inside[name] = np.full(len(rows), numbers[name])
        return inside

    @contextmanager
    def errors_of_preset(self) -> Iterator[None]:
        """Let errors name the fields as they are called here."""
        try:
            yield
        except InputError as error:
            # an error about no field says the same in both languages
            if error.field is None:
                raise
            field = self.preset_field(error.field)
            words = self.preset_words(error.allowed or error.sentence)
            if error.allowed:
                # with an allowed value the sentence is made anew around the field
                raise bad_field(field, error.value, words, error.code) from None
            raise field_error(field, words, error.code) from None

    # -- what it says of itself --------------------------------------------------------

    def content(self) -> dict[str, Any]:
        """Return the plain content; what is as it was before a field existed is left
        out.
        """
        content = super().content()
        # digests of older scenarios must stay as they are
        for name, default in {"inputs": None, "precondition": 0.0}.items():
            if name in content and content[name] == default:
                del content[name]
        return content

    def has_classes(self) -> bool:
        """Tell whether a logistic or hinge fit takes the labels as classes."""
        return self.network().readout.classes

    def block_count(self) -> Mapping[str, int]:
        """Return the lengths of the own dimensions."""
        return self.network().block_count()


def questions_without(
    names: Collection[str],
    dims: Collection[str] = (),
    settings: Collection[str] = (),
    what: Collection[str] = (),
) -> dict[str, Question]:
    """Return the questions of a preset: without these variables, dimensions, settings
    and questions.

    A variable of one question is called "question.variable".
    """
    questions = {}
    for key, question in Network.questions.items():
        # questions that the preset cannot ask
        if key in what:
            continue
        variables = [
            replace(variable, dims=_without(variable.dims, dims))
            for variable in question.variables
            if variable.name not in names and f"{key}.{variable.name}" not in names
        ]
        kept_settings = {
            name: setting
            for name, setting in question.settings.items()
            if name not in settings
        }
        questions[key] = replace(
            question, variables=tuple(variables), settings=kept_settings
        )
    return questions


def _without(dims: tuple[str, ...], dropped: Collection[str]) -> tuple[str, ...]:
    """Return dimensions without some."""
    return tuple(dim for dim in dims if dim not in dropped)


def _dims(variables: Collection[Variable]) -> dict[str, tuple[str, ...]]:
    """Return variable -> dimensions."""
    return {variable.name: variable.dims for variable in variables}


def _last_of(array: Array, dims: Collection[str], kept: Collection[str]) -> Array:
    """Return an array over (point, *dims), at the last entry of every dimension that is
    not kept.
    """
    places: list[slice | int] = [slice(None)]
    for dim in dims:
        places.append(slice(None) if dim in kept else -1)
    return array[tuple(places)]
