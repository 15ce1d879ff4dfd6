"""The studies whose numbers are on record: every family and question, both sides, small
enough to run in seconds.
"""

from __future__ import annotations

import math

import numpy as np

import giantstep as gs

SIZES = {"dim": 60, "trials": 3, "seed": 7}
PLANTED = gs.OneStep(
    activation="relu",
    target="relu(z)",
    width_per_dim=2.0,
    samples_per_dim=1.5,
    ridge=0.1,
    second_layer=gs.Vocabulary([1]),
    step=gs.PlantedSpike(strength=1.0),
)
TWO = gs.Vocabulary(values=[1, -1], probabilities=[0.6, 0.4])


def _one_step(step, **fields):
    given = {
        "activation": "relu",
        "target": "tanh(z)",
        "noise": 0.05,
        "second_layer": TWO,
        "ridge": 0.05,
    }
    sizes = {"width_per_dim": 1.3, "samples_per_dim": 2.0}
    return gs.OneStep(step=step, **{**given, **sizes, **fields})


MAXIMAL = _one_step(gs.MaximalStep(rate=0.8, batch_per_dim=gs.inf))
BATCH = _one_step(gs.MaximalStep(rate=0.8, batch_per_dim=3.0))
ODD = _one_step(
    gs.MaximalStep(rate=1.0, batch_per_dim=2.0), activation="tanh", target="sin(z)"
)
SMALL = _one_step(
    gs.SmallStep(rate=3.0, batch_per_dim=2.0), activation="tanh(z) + 0.3*h2(z)"
)
GROWING = _one_step(
    gs.GrowingStep(rate=1.0, batch_per_dim=2.0, exponent=0.3),
    activation="tanh(z) + 0.3*h2(z)",
)
SIGN = _one_step(
    gs.MaximalStep(rate=1.0, batch_per_dim=gs.inf),
    target="sign(z)",
    loss="logistic",
    noise=0.0,
    flip=0.05,
)
RATIOS = {"samples_per_dim": [0.5, 1.0, 3.0], "ridge": [1e-3, 0.3]}
MIXTURE = gs.MixtureGLM.example()
CLUSTERS = gs.SubspaceClustering.example()
ONLINE = gs.OnlineSGD.example()
GIANT = gs.GiantSteps.example()
REUSE = gs.BatchReuse.example()

LIMITS = {
    "one-step planted": (PLANTED, RATIOS, {}),
    "one-step planted, three values": (
        PLANTED.replace(second_layer=gs.Vocabulary([1.0, 0.5, -1.0])),
        RATIOS,
        {},
    ),
    "one-step planted, aligned by half": (
        PLANTED.replace(step__alignment=0.5, noise=0.1),
        RATIOS,
        {},
    ),
    "one-step planted, ridgeless": (
        PLANTED,
        {"samples_per_dim": [0.7, 4.0], "ridge": 0.0},
        {},
    ),
    "one-step planted, gaussian layer": (
        PLANTED.replace(second_layer="gaussian"),
        {"dim": [100, 1000]},
        {},
    ),
    "one-step planted, gaussian rows": (
        PLANTED.replace(rows="gaussian"),
        RATIOS,
        {"dim": 400},
    ),
    "one-step no step": (_one_step(gs.NoStep()), RATIOS, {}),
    "one-step maximal": (MAXIMAL, {**RATIOS, "step.rate": [0.5, 2.0]}, {}),
    "one-step maximal, isotropic": (MAXIMAL, RATIOS, {"theory": "isotropic"}),
    "one-step maximal at a dimension": (MAXIMAL, RATIOS, {"dim": 300}),
    "one-step linear": (MAXIMAL.replace(activation="z"), RATIOS, {}),
    "one-step kinked target": (MAXIMAL.replace(target="abs(z - 0.3)"), RATIOS, {}),
    "one-step finite batch, even": (
        BATCH,
        {"samples_per_dim": [0.5, 2.0], "step.batch_per_dim": [0.7, 5.0]},
        {},
    ),
    "one-step finite batch, odd": (
        ODD,
        {"samples_per_dim": [0.5, 2.0], "step.batch_per_dim": [0.7, 5.0]},
        {},
    ),
    "one-step finite batch at a dimension": (
        ODD,
        {"samples_per_dim": [0.5, 2.0]},
        {"dim": 200},
    ),
    "one-step finite batch, isotropic": (
        BATCH,
        {"samples_per_dim": [0.5, 2.0]},
        {"theory": "isotropic"},
    ),
    "one-step small": (SMALL, RATIOS, {}),
    "one-step small at a dimension": (SMALL, RATIOS, {"dim": 500}),
    "one-step small, same sample": (
        SMALL.replace(fit_sample="same", step__update="rank-one"),
        {"ridge": [0.1, 1.0]},
        {"dim": 500},
    ),
    "one-step growing": (GROWING, RATIOS, {}),
    "one-step growing at a dimension": (GROWING, RATIOS, {"dim": 500}),
    "one-step growing, own output": (
        GROWING.replace(step__initial_output=1),
        {"ridge": [0.1, 1.0]},
        {"dim": 500},
    ),
    "one-step logistic": (SIGN, {"ridge": [0.3, 1.0]}, {"dim": 300}),
    "one-step hinge": (SIGN.replace(loss="hinge"), {"ridge": [0.1, 1.0]}, {"dim": 300}),
    "one-step along": (MAXIMAL, RATIOS, {"what": "along"}),
    "one-step spectrum": (MAXIMAL, {}, {"what": "spectrum"}),
    "one-step spectrum on given points": (
        PLANTED,
        {"samples_per_dim": [1.0, 3.0]},
        {"what": "spectrum", "x": np.linspace(0.05, 4, 12)},
    ),
    "one-step spectrum of a finite batch": (
        ODD,
        {},
        {"what": "spectrum", "x": np.linspace(0.05, 4, 6)},
    ),
    "one-step resolvent": (
        MAXIMAL,
        {},
        {"what": "resolvent", "z": [0.5 + 0.1j, 2 + 0.05j]},
    ),
    "one-step resolvent of a finite batch": (
        BATCH,
        {},
        {"what": "resolvent", "z": [0.5 + 0.1j, 2 + 0.05j]},
    ),
    "one-step weights": (
        GROWING,
        {"step.rate": [0.5, 2.0]},
        {"what": "weights", "dim": 500},
    ),
    "one-step spikes": (
        GROWING,
        {"step.rate": [0.5, 2.0]},
        {"what": "spikes", "dim": 500},
    ),
    "one-step steps": (MAXIMAL, {"step.rate": [0.5, 2.0]}, {"what": "steps"}),
    "mixture": (MIXTURE, {"ridge": [0.01, 1.0]}, {}),
    "mixture square": (MIXTURE.replace(loss="square"), {"ridge": [0.01, 1.0]}, {}),
    "mixture hinge": (MIXTURE.replace(loss="hinge"), {"ridge": [0.1, 1.0]}, {}),
    "clusters": (CLUSTERS, {"snr": [1.0, 3.0, 8.0]}, {}),
    "online": (ONLINE, {"noise": [0.0, 0.1]}, {}),
    "giant": (GIANT, {"rate": [0.5, 2.0]}, {}),
    "reuse": (REUSE, {}, {"seed": 3}),
}

EXPERIMENTS = {
    "one-step planted": (PLANTED, RATIOS, SIZES),
    "one-step maximal": (MAXIMAL.replace(step__batch_per_dim=4.0), RATIOS, SIZES),
    "one-step maximal, large batch": (MAXIMAL, {"ridge": [0.1, 1.0]}, SIZES),
    "one-step gaussian layer": (
        PLANTED.replace(second_layer="gaussian", rows="gaussian"),
        RATIOS,
        SIZES,
    ),
    "one-step small": (SMALL, RATIOS, SIZES),
    "one-step same sample": (
        SMALL.replace(fit_sample="same"),
        {"ridge": [0.1, 1.0]},
        SIZES,
    ),
    "one-step growing": (GROWING, RATIOS, SIZES),
    "one-step logistic": (SIGN, {"ridge": [0.1, 1.0]}, SIZES),
    "one-step steps": (MAXIMAL, {}, {"what": "steps", **SIZES}),
    "one-step along": (MAXIMAL, {"ridge": [0.1, 1.0]}, {"what": "along", **SIZES}),
    "one-step spectrum": (
        PLANTED,
        {},
        {"what": "spectrum", "x": np.linspace(0.05, 4, 8), **SIZES},
    ),
    "one-step resolvent": (
        PLANTED,
        {},
        {"what": "resolvent", "z": [0.5 + 0.1j], **SIZES},
    ),
    "one-step weights": (GROWING, {}, {"what": "weights", **SIZES}),
    "one-step spikes": (GROWING, {}, {"what": "spikes", **SIZES}),
    "mixture": (MIXTURE, {"ridge": [0.1, 1.0]}, SIZES),
    "mixture hinge": (MIXTURE.replace(loss="hinge"), {"ridge": [0.1, 1.0]}, SIZES),
    "clusters": (CLUSTERS, {"snr": [1.0, 8.0]}, SIZES),
    "online": (ONLINE, {}, {"trials": 2, "seed": 7}),
    "giant": (GIANT, {}, SIZES),
    "reuse": (REUSE, {}, SIZES),
}


def _other_questions():
    """Add every question of every family at its example, where the lists above do not
    ask it.
    """
    asked = {
        (type(scenario).family, settings.get("what"))
        for scenario, _, settings in LIMITS.values()
    }
    for scenario in (PLANTED, MIXTURE, CLUSTERS, ONLINE, GIANT, REUSE):
        family = type(scenario).family
        for what, question in type(scenario).questions.items():
            examples = {
                name: setting.example
                for name, setting in question.settings.items()
                if setting.example is not None
            }
            sides = {
                side for variable in question.variables for side in variable.engines
            }
            if (family, what) not in asked and not what == next(
                iter(type(scenario).questions)
            ):
                if "limit" in sides:
                    LIMITS[f"{family} {what}"] = (
                        scenario,
                        {},
                        {"what": what, **examples},
                    )
                if "experiment" in sides:
                    EXPERIMENTS[f"{family} {what}"] = (
                        scenario,
                        {},
                        {"what": what, **examples, **SIZES},
                    )


_other_questions()

# A solver of another library whose sums depend on memory alignment, chances from a
# proximal map, searched edges.
ROUNDED = (
    "mixture hinge",
    "mixture-glm margins",
    "one-step spectrum",
    "one-step spectrum on given points",
    "one-step spectrum of a finite batch",
)


def summary(result) -> dict[str, list[float]]:
    """Return up to eight numbers of every numeric variable, spread evenly, then the sum
    of all finite ones.
    """
    numbers = {}
    for name in sorted(map(str, result.data_vars)):
        if result[name].dtype.kind not in "fiub" or name in (
            "residual",
            "iterations",
            "moment_error",
        ):
            continue
        values = np.asarray(result[name].values, dtype=float).reshape(-1)
        if len(values):
            kept = values[np.unique(np.linspace(0, len(values) - 1, 8).astype(int))]
        else:
            kept = values
        total = math.fsum(values[np.isfinite(values)])
        numbers[name] = [*map(float, kept), total]
    return numbers
