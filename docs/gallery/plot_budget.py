"""
How to split a budget of samples
================================

Samples that feed the gradient step are missing in the fit of the second layer. The
limit finds the best split, networks confirm it.
"""

# %%
# A target whose direction one giant step can learn, and whose parabola the fit needs.
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

import giantstep as gs

scenario = gs.OneStep(
    activation="relu",
    target="z + h2(z)",
    noise=0.1,
    width_per_dim=1.5,
    samples_per_dim=6.0,
    ridge=1.0,
    second_layer=gs.Vocabulary([1, -1]),
    step=gs.MaximalStep(rate=3.0, batch_per_dim=6.0),
)

# %%
# Twelve samples per dimension, shared by the step and the fit.
best = gs.optimize(
    scenario,
    over={"step.batch_per_dim": (0.6, 11.4, "linear")},
    budget="step.batch_per_dim + samples_per_dim = 12",
    starts=7,
)
print(best)

# %%
# The error along the budget, and networks at the optimum and near both ends.
split = float(best["step.batch_per_dim"])


def budget(batches):
    """Return a grid on which step and fit share the samples."""
    return {
        "step.batch_per_dim": xr.DataArray(batches, dims="point"),
        "samples_per_dim": xr.DataArray(12 - np.asarray(batches), dims="point"),
    }


line = gs.predict(scenario, budget(np.linspace(1.2, 11.2, 21)))
networks = gs.simulate(scenario, budget([1.8, split, 10.8]), dim=150, trials=10)
figure, axis = plt.subplots(figsize=(6, 3.8), layout="constrained")
axis.plot(line["step.batch_per_dim"], line.test_error)
axis.errorbar(
    networks["step.batch_per_dim"],
    networks.test_error,
    networks.test_error_stderr,
    fmt="o",
    mfc="white",
)
axis.axvline(split, linestyle=":", color="grey")
axis.set(xlabel="samples of the step per dimension (of 12)", ylabel="test error")

# %%
# What matters most at the optimum: the elasticity of the error in every field.
tuned = scenario.replace(samples_per_dim=12 - split, step__batch_per_dim=split)
gs.plot(gs.sensitivity(tuned))
