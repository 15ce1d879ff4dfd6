"""The scenario of a two-layer network: data, first layer, steps, read-out; the parts
combine freely. Presets are in `preset`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np

from giantstep.core.base.errors import InputError, bad_field
from giantstep.core.base.types import Array, Floats, Points
from giantstep.core.maths.gaussian import PLANTED_LABELS, Function
from giantstep.core.scenario.family import Baseline, Question, Variable
from giantstep.core.scenario.fields import Expression, MultiIndex, Number, field
from giantstep.core.scenario.lists import PartList
from giantstep.core.scenario.model import Scenario
from giantstep.core.scenario.paper_symbols import Paper, notation_of
from giantstep.core.scenario.vocabulary import Vocabulary
from giantstep.problems.inputs.law import InputLaw
from giantstep.problems.inputs.parts import InputRows, Inputs
from giantstep.problems.network import fields, plugins
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
from giantstep.problems.network.steps import MaximalStep
from giantstep.problems.network.steps.base import Place, Step
from giantstep.problems.network.steps.registry import KINDS, any_of, step_class

if TYPE_CHECKING:
    AnyStep = Step
else:  # steps that live in folders of their own are known by name only
    AnyStep = any_of(*KINDS)

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

    # a covariance of d eigenvalues fixes the dimension of the experiment
    def own_dim(self) -> int | None:
        """Return the dimension of a given covariance."""
        return None if self.inputs is None else self.inputs.own_dim

    def gaussian_twin(self, theory: str) -> Self | None:
        """Return the network on Gaussian inputs of the covariance of its rows."""
        # other inputs are Gaussian already
        if not isinstance(self.inputs, InputRows):
            return None
        return self.replace(inputs=self.inputs.covariance())

    def baselines(
        self, points: Points, what: str, values: Mapping[str, Array]
    ) -> Mapping[str, Baseline]:
        """Return the error of predicting zero, of guessing where labels are classes,
        where it is among the values.
        """
        if "null_error" not in values:
            return {}
        words = "guessing" if self.has_classes() else "predicting zero"
        return {"test_error": Baseline(words, values["null_error"])}


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
    questions: ClassVar[Mapping[str, Question]] = {**QUESTIONS, **plugins.questions()}
    theories: ClassVar[Mapping[str, str]] = THEORIES
    papers: ClassVar[tuple[str, ...]] = (
        *OWN_PAPERS,
        "giantstep2026batch",
        "giantstep2026sign",
        *NETWORK_PAPERS,
    )
    paper_symbols: ClassVar[Mapping[str, Paper]] = NETWORK_PAPERS
    notation: ClassVar[Mapping[str, Mapping[str, str]]] = notation_of(NETWORK_PAPERS)
    # records of older numbers are told apart by it
    formula_version: ClassVar[int] = 4
    # one pass over the data of a fit answers all sample sizes and ridges
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
        # E y^2 must exist: it is the error of predicting zero
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
        # planted steps and steps on the population see no sample that a fit could share
        drawn = self.steps and "batch_per_dim" in type(self.steps[-1]).model_fields
        if self.fit_sample == "same" and not drawn:
            raise bad_field(
                "fit_sample",
                "same",
                '"fresh" unless the last step is a gradient step with a sample',
            )
        if self.inputs is not None:
            try:
                # the part does not know which field it is: its errors are named here
                self.inputs.check_directions(self.target.directions)
            except InputError as error:
                raise error.inside("inputs") from None
        # last: it needs parts that fit together
        self.check_points(self.point())

    def check_points(self, points: Points) -> None:
        """Refuse what no experiment could answer either."""
        self._check_ridge(points)
        self._check_label_noise(points)
        for place in self.places:
            self._check_step(place, points)
        self._check_spikes(points)
        if self.fit_sample == "same":
            self._check_one_sample(points)

    def _check_ridge(self, points: Points) -> None:
        """Refuse the ridgeless fit of as many samples as neurons."""
        samples = points["samples_per_dim"]
        # there the smallest eigenvalue of Phi^T Phi reaches 0
        square = samples == points["width_per_dim"]
        if np.any((points["readout.ridge"] == 0) & square):
            allowed = (
                "above 0 where samples_per_dim = width_per_dim (the ridgeless error"
                " diverges there)"
            )
            raise bad_field("readout.ridge", 0.0, allowed)

    def _check_label_noise(self, points: Points) -> None:
        """Refuse noise that is added to classes, and flips of labels that are none."""
        if self.readout.classes:
            allowed = (
                f'0 where readout.kind="{self.readout.kind}": classes are flipped with'
                " `flip`"
            )
            _refuse(points, "noise", allowed, 0.0)
        else:
            allowed = (
                '0 where readout.kind="ridge" (scale the target and add the noise 4'
                " flip (1 - flip) instead)"
            )
            _refuse(points, "flip", allowed, 0.0)

    def _check_step(self, place: Place, points: Points) -> None:
        """Refuse a bulk of no length, and an inverse that does not exist."""
        # rows without a bulk have no random features
        if np.any(points.get(place.field("bulk"), 1.0) == 0):
            raise bad_field(place.field("bulk"), 0.0, "different from 0")
        name = place.field("precondition")
        powers = points.get(name, np.zeros(1))
        # c = 0 is no preconditioner, and isotropic inputs have no eigenvalue 0
        if self.inputs is None or not np.any(powers > 0):
            return
        if self.input_law().eigenvalues.min() == 0:
            allowed = "0 where an eigenvalue of inputs is 0"
            raise bad_field(name, float(powers.max()), allowed)

    def _check_spikes(self, points: Points) -> None:
        """Refuse planted spikes along different directions."""
        # the limit has one axis for them: `PlantedSpike.turned`
        names = [place.field("alignment") for place in self.places]
        names = [name for name in names if name in points]
        for name in names[1:]:
            allowed = f"that of {names[0]}: all planted spikes lie along one direction"
            _refuse(points, name, allowed, points[names[0]])

    def _check_one_sample(self, points: Points) -> None:
        """Refuse sizes that differ where step and fit have one sample."""
        samples = points["samples_per_dim"]
        paired = ""
        if len(samples) > 1:
            paired = "; lists that vary together are DataArrays over one dimension"
        allowed = (
            'equal to samples_per_dim={0:g} where fit_sample="same" (one sample for'
            f" both{paired})"
        )
        _refuse(points, self.places[-1].field("batch_per_dim"), allowed, samples)

    def content(self) -> dict[str, Any]:
        """Return the scenario as plain JSON data; later fields are left out where they
        have their defaults.
        """
        content = super().content()
        # digests of scenarios that were written before these fields must stay
        for name, default in {"coordinates": "gaussian", "shift": None}.items():
            if content[name] == default:
                del content[name]
        return content

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
        # a limit does not need the experiment's gradient: it is loaded here
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
        # a fit of classes, or a ridge fit to such labels, is judged by the labels
        if self.sign_direction is not None:
            return self.sign_direction
        if self.target.directions == 1:
            return np.ones(1)
        return None

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
            # the standard normal law
            return 0.0, 1.0
        mean = np.dot(law.values, law.probabilities)
        square = np.dot(np.square(law.values), law.probabilities)
        return float(mean), float(square)

    def input_law(self, dim: float = math.inf) -> InputLaw:
        """Return the law of the inputs at a dimension (inf: the limit)."""
        r = self.target.directions
        if self.inputs is None:
            # isotropic inputs: one atom with all of the target
            return InputLaw.of_shares(np.ones(1), np.ones(1), np.ones((r, 1)))
        return self.inputs.law(dim, r)

    @cached_property
    def isotropic(self) -> bool:
        """Whether the inputs have one eigenvalue at every point of a grid, whatever
        they are called.
        """
        if self.inputs is None:
            return True
        # a field that has a number may be given other values along a grid
        if any(name.startswith("inputs.") for name in self.numbers):
            return False
        return self.input_law().isotropic

    def has_classes(self) -> bool:
        """Tell whether a logistic or hinge fit takes the labels as classes."""
        return self.readout.classes

    @classmethod
    def example(cls) -> Network:
        """Return a small valid scenario."""
        return cls(
            target="z1 + z1*z2",
            noise=0.1,
            width_per_dim=1.5,
            steps=(MaximalStep(2.0), MaximalStep(1.0)),
            readout=Ridge(0.1),
            samples_per_dim=2.0,
        )

    @classmethod
    def example_for(cls, what: str) -> Network:
        """Return a small valid scenario for a question: spikes have one of a small
        step.
        """
        if what not in ("weights", "spikes"):
            return cls.example()
        # large enough for an outlier of the weights at p/d = 1.5
        step = step_class("small")(4, batch_per_dim=4, update="rank-one")
        return cls.example().replace(
            target="tanh(z)", activation="relu(z) - 1/sqrt(2*pi)", steps=[step]
        )

    @classmethod
    def composition(cls) -> Mapping[str, str]:
        """Return what the limit makes of every pair of options after one maximal step
        and after two.
        """
        # a table for the docs, which builds many networks
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
        return {
            "block": self.blocks,
            "block_2": self.blocks,
            "direction": self.target.directions,
            "direction_2": self.target.directions,
        }

    def kept(self, what: str) -> tuple[Variable, ...]:
        """Return what `keep_networks` adds: both layers and the target, and the
        eigenvalues of a spectrum.
        """
        kept = list(KEPT)
        if what in FITTED:
            kept += KEPT_FITS
        if what == "spectrum":
            kept += KEPT_SPECTRA
        return tuple(kept)


def _refuse(points: Points, name: str, allowed: str, only: Any) -> None:
    """Refuse the first value of a field that is not the `only` one allowed, which the
    words may name.
    """
    other = np.flatnonzero(points[name] != only)
    if other.size:
        # `only` is a number, or an array with one value for every point
        value = np.broadcast_to(only, points[name].shape)[other[0]]
        raise bad_field(name, float(points[name][other[0]]), allowed.format(value))
