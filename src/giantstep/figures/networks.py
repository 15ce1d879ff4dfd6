"""The three networks of the finite-batch figure: settings of section 16 of the notes on spiked features."""

from __future__ import annotations

from giantstep.families.one_step.scenario import MaximalStep, OneStep, Vocabulary

BATCHES = [0.3, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]

SEED = 1
TRIALS = {"tanh-sin": 128, "relu-tanh": 64, "relu-relu": 64}
"""Trials of the stored experiment at d = 4000."""

NETWORKS = {
    "tanh-sin": OneStep(
        activation="tanh",
        target="sin(z)",
        width_per_dim=1.0,
        samples_per_dim=1.5,
        ridge=0.1,
        step=MaximalStep(rate=3.0, batch_per_dim=2.0),
    ),
    "relu-tanh": OneStep(
        activation="relu",
        target="tanh(z)",
        width_per_dim=1.5,
        samples_per_dim=1.5,
        ridge=0.01,
        second_layer=Vocabulary(values=[1, -1], probabilities=[0.9, 0.1]),
        step=MaximalStep(rate=2.0, batch_per_dim=2.0),
    ),
    "relu-relu": OneStep(
        activation="relu",
        target="relu",
        noise=0.1,
        width_per_dim=1.3,
        samples_per_dim=2.0,
        ridge=0.05,
        step=MaximalStep(rate=1.5, batch_per_dim=2.0),
    ),
}
