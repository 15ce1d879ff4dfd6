"""Whether a network learns a target, in how many samples, and why: `giantstep.learnable`.

The exponents of `giantstep.exponents` are conditions on the target. Here the student has its say: which Hermite orders
its activation sees (c_n != 0), which sign its second layer gives them, and which transform of the label its algorithm
applies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep._names import callable_module
from giantstep.errors import InputError, bad_field
from giantstep.gaussian.exponents import (
    Prepared,
    activation_hermite,
    direction_text,
    exponents,
    samples_needed,
    tidy_signs,
)
from giantstep.gaussian.functions import Function, as_function
from giantstep.gaussian.repetition import Repetition, label_rule, repetition
from giantstep.gaussian.staircase import (
    HIGHEST,
    Sampled,
    Stage,
    coefficients,
    complement,
    multi_indices,
    staircase,
    tidy,
)
from giantstep.gaussian.target import Target, as_target
from giantstep.types import Floats
from giantstep.vocabulary import Vocabulary

if TYPE_CHECKING:
    import xarray

    from giantstep.scenario import Scenario

ONE_PASS = ("squared", "correlation")
REPEATED = ("extragradient", "sam", "two-step", "exponential")
ROUNDS = ("reused", "single-pass")
ALGORITHMS = (*ONE_PASS, *REPEATED, "giant-steps", *ROUNDS)
HIGHEST_DEGREE = 12
_RATES = {"two-step": 0.05}
_SMALL = 1e-9
WEAK_COSINE = 0.1
"""The cosine whose time is told for a linear start: the time is this over the initial speed."""


@dataclass(frozen=True)
class Found:
    """One stage of what the student learns: new directions (rows), the order it takes, and the samples."""

    order: int
    directions: Floats
    samples: str
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "order": self.order,
            "directions": self.directions.tolist(),
            "samples": self.samples,
            "note": self.note,
        }


@dataclass(frozen=True)
class Verdict:
    """The answer of `giantstep.learnable`.

    Attributes
    ----------
    target, activation, algorithm, second_layer : what was asked.
    learned : whether every direction of the target is found.
    samples : ``"d"``, ``"d log d"``, ``"d^2"``, ... for the slowest direction found, ``"never"`` where none is found.
    exponent : the power of d in it; inf where some direction is never found.
    constant : samples over that power (and log d) of the first stage where it is known, else None; at the rate in
        ``data``.
    reason : one sentence.
    stages : what is found, in order.
    hidden : (m, k) orthonormal rows, the directions that are never found.
    data : the numbers behind it.
    """

    target: Target
    activation: Function
    algorithm: str
    second_layer: tuple[float, ...]
    learned: bool
    samples: str
    exponent: float
    constant: float | None
    reason: str
    stages: tuple[Found, ...]
    hidden: Floats
    data: dict[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.learned

    def __str__(self) -> str:
        head = f"{self.algorithm}, {self.activation.name} on {self.target.name}: "
        if not self.stages:
            return f"{head}never, because {self.reason}"
        about = f"about {self.constant:.3g} {self.samples}" if self.constant else f"about {self.samples}"
        done = "learned" if self.learned else "only in part, the rest never"
        lines = [f"{head}{done}, in {about} samples, because {self.reason}"]
        for stage in self.stages:
            what = ", ".join(direction_text(row) for row in stage.directions)
            note = f" ({stage.note})" if stage.note else ""
            lines.append(f"  order {stage.order}: {what} in {stage.samples} samples{note}")
        if len(self.hidden):
            lines.append("  never: " + ", ".join(direction_text(row) for row in self.hidden))
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as strict JSON data."""
        return {
            "target": self.target.expression or self.target.name,
            "activation": self.activation.name,
            "algorithm": self.algorithm,
            "second_layer": list(self.second_layer),
            "learned": self.learned,
            "samples": self.samples,
            "exponent": "inf" if math.isinf(self.exponent) else self.exponent,
            "constant": self.constant,
            "reason": self.reason,
            "stages": [stage.to_dict() for stage in self.stages],
            "hidden": self.hidden.tolist(),
            "data": self.data,
        }

    def scenario(self, dim: int = 512, **fields: Any) -> Scenario:
        """Return the scenario whose experiment shows the verdict: run it with `giantstep.simulate` or `compare`.

        One sample at a time (`OnlineSGD`) at the rate of ``data``; three giant steps on 4 d samples (`GiantSteps`).
        """
        from giantstep.families import family_class

        problem: dict[str, Any] = {"target": self.target, "activation": self.activation}
        if self.algorithm == "giant-steps":
            law = Vocabulary(list(dict.fromkeys(self.second_layer)))
            known = {"second_layer": law, "rate": 1.0, "batch_per_dim": 4.0, "steps": 3, "width": 40}
            return family_class("giant-steps")(**{**problem, **known, **fields})
        if self.algorithm in ROUNDS:
            known = {"second_layer": list(self.second_layer), "samples_per_dim": 3.0, "rate": 0.2, "steps": 4}
            known["data"] = "reused" if self.algorithm == "reused" else "fresh"
            return family_class("batch-reuse")(**{**problem, **known, **fields})
        rate, p = float(self.data["rate"]), len(self.second_layer)
        known = {
            "second_layer": list(self.second_layer),
            "dim": dim,
            "batch_size": 1,
            "rate": rate * p / dim,
            "steps": 50 * dim,
            "algorithm": self.algorithm,
            "initial_overlap": "zero",
        }
        if self.algorithm in ("extragradient", "sam"):
            known["inner_rate"] = self.data["inner_rate"]
        return family_class("online-sgd")(**{**problem, **known, **fields})

    def experiment(self, dim: int = 128, *, runs: int = 32, seed: int = 0, **fields: Any) -> xarray.Dataset:
        """Run the network of `scenario` and return the largest cosine of any neuron with each direction at the end.

        One-pass runs last as long as the verdict says where its constant is known (at least 50 d samples, at most
        400 d), 50 d samples otherwise.

        Parameters
        ----------
        dim, runs, seed : of the experiment.
        fields : further fields of the scenario.

        Returns
        -------
        ``cosine`` and ``cosine_stderr`` over ``direction``: mean over runs of max_j |cosine_j|. The attribute ``text``
        says it in a sentence; a network that learns nothing has cosines of the order of d^-1/2.
        """
        import xarray

        from giantstep.study import simulate

        rounds = self.algorithm == "giant-steps" or self.algorithm in ROUNDS
        if rounds:
            scenario = self.scenario(dim, **fields)
            found = simulate(scenario, dim=dim, trials=runs, seed=seed, keep_trials=True)["cosine"].isel(time=-1)
            best = abs(found).max([name for name in found.dims if name not in ("trial", "direction")])
            mean, error = best.mean("trial"), best.std("trial", ddof=1) / math.sqrt(runs)
            length = f"{scenario.numeric_fields()['steps'][0]:.0f} steps"
        else:
            log = math.log(dim) if "log" in self.samples else 1.0
            lasting = min(max(50.0, 1.2 * (self.constant or 0.0) * log), 400.0)
            scenario = self.scenario(dim, **{"steps": round(lasting * dim), **fields})
            per_trial = max(1, runs // 4)
            last = int(scenario.numeric_fields()["steps"][0])
            ends = simulate(scenario, trials=4, runs=per_trial, times=[last], seed=seed).isel(time=-1)
            runs, mean, error = 4 * per_trial, ends["best"], ends["best_stderr"]
            length = f"{last / dim:.4g} d samples"
        each = ", ".join(
            f"{m:.3f}({e:.3f}) with {direction_text(row)}"
            for m, e, row in zip(mean.values, error.values, np.eye(self.target.directions))
        )
        text = (
            f"experiment, d = {dim}, {runs} runs of {length}: largest cosine {each} (by chance about {dim**-0.5:.2f})"
        )
        values = {"cosine": mean.drop_vars("time"), "cosine_stderr": error.drop_vars("time")}
        return xarray.Dataset(values, attrs={"text": text, "dim": dim, "runs": runs, "seed": seed})


def learnable(
    target: str | Callable[[Any], Any] | Target,
    activation: str | Callable[[Any], Any] | Function = "relu",
    algorithm: str = "squared",
    second_layer: Sequence[float] | Vocabulary | None = None,
    *,
    rate: float | None = None,
    inner_rate: float | None = None,
    noise: float = 0.0,
) -> Verdict:
    """Say whether a two-layer network learns a target, in about how many samples, and why.

    Parameters
    ----------
    target : an expression in z or z1..zk, or what `giantstep.Target` takes.
    activation : of the student.
    algorithm : ``"squared"`` and ``"correlation"`` (one-pass SGD), ``"extragradient"``, ``"sam"``, ``"two-step"``,
        ``"exponential"`` (a sample used twice, or a nonlinear loss), ``"giant-steps"`` (few steps on large fresh
        batches), ``"reused"`` and ``"single-pass"`` (few steps on one batch of order d, kept or fresh).
    second_layer : the fixed second layer: a list, a Vocabulary (its values), [1.0] if left out ([1, -1] for giant
        steps).
    rate, inner_rate, noise : gamma_0 and rho_0 of the notes and the variance of the label noise, for the constants.

    Examples
    --------
    >>> print(learnable("h3(z)", "relu", "squared"))
    squared, relu on h3(z): never, because c_3 = 0 for relu, and no higher order of the target is seen by it
    >>> learnable("h3(z)", "relu", "extragradient").samples
    'd'
    """
    if algorithm not in ALGORITHMS:
        raise bad_field("algorithm", algorithm, "one of " + ", ".join(ALGORITHMS))
    h, s = as_target(target), as_function(activation)
    a = _second_layer(second_layer, algorithm)
    for name, value in (("rate", rate), ("noise", noise)):
        if value is not None and not (isinstance(value, int | float) and math.isfinite(value) and value >= 0):
            raise bad_field(name, value, "a finite number, at least 0")
    if algorithm in ROUNDS:
        return _rounds(h, s, algorithm, a)
    if s.jumps:
        raise bad_field("activation", s.name, "a function without jumps (it needs a derivative)")
    if algorithm == "giant-steps":
        return _giant_steps(h, s, a)
    gamma = rate if rate is not None else _RATES.get(algorithm, 0.01)
    if algorithm in ONE_PASS:
        return _one_pass(h, s, algorithm, a, gamma, noise)
    rho = inner_rate if inner_rate is not None else (-0.1 if algorithm == "sam" else 0.1)
    if algorithm == "sam" and rho > 0:
        raise bad_field("inner_rate", rho, 'below 0 where algorithm="sam"')
    return _repeated(h, s, algorithm, a, gamma, gamma if algorithm == "two-step" else rho, noise)


def _second_layer(value: Any, algorithm: str) -> tuple[float, ...]:
    if value is None:
        return (1.0, -1.0) if algorithm == "giant-steps" else (1.0,)
    if isinstance(value, Vocabulary):
        return value.values
    numbers = np.asarray(value, dtype=float) if not isinstance(value, str) else np.array([])
    if numbers.ndim != 1 or not len(numbers) or not np.all(np.isfinite(numbers)) or not np.any(numbers):
        raise bad_field("second_layer", value, "a list of finite numbers, not all zero")
    return tuple(numbers.tolist())


# -- one pass ----------------------------------------------------------------------------------------------


def _one_pass(h: Target, s: Function, algorithm: str, a: tuple[float, ...], rate: float, noise: float) -> Verdict:
    view = Prepared.of(h)
    c = activation_hermite(s, HIGHEST_DEGREE)
    seen = {n for n in range(1, HIGHEST_DEGREE + 1) if c[n] != 0}
    samples = view.samples(repeated=False)
    first, signs_note = _first_stage(view, samples, c, seen, a)
    facts = exponents(h, s)
    data: dict[str, Any] = {
        "information": _finite(facts.information),
        "leap_stages": facts.leap_stages,
        "c": c.tolist(),
        "hermite": facts.hermite.tolist(),
        "rate": rate,
        "inner_rate": 0.0,
    }
    if first is None:
        return _never(h, s, algorithm, a, signs_note or _unseen(facts.information, s, c), data)
    found = staircase(*samples, degrees=seen, start=[first])
    stages = tuple(
        Found(stage.order, tidy_signs(stage.directions @ view.basis), samples_needed(stage.order), _through(stage, c))
        for stage in found.stages
    )
    constant = None
    if first.order <= 2:
        grid = label_rule(view.inner, view.planes)
        drifts = repetition(view.inner, grid, s, a, algorithm, 0.0, noise)
        constant, speed, blocked = _constant(drifts, first.order, rate)
        data |= speed
        if blocked:
            return _never(h, s, algorithm, a, blocked, data)
    worst = max(stage.order for stage in found.stages)
    learned = found.complete
    leading = first.degrees[0]
    reason = f"c_{leading} C_{leading} of {s.name} and the target is not zero at order {leading}, the first both have"
    if first.order > facts.information:
        low = int(facts.information)
        reason += f" (c_{low} = 0 hides order {low})" if c[low] == 0 else f" ({signs_note})"
    if not learned:
        reason += "; " + _rest(s, facts, found.stages)
    return _verdict(h, s, algorithm, a, stages, learned, worst, constant, reason, data, view)


def _first_stage(
    view: Prepared, samples: tuple[Sampled, Sampled], c: Floats, seen: set[int], a: tuple[float, ...]
) -> tuple[Stage | None, str]:
    """Return the first stage a student of these coefficients and signs takes, or why there is none."""
    r, note = view.inner.directions, ""
    empty = np.zeros((0, r))
    for order in range(1, HIGHEST[r] + 1):
        if order not in seen:
            continue
        only = staircase(samples[0], samples[1], degrees={order}, cap=order)
        if not only.stages or only.stages[0].order != order:
            continue
        stage = only.stages[0]
        if order % 2 or min(a) < 0 < max(a):
            return stage, note
        values = coefficients(samples[0], empty, np.eye(r), order, 0)[0][0, 0]
        grown = _growing(values, r, order, math.copysign(1.0, sum(a)) * c[order])
        if len(grown):
            return Stage(order, tidy(grown), stage.degrees, stage.strength), note
        note = f"a c_{order} C_{order} < 0 with a second layer of one sign: overlap zero is stable, not merely slow"
    return None, note


def _growing(values: Floats, r: int, order: int, sign: float) -> Floats:
    """Directions along which sign * C_k(u, ..., u) is positive: eigenvectors for k = 2, else the best u, if any."""
    indices = multi_indices(r, order)
    scale = [
        math.factorial(order) / math.sqrt(math.prod(math.factorial(n) for n in index)) * value
        for index, value in zip(indices, values)
    ]
    if order == 2:
        matrix = np.zeros((r, r))
        for index, value in zip(indices, scale):
            axes = [axis for axis, n in enumerate(index) for _ in range(n)]
            matrix[axes[0], axes[1]] += value if axes[0] == axes[1] else value / 2
            matrix[axes[1], axes[0]] = matrix[axes[0], axes[1]]
        sizes, vectors = np.linalg.eigh(sign * matrix)
        return vectors[:, sizes > _SMALL].T
    u = np.random.default_rng(3).standard_normal((4000, r))
    u = np.concatenate([np.eye(r), u / np.linalg.norm(u, axis=1)[:, None]])
    form = sum(value * np.prod(u**index, axis=1) for index, value in zip(indices, scale))
    if float(np.max(sign * form)) <= _SMALL:
        return np.zeros((0, r))
    return np.eye(r) if r == 1 else u[np.argmax(sign * form)][None, :]


def _through(stage: Stage, c: Floats) -> str:
    used = [n for n in stage.degrees if n < len(c) and c[n] != 0]
    return f"through c_{used[0]}" if used else ""


def _unseen(information: float, s: Function, c: Floats) -> str:
    order = int(information)
    if order < len(c) and c[order] == 0:
        return f"c_{order} = 0 for {s.name}, and no higher order of the target is seen by it"
    return f"{s.name} and the target have no Hermite order in common"


def _rest(s: Function, facts: Any, stages: Sequence[Stage]) -> str:
    caveats = facts.caveats()
    if caveats:
        return str(caveats[0])
    return f"after {len(stages)} stage{'s' if len(stages) > 1 else ''} no Hermite order shared with {s.name} is left"


def _constant(drifts: Sequence[Repetition], order: int, rate: float) -> tuple[float | None, dict[str, Any], str]:
    """Return the constant of the first stage, the speeds as data, and a sentence where the noise stops the growth."""
    if order == 1:
        speed = max(rate * abs(found.value) * float(np.linalg.norm(found.drift)) for found in drifts)
        return WEAK_COSINE / speed if speed > 0 else None, {"speed": speed, "cosine": WEAK_COSINE}, ""
    growth = max(found.rate(rate)[0] for found in drifts)
    if growth <= 0:
        why = f"small cosines shrink at the rate {growth:.3g} per d samples at gamma_0 = {rate:g}: zero is stable"
        return None, {"growth": growth}, why
    return 1 / (2 * growth), {"growth": growth}, ""


# -- repetition --------------------------------------------------------------------------------------------


def _repeated(
    h: Target, s: Function, algorithm: str, a: tuple[float, ...], rate: float, rho: float, noise: float
) -> Verdict:
    view, facts = Prepared.of(h), exponents(h, s)
    drifts = repetition(view.inner, label_rule(view.inner, view.planes), s, a, algorithm, rho, noise)
    drift = np.array([found.drift for found in drifts])
    data: dict[str, Any] = {
        "generative": _finite(facts.generative),
        "generative_stages": facts.generative_stages,
        "rate": rate,
        "inner_rate": rho,
        "drift": (drift @ view.basis).tolist(),
    }
    scale = max(math.sqrt(found.second) for found in drifts)
    order = 1 if float(np.max(np.abs(drift))) > 1e-7 * scale else 2
    if facts.generative > 2 and order == 2:
        why = (
            f"the generative exponent is {facts.generative:g}: no function of the label sees less than order 3, "
            f"it takes {samples_needed(facts.generative)} samples at best"
        )
        return _never(h, s, algorithm, a, why, data)
    if facts.generative > 1 and order == 1:
        raise InputError(f"The quadrature of the target {h.name} is not accurate enough to tell its exponents.")
    constant, speed, blocked = _constant(drifts, order, rate)
    data |= speed
    if blocked:
        return _never(h, s, algorithm, a, blocked, data)
    stages = tuple(
        Found(stage.order, stage.directions, samples_needed(stage.order)) for stage in facts.generative_staircase.stages
    )
    if order == 2 and stages[0].order == 1:
        why = f"the label transform of {algorithm} with {s.name} has no mean along a direction, though others have"
        return _never(h, s, algorithm, a, why, data)
    stages = tuple(stage for stage in stages if stage.order <= 2)
    complete = facts.generative_staircase.complete and facts.generative_leap <= 2
    worst = max(stage.order for stage in stages)
    if order == 1:
        means = "the exponential loss" if algorithm == "exponential" else "using a sample twice"
        reason = f"{means} applies a nonlinear function to the label, and E[fbar(y) z] is not zero"
    else:
        reason = f"E[fbar(y) z] = 0 but small cosines grow at the rate {data['growth']:.3g} per d samples"
    if not complete:
        reason += "; the rest has generative order 3 or more"
    return _verdict(h, s, algorithm, a, stages, complete, worst, constant, reason, data, view)


# -- giant steps -------------------------------------------------------------------------------------------


def _giant_steps(h: Target, s: Function, a: tuple[float, ...]) -> Verdict:
    view, facts = Prepared.of(h), exponents(h, s)
    c = activation_hermite(s, HIGHEST_DEGREE)
    seen = {n for n in range(1, HIGHEST_DEGREE + 1) if c[n] != 0}
    found = staircase(*view.samples(repeated=False), degrees=seen)
    data: dict[str, Any] = {"leap_stages": facts.leap_stages, "c": c.tolist(), "steps": len(found.stages)}
    if not found.stages:
        return _never(h, s, "giant-steps", a, _unseen(facts.information, s, c), data)
    stages = tuple(
        Found(
            stage.order,
            tidy_signs(stage.directions @ view.basis),
            "d" if stage.order == 1 else f"d^{stage.order}",
            f"step {number}, {_through(stage, c)}",
        )
        for number, stage in enumerate(found.stages, 1)
    )
    worst = max(stage.order for stage in found.stages)
    count = len(stages)
    if worst == 1:
        reason = f"each of {count} step{'s' if count > 1 else ''} on O(d) samples sees one more direction linearly"
    else:
        hard = next(stage for stage in stages if stage.order == worst)
        what = ", ".join(direction_text(row) for row in hard.directions)
        has, it = ("has", "it") if len(hard.directions) == 1 else ("have", "them")
        reason = f"{what} {has} leap {worst} and one step needs a batch of order d^{worst} to see {it}"
    if not found.complete:
        reason += "; " + _rest(s, facts, found.stages)
    return _verdict(h, s, "giant-steps", a, stages, found.complete, worst + (worst > 1), None, reason, data, view)


# -- a constant number of steps on one batch ---------------------------------------------------------------


def _rounds(h: Target, s: Function, algorithm: str, a: tuple[float, ...]) -> Verdict:
    from giantstep.gaussian.reuse import describe_span, learned_rounds

    both = {name: learned_rounds(h, s, a, name) for name in ROUNDS}  # type: ignore[arg-type]
    found = both[algorithm]
    (other,) = (name for name in ROUNDS if name != algorithm)
    rival = describe_span(both[other].learned) if both[other].rounds else "nothing"
    stages = tuple(Found(1, new, "d", f"round {number}") for number, new in enumerate(found.rounds, 1) if len(new))
    learned = len(found.learned) == h.directions
    data = {
        "rounds": list(found.dimensions),
        "strengths": [values.tolist() for values in found.strengths],
        "symmetries": found.symmetry.certificate(),
        "allowed": found.symmetry.allowed.tolist(),
        other: [new.tolist() for new in both[other].rounds],
    }
    return Verdict(
        h,
        s,
        algorithm,
        a,
        learned,
        "d" if stages else "never",
        1.0 if learned else math.inf,
        None,
        f"{found.reason.rstrip('.')}; {'a reused batch' if other == 'reused' else 'a single pass'} learns {rival}",
        stages,
        found.hidden,
        data,
    )


# -- verdicts ----------------------------------------------------------------------------------------------


def _verdict(
    h: Target,
    s: Function,
    algorithm: str,
    a: tuple[float, ...],
    stages: tuple[Found, ...],
    learned: bool,
    worst: int,
    constant: float | None,
    reason: str,
    data: dict[str, Any],
    view: Prepared,
) -> Verdict:
    known = np.concatenate([stage.directions for stage in stages])
    inside = known @ view.basis.T
    hidden = complement(tidy(inside), len(view.basis)) @ view.basis if len(inside) < len(view.basis) else known[:0]
    exponent = float(max(1, worst - 1)) if learned else math.inf
    slowest = samples_needed(worst)
    return Verdict(h, s, algorithm, a, learned, slowest, exponent, constant, reason, stages, hidden, data)


def _never(h: Target, s: Function, algorithm: str, a: tuple[float, ...], reason: str, data: dict[str, Any]) -> Verdict:
    rows = Prepared.of(h).basis
    return Verdict(h, s, algorithm, a, False, "never", math.inf, None, reason, (), rows, data)


def _finite(value: float) -> float | str:
    return "inf" if math.isinf(value) else int(value)


callable_module(__name__, learnable)
