"""The scenario of a two-layer network: data, first layer, steps, read-out; the parts
combine freely.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar

import numpy as np

from giantstep.core.base.errors import InputError, bad_field, field_error
from giantstep.core.base.types import Array, Floats, Points
from giantstep.core.maths.gaussian import PLANTED_LABELS, Function
from giantstep.core.scenario.answer import Answer
from giantstep.core.scenario.family import Baseline, Question, Variable
from giantstep.core.scenario.fields import Expression, MultiIndex, Number, field
from giantstep.core.scenario.lists import PartList
from giantstep.core.scenario.model import Scenario
from giantstep.core.scenario.paper_symbols import Paper, notation_of
from giantstep.core.scenario.vocabulary import Vocabulary
from giantstep.problems.inputs.law import InputLaw
from giantstep.problems.inputs.parts import InputRows, Inputs
from giantstep.problems.network import fields
from giantstep.problems.network.beyond import BEYOND
from giantstep.problems.network.coordinates import AnyCoordinates
from giantstep.problems.network.notation import NETWORK_PAPERS
from giantstep.problems.network.questions import (
    FITTED,
    KEPT,
    KEPT_FITS,
    KEPT_SPECTRA,
    QUESTIONS,
)
from giantstep.problems.network.readouts import AnyReadOut, Ridge
from giantstep.problems.network.shift import Shift as Shift
from giantstep.problems.network.steps import AnyStep, MaximalStep, SmallStep
from giantstep.problems.network.steps.base import Place

THEORIES = {
    "exact": "the exact limit of the network",
    "isotropic": (
        "the noise of a finite batch as isotropic noise of every row: an approximation"
    ),
    "published": (
        "the published map of one step onto spiked random features with an isotropic"
        " bulk"
    ),
    "auto": (
        "at a finite dim, inputs of low effective ranks: split or quadratic, whichever"
        " matters; else exact"
    ),
    "split": (
        "at a finite dim, inputs of low effective rank or rows that escape by their own"
        " overlap with the target: the leading fluctuation is not linearised"
    ),
    "quadratic": (
        "at a finite dim, inputs of low r_4: a quadratic fluctuation of its own in"
        " every eigenspace"
    ),
}
LABELS_ELSEWHERE = dict.fromkeys(("y", "labels"), PLANTED_LABELS)
"""What is said to somebody who looks for a field for the labels of a table."""
OWN_PAPERS = ("giantstep2026steps", "giantstep2026inputs", "dandi2023giant")


class OfNetwork(Scenario):
    """What the network and its presets say of themselves in the same words."""

    if TYPE_CHECKING:
        inputs: Inputs | None

    def own_dim(self) -> int | None:
        """Return the dimension of a given covariance."""
        return None if self.inputs is None else self.inputs.own_dim

    def gaussian_twin(self, theory: str) -> Self | None:
        """Return the network on Gaussian inputs of the covariance of its rows."""
        if not isinstance(self.inputs, InputRows):
            return None
        return self.replace(inputs=self.inputs.covariance())

    def baselines(
        self, points: Points, what: str, values: Mapping[str, Array]
    ) -> Mapping[str, Baseline]:
        """Return the error of predicting zero, of guessing where labels are classes,
        where it is among the values.
        """
        words = "guessing" if self.has_classes() else "predicting zero"
        if "null_error" in values:
            return {"test_error": Baseline(words, values["null_error"])}
        return {}


class Network(OfNetwork):
    """A two-layer network: any inputs, any list of steps of its first layer, then a fit
    of its second.

    Data x ~ N(0, I_d), or N(0, Sigma) where `inputs` says so, y = g(z1..zr) +
    sqrt(noise) N(0, 1) with z_a = <w*_a, x>; or classes, the sign of one direction,
    flipped with probability `flip`. Network f = sum_i a_i sigma(<w_i, x>)/sqrt(p), rows
    on the unit sphere at the start, a_i = zeta_q/sqrt(p) during the steps, block q.
    After every step the second layer is fitted on n samples; `time` counts the steps
    made. The limit is d -> inf with p/d and n/d fixed.

    >>> import giantstep as gs
    >>> net = gs.Network(
    ...     target="z1 + z1*z2",
    ...     noise=0.1,
    ...     activation="relu",
    ...     width_per_dim=1.5,
    ...     second_layer=gs.Vocabulary([1, -1]),
    ...     steps=[gs.MaximalStep(2.0), gs.MaximalStep(1.0)],
    ...     readout=gs.Ridge(0.1),
    ...     samples_per_dim=2.0,
    ... )
    >>> gs.predict(net).test_error.values.round(4)
    array([2.0907, 1.0191, 0.7946])

    The papers of one step have their own symbols, which `from_paper` takes:

    >>> s = gs.Network.from_paper(
    ...     "cui2024asymptotics",
    ...     sigma="tanh",
    ...     sigma_star="sin(z)",
    ...     alpha=1.5,
    ...     lambda_=0.1,
    ...     eta_tilde=3.0,
    ...     alpha0=20.0,
    ... )
    cui2024asymptotics:
      sigma       =  tanh    activation of the hidden layer
      sigma_star  =  sin(z)  target
      alpha       =  1.5     n/d
      lambda      =  0.1     penalty in sum (y - f)^2 + lambda |a|^2
      eta_tilde   =  3       step size over the width
      alpha0      =  20      samples of the first batch over d
    giantstep:
      activation             =  tanh    = sigma
      target                 =  sin(z)  = sigma_star
      samples_per_dim        =  1.5     = alpha
      width_per_dim          =  1       = beta
      readout.ridge          =  0.1     = lambda
      steps.0.rate           =  3       = eta_tilde
      steps.0.batch_per_dim  =  20      = alpha0
    """

    family: ClassVar[str] = "network"
    title: ClassVar[str] = "Two-layer network: data, first layer, steps, read-out"
    update_rule: ClassVar[str] = (
        "data      x ~ N(0, I_d),  y = g(W* x) + sqrt(noise) N(0,1),  W* has r"
        " orthonormal rows\n          (inputs: x ~ N(0, Sigma), tr Sigma = d, W* Sigma"
        " W*^T = I)\nnetwork   f(x) = sum_i a_i sigma(<w_i,x>)/sqrt(p),  |w_i| = 1 and"
        " a_i = zeta_q/sqrt(p) at the start\nmaximal   v_i <- momentum v_i + zeta_q"
        " (1/n0) sum (y - f(x)) sigma'(<w_i,x>) x,  n0 = batch_per_dim d\n          w_i"
        ' <- (1 - weight_decay) w_i + rate v_i\n          (loss="correlation": y in'
        " place of y - f; precondition = c: Sigma^-c x in place of x)\nsign      w_i <-"
        " w_i + rate sign(zeta_q sum (y - f(x)) sigma'(<w_i,x>) x)/sqrt(d): Adam's"
        " first step\nsmall     the gradient times rate/sqrt(p), growing: rate"
        " n0^exponent/sqrt(p)\nplanted   w_i <- s_q w_i + u_q v,  |v| = 1,  <v,w*> ="
        " alignment;  shifts: w_i <- s_q w_i + W*^T U_q\nridge     a = argmin sum_mu"
        " (y_mu - f(x_mu))^2 + ridge |a|^2  on n samples, fresh or the step's"
        " own\nclasses   a = argmin sum_mu l(y_mu f(x_mu)) + ridge |a|^2/2  with y = g,"
        " flipped with probability flip\nlimit     d -> inf with n/d = samples_per_dim,"
        " p/d = width_per_dim, n0/d = batch_per_dim fixed"
    )
    questions: ClassVar[Mapping[str, Question]] = {**QUESTIONS, **BEYOND}
    theories: ClassVar[Mapping[str, str]] = THEORIES
    papers: ClassVar[tuple[str, ...]] = (
        *OWN_PAPERS,
        "giantstep2026batch",
        "giantstep2026sign",
        *NETWORK_PAPERS,
    )
    paper_symbols: ClassVar[Mapping[str, Paper]] = NETWORK_PAPERS
    notation: ClassVar[Mapping[str, Mapping[str, str]]] = notation_of(NETWORK_PAPERS)
    formula_version: ClassVar[int] = 4
    shared_fields: ClassVar[tuple[str, ...]] = ("samples_per_dim", "readout.ridge")
    elsewhere: ClassVar[Mapping[str, str]] = {
        **LABELS_ELSEWHERE,
        "ridge": "the read-out has it, readout=gs.Ridge(0.1)",
        "loss": (
            "the read-out has it, readout=gs.Logistic(0.1) or gs.Hinge(0.1); a step has"
            " a loss of its own"
        ),
        "rate": (
            "every step has its own, steps=[gs.MaximalStep(rate=2.0)], steps.0.rate"
        ),
        "step": "it takes a list, steps=[gs.MaximalStep(rate=2.0)]",
        "batch_per_dim": (
            "every step has its own, steps=[gs.MaximalStep(2.0, batch_per_dim=4.0)]"
        ),
        "precondition": (
            "every step has its own, steps=[gs.MaximalStep(2.0, precondition=1.0)]"
        ),
        "planted": "it is a step, steps=[gs.PlantedShifts(...)]",
    }

    target: MultiIndex = fields.target(default="tanh(z)")
    noise: Number = fields.noise()
    flip: Number = fields.flip()
    inputs: Inputs | None = fields.inputs()
    coordinates: AnyCoordinates = field(
        "sqrt(d) w*_i",
        'law of the target\'s coordinates, which a SignStep sees: "gaussian", "equal"'
        " (all of one size), or a law",
        default="gaussian",
    )
    activation: Expression = fields.activation()
    width_per_dim: Number = fields.width_per_dim()
    second_layer: fields.SecondLayer = fields.second_layer()
    rows: fields.Rows = fields.rows()
    steps: Annotated[
        tuple[AnyStep, ...], PartList("steps", "[gs.MaximalStep(2.0)]")
    ] = field("steps", "what happens to the first layer, step by step", default=())
    readout: AnyReadOut = field(
        "l, lambda", "loss and penalty of the second layer's fit", default=Ridge(0.1)
    )
    samples_per_dim: Number = fields.samples_per_dim()
    fit_sample: fields.FitSample = fields.fit_sample()
    shift: Shift | None = field(
        "x'",
        'law of the test inputs of what="shift", "calibration", "sensitivity" (that of'
        " the fit)",
        default=None,
    )

    def check(self) -> None:
        """Check that the parts fit together."""
        if self.shift is not None:
            self.shift.check_network(self)
        if not self.target.square_integrable:
            raise bad_field(
                "target",
                self.target.name,
                "finite and square integrable under the Gaussian measure",
            )
        if self.readout.classes and self.sign_direction is None:
            allowed = (
                f'"sign(z)" where readout.kind="{self.readout.kind}": the labels are'
                " classes"
            )
            raise bad_field("target", self.target.name, allowed)
        for place in self.places:
            self.steps[place.number].check_place(place)
        drawn = self.steps and "batch_per_dim" in type(self.steps[-1]).model_fields
        if self.fit_sample == "same" and not drawn:
            raise bad_field(
                "fit_sample",
                "same",
                '"fresh" unless the last step is a gradient step with a sample',
            )
        if self.inputs is not None:
            try:
                self.inputs.check_directions(self.target.directions)
            except InputError as error:
                raise error.inside("inputs") from None
        self.check_points(self.point())

    def check_points(self, points: Points) -> None:
        """Refuse what no experiment could answer either."""
        ridge, samples, width = (
            points[name]
            for name in ("readout.ridge", "samples_per_dim", "width_per_dim")
        )
        if np.any((ridge == 0) & (samples == width)):
            allowed = (
                "above 0 where samples_per_dim = width_per_dim (the ridgeless error"
                " diverges there)"
            )
            raise bad_field("readout.ridge", 0.0, allowed)
        unflipped = (
            '0 where readout.kind="ridge" (scale the target and add the noise 4 flip (1'
            " - flip) instead)"
        )
        noiseless = (
            f'0 where readout.kind="{self.readout.kind}": classes are flipped with'
            " `flip`"
        )
        _refuse(
            points,
            *(("noise", noiseless) if self.readout.classes else ("flip", unflipped)),
            0.0,
        )
        for place in self.places:
            if np.any(points.get(place.field("bulk"), 1.0) == 0):
                raise bad_field(place.field("bulk"), 0.0, "different from 0")
            name = place.field("precondition")
            powers = points.get(name, np.zeros(1))
            if (
                self.inputs is not None
                and np.any(powers > 0)
                and self.input_law().eigenvalues.min() == 0
            ):
                raise bad_field(
                    name, float(powers.max()), "0 where an eigenvalue of inputs is 0"
                )
        spikes = [
            place.field("alignment")
            for place in self.places
            if place.field("alignment") in points
        ]
        for name in spikes[1:]:
            allowed = f"that of {spikes[0]}: all planted spikes lie along one direction"
            _refuse(points, name, allowed, points[spikes[0]])
        if self.fit_sample == "same":
            name = self.places[-1].field("batch_per_dim")
            if len(samples) > 1:
                paired = "; lists that vary together are DataArrays over one dimension"
            else:
                paired = ""
            allowed = (
                'equal to samples_per_dim={0:g} where fit_sample="same" (one sample'
                f" for both{paired})"
            )
            _refuse(points, name, allowed, samples)

    def content(self) -> dict[str, Any]:
        """Return the scenario as plain JSON data; later fields are left out where they
        have their defaults.
        """
        content = super().content()
        usual = {"coordinates": "gaussian", "shift": None}
        return {
            name: value
            for name, value in content.items()
            if name not in usual or value != usual[name]
        }

    # -- what the engines ask ----------------------------------------------------------

    @property
    def places(self) -> tuple[Place, ...]:
        """Every step in its place."""
        return tuple(Place(self, number) for number in range(len(self.steps)))

    @cached_property
    def label(self) -> Function:
        """The target as a function of its one variable."""
        return self.target.of_one_variable()

    @cached_property
    def sign_direction(self) -> Floats | None:
        """The unit vector (r,) whose sign the target is; None where it is no such
        sign.
        """
        return self.target.sign_direction()

    @cached_property
    def expansion(self) -> Any:
        """The target's expansion in Hermite polynomials, which every trial asks for."""
        from giantstep.problems.network.population_gradient import hermite_tensor

        return hermite_tensor(self.target)

    @cached_property
    def looked_at(self) -> dict[Any, Any]:
        """Spectra whose upper edges were looked for to choose an x, until they are
        asked about.
        """
        return {}

    @property
    def class_direction(self) -> Floats | None:
        """The unit vector (r,) whose sign an output is held against: of the labels, or
        of the one direction.
        """
        only = np.ones(1) if self.target.directions == 1 else None
        return only if self.sign_direction is None else self.sign_direction

    @property
    def blocks(self) -> int:
        """Number of values in the vocabulary (1 for a Gaussian second layer, whose
        blocks are nodes, not classes).
        """
        if isinstance(self.second_layer, Vocabulary):
            return len(self.second_layer.values)
        return 1

    def layer_moments(self) -> tuple[float, float]:
        """Return E zeta and E zeta^2 of the second layer."""
        law = self.second_layer
        if not isinstance(law, Vocabulary):
            return 0.0, 1.0
        return float(np.dot(law.values, law.probabilities)), float(
            np.dot(np.square(law.values), law.probabilities)
        )

    def input_law(self, dim: float = math.inf) -> InputLaw:
        """Return the law of the inputs at a dimension (inf: the limit)."""
        r = self.target.directions
        if self.inputs is None:
            return InputLaw.of_shares(np.ones(1), np.ones(1), np.ones((r, 1)))
        return self.inputs.law(dim, r)

    @cached_property
    def isotropic(self) -> bool:
        """Whether the inputs have one eigenvalue at every point of a grid, whatever
        they are called.
        """
        varies = any(name.startswith("inputs.") for name in self.numbers)
        return self.inputs is None or not varies and self.input_law().isotropic

    def has_classes(self) -> bool:
        """Tell whether a logistic or hinge fit takes the labels as classes."""
        return self.readout.classes

    @classmethod
    def example(cls) -> Network:
        """Return a small valid scenario."""
        steps = (MaximalStep(2.0), MaximalStep(1.0))
        sizes = {"width_per_dim": 1.5, "samples_per_dim": 2.0, "readout": Ridge(0.1)}
        return cls(target="z1 + z1*z2", noise=0.1, steps=steps, **sizes)

    @classmethod
    def example_for(cls, what: str) -> Network:
        """Return a small valid scenario for a question: spikes have one of a small
        step.
        """
        if what not in ("weights", "spikes"):
            return cls.example()
        step = SmallStep(4, batch_per_dim=4, update="rank-one")
        return cls.example().replace(
            target="tanh(z)", activation="relu(z) - 1/sqrt(2*pi)", steps=[step]
        )

    @classmethod
    def composition(cls) -> Mapping[str, str]:
        """Return what the limit makes of every pair of options after one maximal step
        and after two.
        """
        from giantstep.problems.network.composition import all_pairs

        return {
            f"{one.first}, {one.second}": (
                f"{one.verdict} after one step, {two.verdict} after two"
            )
            for one, two in zip(all_pairs(1), all_pairs(2))
        }

    @classmethod
    def reference(cls) -> tuple[Network, str, float]:
        """Return few_steps_readout, section 14, setting A0: the network before its
        first step.
        """
        return cls.example().replace(steps=()), "test_error", 2.09072848

    def block_count(self) -> Mapping[str, int]:
        """Return the lengths of the own dimensions."""
        blocks = self.blocks
        directions = self.target.directions
        return {
            "block": blocks,
            "block_2": blocks,
            "direction": directions,
            "direction_2": directions,
        }

    def kept(self, what: str) -> tuple[Variable, ...]:
        """Return what `keep_networks` adds: both layers and the target, and the
        eigenvalues of a spectrum.
        """
        fits = KEPT_FITS if what in FITTED else ()
        spectra = KEPT_SPECTRA if what == "spectrum" else ()
        return (*KEPT, *fits, *spectra)


def _refuse(points: Points, name: str, allowed: str, only: Any) -> None:
    """Refuse the first value of a field that is not the `only` one allowed, which the
    words may name.
    """
    other = np.flatnonzero(points[name] != only)
    if other.size:
        value = np.broadcast_to(only, points[name].shape)[other[0]]
        raise bad_field(name, float(points[name][other[0]]), allowed.format(value))


# -- what presets of the network share: fields of their own, answered by the network the

Told = TypeVar("Told")


class Preset(OfNetwork):
    """A network said in other fields: it translates fields and points, and takes what
    it shows of the answer.
    """

    formula_version: ClassVar[int] = 4
    shared_fields: ClassVar[tuple[str, ...]] = ("samples_per_dim", "ridge")

    def parts(self, steps: int) -> dict[str, Any]:
        """Return the steps, so many, and the read-out of the network that is meant;
        other fields have one name.
        """
        raise NotImplementedError

    def own_name(self, name: str) -> str:
        """Return the field of the preset that means the same as a field of the
        network.
        """
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
        """Return the variables of the preset; of a dimension that it does not have the
        last time, the one direction.
        """
        here = {
            variable.name: variable.dims for variable in self.questions[what].variables
        }
        dims = {
            variable.name: variable.dims
            for variable in Network.questions[what].variables
        }
        return {
            name: array[
                (
                    slice(None),
                    *(slice(None) if dim in here[name] else -1 for dim in dims[name]),
                )
            ]
            for name, array in values.items()
            if name in here
        }

    # -- both engines ------------------------------------------------------------------

    def network(self, steps: int | None = None) -> Network:
        """Return the network that is meant, with so many steps (as many as the scenario
        has, if left out).
        """
        if steps is None:
            count = int(self.step_counts(self.point())[0])
        else:
            count = steps
        if count not in self._made:
            parts = self.parts(count)
            same = [
                name
                for name in Network.model_fields
                if name in type(self).model_fields and name not in parts
            ]
            made = Network(**{name: getattr(self, name) for name in same}, **parts)
            self._made[count] = (
                made,
                {name: self.own_name(name) for name in made.numbers},
            )
        return self._made[count][0]

    @cached_property
    def _made(self) -> dict[int, tuple[Network, dict[str, str]]]:
        """Networks that were made, which every trial asks for, with the names that
        their fields have here.
        """
        return {}

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
        whole = Answer.joined(
            self._ask(
                points, settings, lambda net, inside, own: net.limit(inside, what, own)
            )
        )
        whole.values = self.shown(what, whole.values)
        jumps: dict[str, Floats] = {}
        for (
            name,
            dims,
        ) in whole.jumps.items():  # steps without places of their own share a field
            own = self.own_name(name)
            jumps[own] = np.maximum(jumps.get(own, 0.0), dims)
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
        asked = self._ask(
            points,
            settings,
            lambda net, inside, own: net.prepare(inside, what, own),
            most=True,
        )
        # scenarios of one table may rename it differently
        return {
            **asked[0][1],
            "theory": settings.get("theory"),
        }

    def trial(
        self,
        points: Points,
        what: str,
        dim: int,
        draws: Any,
        settings: Mapping[str, Any],
    ) -> dict[str, Array]:
        """Train the network."""
        (one,) = self._ask(
            points,
            settings,
            lambda net, inside, own: net.trial(inside, what, dim, draws, own),
        )
        return self.shown(what, one[1])

    def kept(self, what: str) -> tuple[Variable, ...]:
        """Return what the network keeps, without the dimension of times where the
        preset has the last one only.
        """
        timed = any(
            "time" in variable.dims for variable in self.questions[what].variables
        )
        kept = self.network().kept(what)
        if timed:
            return kept
        return tuple(
            replace(one, dims=tuple(dim for dim in one.dims if dim != "time"))
            for one in kept
        )

    def kept_memory(
        self, points: Points, what: str, dim: int, settings: Mapping[str, Any]
    ) -> int:
        """Return the bytes of what is kept of one trial."""
        asked = self._ask(
            points,
            settings,
            lambda net, inside, own: net.kept_memory(inside, what, dim, own),
            most=True,
        )
        return asked[0][1]

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
        (one,) = self._ask(
            points,
            settings,
            lambda net, inside, own: net.networks(inside, what, dim, draws, own),
        )
        here = {variable.name: variable.dims for variable in self.kept(what)}
        values = dict(one[1])
        for variable in self.network().kept(what):
            if "time" in variable.dims and "time" not in here[variable.name]:
                values[variable.name] = values[variable.name][:, -1]
        return values

    def memory(
        self, points: Points, what: str, dim: int, settings: Mapping[str, Any]
    ) -> int:
        """Return the bytes one trial needs at its peak."""
        asked = self._ask(
            points,
            settings,
            lambda net, inside, own: net.memory(inside, what, dim, own),
            most=True,
        )
        return asked[0][1]

    def _ask(
        self,
        points: Points,
        settings: Mapping[str, Any],
        question: Callable[..., Told],
        most: bool = False,
    ) -> list[tuple[Array, Told]]:
        """Ask the network of every number of steps, or of the largest; return the
        points of each and what it says.
        """
        counts = self.step_counts(points)
        told = []
        for steps in sorted(set(counts.tolist()))[-1 if most else 0 :]:
            rows = np.flatnonzero(counts == steps)
            with self.in_own_words():
                inside = self.translated(points, rows, steps)
                own = self.own_settings(settings, steps)
                told.append((rows, question(self.network(steps), inside, own)))
        return told

    def translated(self, points: Points, rows: Array, steps: int) -> dict[str, Array]:
        """Return the points of `rows` in the fields of the network."""
        inside = {"dim": points["dim"][rows]} if "dim" in points else {}
        numbers = self.network(steps).numbers
        names = self._made[steps][1]
        for name, own in names.items():
            if own in points:
                inside[name] = points[own][rows]
            else:
                inside[name] = np.full(len(rows), numbers[name])
        return inside

    @contextmanager
    def in_own_words(self) -> Iterator[None]:
        """Let errors name the fields as they are called here."""
        try:
            yield
        except InputError as error:
            if error.field is None:
                raise
            own = self.own_name(error.field)
            said = self.own_words(error.allowed or error.sentence)
            if error.allowed:
                raise bad_field(own, error.value, said, error.code) from None
            raise field_error(own, said, error.code) from None

    # -- what it says of itself --------------------------------------------------------

    def content(self) -> dict[str, Any]:
        """Return the plain content; what is as it was before a field existed is left
        out.
        """
        silent = {"inputs": None, "precondition": 0.0}
        return {
            name: value
            for name, value in super().content().items()
            if name not in silent or value != silent[name]
        }

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
    """
    return {
        asked: replace(
            question,
            variables=tuple(
                replace(
                    variable,
                    dims=tuple(dim for dim in variable.dims if dim not in dims),
                )
                for variable in question.variables
                if variable.name not in names
                and f"{asked}.{variable.name}" not in names
            ),
            settings={
                name: setting
                for name, setting in question.settings.items()
                if name not in settings
            },
        )
        for asked, question in Network.questions.items()
        if asked not in what
    }
