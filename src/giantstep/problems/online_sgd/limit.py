"""The limit of one-pass SGD: trajectories, recovery times, exponents; batched over
points and starts.

One neuron and one direction leave the saddle at M = 0 by noise. On the sphere, near m =
0, dm = r m dt + sqrt(Dm) dB with Dm = g^2 a^2 E[F^2 z^2]/n_b, and m grows out of it as
m_inf exp(r t), m_inf = m_0 + sqrt(Dm/2r) N. Then the mean time to |m| = m* is

    T = -E[log m_inf^2]/(2r) + lim_{e -> 0} { int_e^{m*} dm/b(m) + log(e)/r }, b the
    drift of the ODE,

gradient_dynamics (2.5a). Without a constraint the cosine c = m/sqrt(q) obeys the same
law with (4.2a).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import digamma, gammaln, xlogy

from giantstep.core.base.errors import bad_field
from giantstep.core.base.types import Array, Floats, Points
from giantstep.core.maths.gaussian.quadrature import gauss_legendre_panels
from giantstep.core.maths.gaussian.resolution import (
    HERMITE_STEP,
    resolve,
    rough_sentence,
)
from giantstep.core.scenario.answer import Answer
from giantstep.core.scenario.checks import check_number, check_whole
from giantstep.problems.learnability.batch_exponents import (
    best_batch,
    largest_rate,
    phase_names,
    shortest_time,
    time_at_rate,
)
from giantstep.problems.learnability.exponents import exponents
from giantstep.problems.online_sgd import states
from giantstep.problems.online_sgd.dynamics import (
    flow,
    length_error,
    map_recovery,
    map_trajectory,
    noise_of_an_update,
    ode_recovery,
    ode_trajectory,
)
from giantstep.problems.online_sgd.integrators import (
    SCRAMBLES,
    Integrator,
    Summation,
    force_moments,
    integrator_for,
)
from giantstep.problems.online_sgd.scenario import OnlineSGD
from giantstep.problems.online_sgd.states import DIVERGED_REASON, Drive, drive_of
from giantstep.problems.online_sgd.tolerances import (
    COARSE,
    NOISY,
    SAME_EXPONENT,
    UNSEEN,
)

SECONDS_OF_UPDATE = 1.1e-4
"""Seconds of CPU of an update of the map, of one neuron and direction: what a bar says
beforehand.
"""
KEPT = 400
"""Updates of a trajectory that are kept where none are asked for, denser early: a curve
on a screen.
"""


def prepare(
    scenario: OnlineSGD, points: Points, what: str, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Check the settings, choose the updates that are kept: those asked for, or some
    and the last of each point.
    """
    settings = dict(settings)
    if what == "trajectory":
        wanted = settings["times"]
        steps = points["steps"]
        last = int(steps.max())
        if wanted is None:
            times = np.union1d(np.round(last * np.linspace(0, 1, KEPT) ** 2), steps)
        else:
            times = np.atleast_1d(np.asarray(wanted))
            if (
                np.iscomplexobj(times)
                or np.any(times != np.round(times))
                or np.any(times < 0)
                or np.any(times > last)
            ):
                raise bad_field(
                    "times",
                    np.asarray(wanted).tolist(),
                    f"whole numbers from 0 to steps = {last}",
                )
        settings["time"] = np.unique(times).astype(np.int64)
    if what == "recovery":
        settings["threshold"] = check_number(
            "threshold",
            settings["threshold"],
            "a number above 0 and below 1",
            lambda value: 0 < value < 1,
        )
    if settings.get("nodes") is not None:
        settings["nodes"] = check_whole(
            "nodes", settings["nodes"], "a whole number from 2 to 200", 2, 200
        )
    return settings


def limit(
    scenario: OnlineSGD, points: Points, what: str, settings: Mapping[str, Any]
) -> Answer:
    """Answer all points at once."""
    if what == "phases":
        return _phases(scenario, points)
    if what == "recovery":
        return _recovery(scenario, points, settings)
    return _trajectory(scenario, points, settings)


def beforehand(
    scenario: OnlineSGD, points: Points, what: str, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Return the escape from the saddle, which needs no iteration."""
    if what != "recovery":
        return {}
    chosen = (scenario, settings["moments"], settings["nodes"], settings["points"])
    escape_time, escape_rate = escape(
        scenario, points, settings["threshold"], integrator_for(*chosen)
    )
    return {"escape_time": escape_time, "escape_rate": escape_rate}


class _Batch:
    """Points times starts, flattened: their states, their drive, and integrators,
    several where moments are sampled.
    """

    def __init__(
        self, scenario: OnlineSGD, points: Points, settings: Mapping[str, Any]
    ) -> None:
        self.scenario = scenario
        trials = int(settings.get("trials") or settings["starts"])
        random = (
            scenario.initial_overlap in ("random", "gaussian")
            or scenario.initial_gram == "random"
        )
        if random:
            self.runs, self.trials = (int(settings["runs"]), trials)
        else:
            self.runs, self.trials = (1, 1)
        self.count = len(points["rate"])
        seed = int(settings.get("seed", 0))
        each = itertools.product(points["dim"], range(self.trials))
        begin = [
            states.starts(scenario, int(dim), seed, trial, self.runs)
            for dim, trial in each
        ]
        self.M, self.Q = (np.concatenate(parts) for parts in zip(*begin))
        self.point = np.repeat(np.arange(self.count), self.runs * self.trials)
        self.drive = states.drive_of(scenario, points, settings.get("theory")).take(
            self.point
        )
        chosen = (scenario, settings["moments"], settings["nodes"], settings["points"])
        self.integrators: list[Integrator] = [integrator_for(*chosen)]
        if self.integrators[0].sampled:
            self.integrators += [
                integrator_for(*chosen, scramble) for scramble in range(1, SCRAMBLES)
            ]
            self.drive = replace(
                self.drive,
                blocks=states.equal_neurons(self.drive.second_layer, self.M, self.Q),
            )

    def moment_error(self, M: Floats, Q: Floats) -> float:
        """Return the relative error of the moments at one state."""
        return self.integrators[0].error(
            states.rows(M[None], Q[None]), self.drive.inner[:1], self.drive.noise[:1]
        )

    def noise_warning(self, scenario: OnlineSGD, theory: str | None) -> list[str]:
        """Warn where the first update is so noisy that a map of means need not hold."""
        if scenario.constraint == "none" or theory == "ode":
            return []
        with np.errstate(all="ignore"):
            noise = noise_of_an_update(self.integrators[0], self.drive, self.M, self.Q)
            off = length_error(noise, self.drive.batch)
        worst = int(np.argmax(np.nan_to_num(off)))
        if not off[worst] > NOISY:
            return []
        return [
            f"One update adds {noise[worst]:.2g} to the squared length of a row (1) by"
            f" the noise of its {self.drive.batch[worst]:.0f} samples: the limit is a"
            f" map of means, whose overlaps may be off by {100 * off[worst]:.0f}% or"
            " more here. A smaller rate or more samples an update mend that."
        ]

    def answer(
        self,
        values: dict[str, Array],
        status: Any,
        residual: Any,
        iterations: Any,
        error: float,
    ) -> Answer:
        """Return the answer with what is known of its moments."""
        facts = {"moments": self.integrators[0].name, "moment_error": float(error)}
        answer = Answer(values, status, residual, iterations, attrs=facts)
        if error > COARSE and not self.integrators[0].sampled:
            answer.warnings.append(
                f"The Gaussian moments are good to about {error:.1g} only; raise"
                " `nodes` or take Sobol points."
            )
        if not self.integrators[0].sampled:
            self._flag_rough_target(answer)
        return answer

    def _flag_rough_target(self, answer: Answer) -> None:
        """Flag what was computed with a target that the rules do not see as it is."""
        target = self.scenario.target
        rough = resolve(target, HERMITE_STEP).error
        answer.residual = np.fmax(answer.residual, rough)
        if rough > UNSEEN:
            unsaid = np.asarray(answer.status) == ""
            answer.status = np.where(
                unsaid, rough_sentence(target, rough), answer.status
            )
            for name, values in answer.values.items():
                answer.values[name] = np.full_like(
                    np.asarray(values, dtype=float), np.nan
                )


def _trajectory(
    scenario: OnlineSGD, points: Points, settings: Mapping[str, Any]
) -> Answer:
    times = settings["time"]
    batch = _Batch(scenario, points, settings)
    if settings.get("theory") == "ode":
        move = ode_trajectory
    else:
        move = map_trajectory
    paths = [
        states.observe(
            scenario,
            integrator,
            *move(integrator, batch.drive, batch.M, batch.Q, times),
        )
        for integrator in batch.integrators
    ]
    values: dict[str, Array] = {}
    for name in paths[0]:
        shape = (batch.count, -1, *paths[0][name].shape[1:])  # points, starts
        replicas = np.stack(
            [states.average(name, path[name].reshape(shape), 1) for path in paths]
        )
        values[name] = replicas.mean(axis=0)
        if len(paths) > 1:
            values[f"{name}_stderr"] = replicas.std(axis=0, ddof=1) / np.sqrt(
                len(paths)
            )
    error = batch.moment_error(batch.M[0], batch.Q[0])
    last_M = paths[0]["M"][0, -1] @ np.linalg.inv(scenario.whitening).T
    last_Q = paths[0]["Q"][0, -1]
    if np.all(np.isfinite(last_Q)):
        error = max(error, batch.moment_error(last_M, last_Q))
    made = times <= points["steps"][:, None]  # neighbours may go on for longer
    status = np.where((np.isnan(values["mse"]) & made).any(axis=1), DIVERGED_REASON, "")
    values = {
        n: np.where(made.reshape(*made.shape, *[1] * (v.ndim - 2)), v, np.nan)
        for n, v in values.items()
    }
    iterations = np.full(batch.count, int(times[-1]))
    answer = batch.answer(
        values, status, np.full(batch.count, error), iterations, error
    )
    answer.coords["time"] = times
    answer.warnings += batch.noise_warning(scenario, settings.get("theory"))
    return answer


def _recovery(
    scenario: OnlineSGD, points: Points, settings: Mapping[str, Any]
) -> Answer:
    threshold = settings["threshold"]
    batch = _Batch(scenario, points, settings)
    integrator = batch.integrators[0]
    if settings.get("theory") == "ode":
        move = ode_recovery
    else:
        move = map_recovery
    steps = np.asarray(points["steps"], dtype=float)[batch.point]
    time = move(
        integrator, batch.drive, batch.M, batch.Q, scenario.frame, threshold, steps
    )
    median = np.median(
        time.reshape(batch.count, batch.trials, batch.runs), axis=-1
    ).mean(axis=-1)
    status = np.where(np.isnan(median), DIVERGED_REASON, "").astype(object)
    never = np.isinf(median)
    from_zero = scenario.initial_overlap == "zero"
    status[never] = f"the cosine {threshold:g} was not reached within `steps`" + (
        " (a start without overlap may stay at a saddle)" if from_zero else ""
    )
    known = beforehand(scenario, points, "recovery", settings)
    if (
        from_zero
    ):  # a saddle without a start: the linear instability and the noise answer
        status[never & np.isfinite(known["escape_time"])] = ""
    median = np.where(np.isfinite(median), median, np.nan)
    values: dict[str, Array] = {
        "recovery_time": median,
        "recovery_samples": median * points["batch_size"] / points["dim"],
        **known,
        "recovered": np.isfinite(time).reshape(batch.count, -1).mean(axis=1),
    }
    error = batch.moment_error(batch.M[0], batch.Q[0])
    iterations = np.nan_to_num(median).astype(np.int64)
    answer = batch.answer(
        values, status.astype(str), np.zeros(batch.count), iterations, error
    )
    answer.warnings += batch.noise_warning(scenario, settings.get("theory"))
    return answer


def _phases(scenario: OnlineSGD, points: Points) -> Answer:
    """Answer with the exponents of the runs, and where they lie: gradient_dynamics
    sections 2.1 and 2.4.
    """
    count = len(points["rate"])
    d = np.log(points["dim"])
    mu = np.log(points["batch_size"]) / d
    delta = -np.log(points["rate"]) / d
    orders = exponents(scenario.target)
    algorithm = scenario.known_algorithm
    order = float(orders.information if algorithm.affine else orders.generative)
    correlation = algorithm.name == "correlation"
    gap = delta - (1 - mu)
    regime = np.select(
        [gap > SAME_EXPONENT, gap > -SAME_EXPONENT, delta > (1 - mu) / 2],
        ["population flow", "drift and noise (Saad-Solla)", "noise-dominated"],
        "not defined",
    )
    values = {
        "order": np.full(count, order),
        "mu": mu,
        "delta": delta,
        "theta": time_at_rate(order, mu, delta, correlation, SAME_EXPONENT),
        "theta_best": shortest_time(order, mu, correlation),
        "delta_best": largest_rate(order, mu, correlation),
        "mu_best": np.full(count, best_batch(order, correlation)),
        "theta_run": np.log(points["steps"]) / d,
        "phase": phase_names(order, mu, delta, correlation, SAME_EXPONENT),
        "regime": regime,
    }
    return Answer.closed(values)


# -- Leaving the saddle at M = 0: the mean escape time with its constant ---------------


SMALL = 1e-5
"""Overlap at which the slope of the drift is taken: its cubic term leaves 1e-10,
rounding 1e-11.
"""
DEEP = -20.0
"""log m from which the drift is linear."""


def escape(
    scenario: OnlineSGD, points: Points, threshold: float, integrator: Integrator
) -> tuple[Floats, Floats]:
    """Return the mean escape time in updates and the rate r at every point; NaN where
    nothing is unstable.
    """
    time, rate = np.full((2, len(points["rate"])), np.nan)
    single = (
        scenario.width == 1
        and scenario.directions == 1
        and scenario.constraint != "none"
    )
    if not single or integrator.sampled:
        return time, rate
    every = drive_of(scenario, points)
    plain = plain_integrator(scenario)
    for i in range(len(rate)):
        drive = every.take(slice(i, i + 1))
        low, high = drift_at(integrator, drive, np.array([-SMALL, SMALL]))[0]
        r = float((high - low) / (2 * SMALL))
        if r <= 0 or abs(low + high) > 1e-3 * abs(
            high - low
        ):  # stable, or no fixed point
            continue
        rate[i] = r
        variance = label_diffusion(plain, drive) / (2 * r)
        time[i] = -_mean_log(scenario, float(drive.dim[0]), variance) / (2 * r)
        time[i] += _constant(integrator, drive, r, threshold)
    return time, rate


def drift_at(
    integrator: Integrator, drive: Drive, m: Floats, q: float = 1.0
) -> tuple[Floats, Floats]:
    """Return dm/dt and dq/dt at overlaps m and squared norm q."""
    many = drive.take(np.zeros(len(m), dtype=int))
    dM, dQ = flow(integrator, many, m[:, None, None], np.full((len(m), 1, 1), q))
    return dM[:, 0, 0], dQ[:, 0, 0]


def plain_integrator(scenario: OnlineSGD) -> Summation:
    """Return a sum over nodes for the moments of one neuron without a constraint:
    closed forms know no E[F^2 z^2].
    """
    free = scenario.replace(constraint="none")
    integrator = integrator_for(free)
    if not isinstance(integrator, Summation):
        integrator = integrator_for(free, "tensor")
    assert isinstance(integrator, Summation)
    return integrator


def label_diffusion(integrator: Summation, drive: Drive, q: float = 1.0) -> float:
    """Return Dm = g^2 a^2 E[F^2 z^2]/n_b at m = 0, label noise included."""
    state = np.array([[[0.0, np.sqrt(q)]]]), drive.inner[:1], drive.noise[:1]
    nodes = integrator.nodes(*state[:2], integrator.labels(state[2]))
    total = force_moments(
        integrator.scenario, nodes._replace(norm=nodes.xi[:, 0] ** 2), *state
    ).spread.item()
    return float((drive.pace[0] * drive.second_layer[0]) ** 2 * total / drive.batch[0])


def _mean_log(scenario: OnlineSGD, dim: float, variance: float) -> float:
    """Return E log m_inf^2 for m_inf = m_0 + sqrt(variance) N."""
    if scenario.initial_overlap in ("gaussian", "zero"):
        start = 1 / dim if scenario.initial_overlap == "gaussian" else 0.0
        return float(np.log(variance + start) - np.euler_gamma - np.log(2))
    if scenario.initial_overlap == "random":
        start = 1 / dim
    else:
        start = float(np.square(scenario.initial_overlap).sum())
    mean = start / (2 * variance)
    if mean > 300:
        return float(np.log(start) - variance / start)
    n = np.arange(1000)
    poisson = np.exp(xlogy(n, mean) - mean - gammaln(n + 1))
    return float(np.log(2 * variance) + poisson @ digamma(n + 0.5))


def _constant(
    integrator: Integrator, drive: Drive, r: float, threshold: float
) -> float:
    """Return the limit in braces, integrated over u = log m."""
    top = np.log(threshold)
    u, weights = gauss_legendre_panels(np.linspace(DEEP, top, 13), 12)
    m = np.exp(u)
    drift, _ = drift_at(integrator, drive, m)
    linear = m < 1e-4  # there the difference is below rounding
    integrand = np.where(linear, 0.0, m / drift - 1 / r)
    if np.any(~linear & ~(drift > 0)):
        return np.inf
    return float(weights @ integrand + top / r)
