"""What presets of the network share: fields of their own, answered by the network they stand for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np

from giantstep.errors import InputError, bad_field, field_error
from giantstep.families.network.scenario import Network, OfNetwork
from giantstep.family import Answer, Question
from giantstep.inputs.parts import content_of_inputs
from giantstep.types import Array, Points

Told = TypeVar("Told")


class Preset(OfNetwork):
    """A network said in other fields: it translates fields and points, and takes what it shows of the answer."""

    formula_version: ClassVar[int] = 3
    shared_fields: ClassVar[tuple[str, ...]] = ("samples_per_dim", "ridge")

    def parts(self, steps: int) -> dict[str, Any]:
        """Return the steps, so many, and the read-out of the network that is meant; other fields have one name."""
        raise NotImplementedError

    def own_name(self, name: str) -> str:
        """Return the field of the preset that means the same as a field of the network."""
        raise NotImplementedError

    def step_counts(self, points: Points) -> Array:
        """Return the number of steps of every point."""
        raise NotImplementedError

    def own_settings(self, settings: Mapping[str, Any], steps: int) -> dict[str, Any]:
        """Return the settings as the network takes them."""
        return dict(settings)

    def own_words(self, text: str) -> str:
        """Return what the network says in words of the preset."""
        return text

    def shown(self, what: str, values: Mapping[str, Array]) -> dict[str, Array]:
        """Return the variables of the preset; of a dimension that it does not have the last time, the one direction."""
        here = {variable.name: variable.dims for variable in self.questions[what].variables}
        dims = {variable.name: variable.dims for variable in Network.questions[what].variables}
        return {
            name: array[(slice(None), *(slice(None) if dim in here[name] else -1 for dim in dims[name]))]
            for name, array in values.items()
            if name in here
        }

    # -- both engines --------------------------------------------------------------------------------------------

    def network(self, steps: int | None = None) -> Network:
        """Return the network that is meant, with so many steps (as many as the scenario has, if left out)."""
        count = self._steps if steps is None else steps
        if count not in self._made:
            parts = self.parts(count)
            same = [name for name in Network.model_fields if name in type(self).model_fields and name not in parts]
            self._made[count] = Network(**{name: getattr(self, name) for name in same}, **parts)
        return self._made[count]

    @cached_property
    def _steps(self) -> int:
        return int(self.step_counts(self.point())[0])

    @cached_property
    def _made(self) -> dict[int, Network]:
        """Networks that were made: an experiment asks for the same one at every trial."""
        return {}

    def check(self) -> None:
        """Check what the network checks, in the words of the preset."""
        with self.in_own_words():
            self.network()

    def check_points(self, points: Points) -> None:
        """Check a whole grid as the network does."""
        self._ask(points, {}, lambda net, inside, _: net.check_points(inside))

    def limit(self, points: Points, what: str, settings: Mapping[str, Any]) -> Answer:
        """Answer as the network does; later times of points with fewer steps are NaN."""
        whole = Answer.joined(self._ask(points, settings, lambda net, inside, own: net.limit(inside, what, own)))
        whole.values = self.shown(what, whole.values)
        return whole

    def refuse_missing(self, points: Points, what: str, theory: str | None = None) -> None:
        """Refuse what the network has no theory for, in the words of the preset."""
        self._ask(points, {}, lambda net, inside, _: net.refuse_missing(inside, what, theory))

    def prepare(self, points: Points, what: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Choose what both engines share; the points with most steps decide."""
        asked = self._ask(points, settings, lambda net, inside, own: net.prepare(inside, what, own), most=True)
        return {**asked[0][1], "theory": settings.get("theory")}  # scenarios of one table may rename it differently

    def trial(self, points: Points, what: str, dim: int, draws: Any, settings: Mapping[str, Any]) -> dict[str, Array]:
        """Train the network."""
        (one,) = self._ask(points, settings, lambda net, inside, own: net.trial(inside, what, dim, draws, own))
        return self.shown(what, one[1])

    def memory(self, points: Points, what: str, dim: int, settings: Mapping[str, Any]) -> int:
        """Return the bytes one trial needs at its peak."""
        ((_, needed),) = self._ask(points, settings, lambda net, inside, own: net.memory(inside, what, dim, own), True)
        return needed

    def _ask(
        self,
        points: Points,
        settings: Mapping[str, Any],
        question: Callable[[Network, Points, dict[str, Any]], Told],
        most: bool = False,
    ) -> list[tuple[Array, Told]]:
        """Ask the network of every number of steps, or of the largest; return the points of each and what it says."""
        counts, told = self.step_counts(points), []
        for steps in np.unique(counts).tolist()[-1 if most else 0 :]:
            rows = np.flatnonzero(counts == steps)
            with self.in_own_words():
                inside, own = self.translated(points, rows, steps), self.own_settings(settings, steps)
                told.append((rows, question(self.network(steps), inside, own)))
        return told

    def translated(self, points: Points, rows: Array, steps: int) -> dict[str, Array]:
        """Return the points of `rows` in the fields of the network."""
        inside = {"dim": points["dim"][rows]} if "dim" in points else {}
        for name, value in self.network(steps).numbers.items():
            own = self.own_name(name)
            inside[name] = points[own][rows] if own in points else np.full(len(rows), value)
        return inside

    @contextmanager
    def in_own_words(self) -> Iterator[None]:
        """Let errors name the fields as they are called here."""
        try:
            yield
        except InputError as error:
            if error.field is None:
                raise
            own, said = self.own_name(error.field), self.own_words(error.allowed or error.sentence)
            raise (bad_field(own, error.value, said) if error.allowed else field_error(own, said)) from None

    # -- what it says of itself ----------------------------------------------------------------------------------

    def content(self) -> dict[str, Any]:
        """Return the plain content; what is as it was before a field existed is left out."""
        return content_of_inputs(super().content())

    def has_classes(self) -> bool:
        """Tell whether a logistic or hinge fit takes the labels as classes."""
        return self.network().readout.classes

    def block_count(self) -> Mapping[str, int]:
        """Return the lengths of the own dimensions."""
        return self.network().block_count()


def questions_without(
    names: Collection[str], dims: Collection[str] = (), settings: Collection[str] = (), what: Collection[str] = ()
) -> dict[str, Question]:
    """Return the questions of a preset: without these variables, dimensions, settings and questions."""
    return {
        asked: replace(
            question,
            variables=tuple(
                replace(variable, dims=tuple(dim for dim in variable.dims if dim not in dims))
                for variable in question.variables
                if variable.name not in names and f"{asked}.{variable.name}" not in names
            ),
            settings={name: setting for name, setting in question.settings.items() if name not in settings},
        )
        for asked, question in Network.questions.items()
        if asked not in what
    }
