"""What presets of the network share: fields of their own, answered by the network they stand for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from giantstep.errors import InputError, bad_field, field_error
from giantstep.families.network.scenario import Network, null_baseline
from giantstep.family import Answer, Baseline
from giantstep.scenario import Scenario
from giantstep.types import Array, Points

NEW_FIELDS = {"loss": "square", "precondition": 0.0, "weight_decay": 0.0, "momentum": 0.0}
"""Fields that steps have gained, with the values at which they say nothing: left out of the content of presets."""


class Preset(Scenario):
    """A network said in other fields: it translates fields and points, and takes what it shows of the answer."""

    def network(self, steps: int) -> Network:
        """Return the network that is meant, with so many steps."""
        raise NotImplementedError

    def own_names(self, steps: int) -> Mapping[str, str]:
        """Return fields of the network -> fields of the preset that mean the same."""
        raise NotImplementedError

    def step_counts(self, points: Points) -> Array:
        """Return the number of steps of every point."""
        raise NotImplementedError

    def own_settings(self, settings: Mapping[str, Any], steps: int) -> dict[str, Any]:
        """Return the settings as the network takes them."""
        return dict(settings)

    def shown(self, what: str, values: Mapping[str, Array]) -> dict[str, Array]:
        """Return the variables of the preset among those of the network."""
        here = {variable.name for variable in self.questions[what].variables}
        return {name: array for name, array in values.items() if name in here}

    # -- both engines --------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Check what the network checks, in the words of the preset."""
        self.check_points(self.point())

    def check_points(self, points: Points) -> None:
        """Check a whole grid as the network does."""
        for steps, rows in self._by_steps(points):
            with self.in_own_words(steps):
                self.network(steps).check_points(self.translated(points, rows, steps))

    def limit(self, points: Points, what: str, settings: Mapping[str, Any]) -> Answer:
        """Answer as the network does; later times of points with fewer steps are NaN."""
        from giantstep.families.network.limit import joined

        answers = []
        for steps, rows in self._by_steps(points):
            with self.in_own_words(steps):
                inside, own = self.translated(points, rows, steps), self.own_settings(settings, steps)
                answers.append((rows, self.network(steps).limit(inside, what, own)))
        whole = answers[0][1] if len(answers) == 1 else joined(answers)
        whole.values = self.shown(what, whole.values)
        return whole

    def refuse_missing(self, points: Points, what: str, theory: str | None = None) -> None:
        """Refuse what the network has no theory for, in the words of the preset."""
        for steps, rows in self._by_steps(points):
            with self.in_own_words(steps):
                self.network(steps).refuse_missing(self.translated(points, rows, steps), what, theory)

    def prepare(self, points: Points, what: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Choose what both engines share; the points with most steps decide."""
        steps, rows = max(self._by_steps(points), key=lambda part: part[0])
        with self.in_own_words(steps):
            own = self.own_settings(settings, steps)
            return self.network(steps).prepare(self.translated(points, rows, steps), what, own)

    def trial(self, points: Points, what: str, dim: int, draws: Any, settings: Mapping[str, Any]) -> dict[str, Array]:
        """Train the network."""
        ((steps, rows),) = self._by_steps(points)
        with self.in_own_words(steps):
            inside, own = self.translated(points, rows, steps), self.own_settings(settings, steps)
            return self.shown(what, self.network(steps).trial(inside, what, dim, draws, own))

    def memory(self, points: Points, what: str, dim: int, settings: Mapping[str, Any]) -> int:
        """Return the bytes one trial needs at its peak."""
        steps, rows = max(self._by_steps(points), key=lambda part: part[0])
        own = self.own_settings(settings, steps)
        return self.network(steps).memory(self.translated(points, rows, steps), what, dim, own)

    def own_dim(self) -> int | None:
        """Return the dimension of a given covariance."""
        inputs = getattr(self, "inputs", None)
        return None if inputs is None else inputs.own_dim

    def baselines(self, points: Points, what: str, values: Mapping[str, Array]) -> Mapping[str, Baseline]:
        """Return the error of predicting zero, of guessing where labels are classes."""
        return null_baseline(self, values)

    def _by_steps(self, points: Points) -> list[tuple[int, Array]]:
        counts = self.step_counts(points)
        return [(int(steps), np.flatnonzero(counts == steps)) for steps in np.unique(counts)]

    def translated(self, points: Points, rows: Array, steps: int) -> dict[str, Array]:
        """Return the points of `rows` in the fields of the network."""
        network = self.network(steps)
        names = self.own_names(steps)
        inside = {}
        for name, (value, _) in network.numeric_fields().items():
            own = names.get(name, name)
            inside[name] = points[own][rows] if own in points else np.full(len(rows), value)
        return {**inside, **({"dim": points["dim"][rows]} if "dim" in points else {})}

    @contextmanager
    def in_own_words(self, steps: int) -> Iterator[None]:
        """Let errors name the fields as they are called here."""
        try:
            yield
        except InputError as error:
            own = self.own_names(steps).get(error.field or "", error.field)
            if own is None:
                raise
            said = self.own_words(error.allowed or error.sentence)
            raise (bad_field(own, error.value, said) if error.allowed else field_error(own, said)) from None

    def own_words(self, text: str) -> str:
        """Return what the network says in words of the preset."""
        return text


def content_of_step(step: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a step without the fields that it has gained, where they say nothing."""
    return {name: value for name, value in step.items() if name not in NEW_FIELDS or value != NEW_FIELDS[name]}
