"""
3. How large a step, how large a batch
======================================

*A step is made on a batch of samples. How large should the step be, and how many
samples does it need?*

The gradient of a batch is that of all data, and noise. The noise turns the rows in
directions that mean nothing. So a large step on a small batch does harm.
"""

# %%
# Rate and batch
# --------------
#
# Each line has its own number of samples n0 for the step. The read-out is always fitted
# on n = 2 d fresh samples.
import matplotlib.pyplot as plt
import numpy as np

import giantstep as gs

network = gs.OneStep(
    activation="tanh",
    target="tanh(2*z)",
    noise=0.05,
    width_per_dim=1.5,
    samples_per_dim=2.0,
    ridge=0.1,
    step=gs.MaximalStep(rate=2.0, batch_per_dim=2.0),
)
batches = [0.5, 2.0, 8.0]
line = gs.predict(
    network, step__rate=np.geomspace(0.1, 20, 40), step__batch_per_dim=batches, dim=200
)
dots = gs.simulate(
    network,
    step__rate=[0.3, 1.0, 3.0, 10.0],
    step__batch_per_dim=batches,
    dim=200,
    trials=6,
)

# %% Lines are the theory at d = 200, dots are networks, stars mark the best rate. With
# d/2 samples the best step gains next to nothing. With more samples the best step is
# longer, and it gains more.
figure, axis = plt.subplots(figsize=(6, 3.8), layout="constrained")
for colour, batch in zip(("C0", "C1", "C2"), batches):
    theory = line.test_error.sel({"step.batch_per_dim": batch})
    measured = dots.sel({"step.batch_per_dim": batch})
    axis.plot(theory["step.rate"], theory, color=colour, label=f"$n_0$ = {batch:g} d")
    axis.errorbar(
        measured["step.rate"],
        measured.test_error,
        measured.test_error_stderr,
        fmt="o",
        color=colour,
        mfc="white",
    )
    axis.plot(float(theory.idxmin()), float(theory.min()), "*", color=colour, ms=11)
axis.set(xscale="log", xlabel="rate of the step", ylabel="test error", ylim=(0, 0.7))
_ = axis.legend(title="batch of the step")

# %%
# Exercise
# --------
#
# You have 4 d samples for the step and the fit together. How many go into the step, and
# at which rate?
#
# **Solution.** `gs.optimize` varies several fields at once, under a budget. About half
# of the samples go into the step.
best = gs.optimize(
    network,
    over={"step.rate": (0.1, 20.0), "step.batch_per_dim": (0.2, 3.8)},
    budget="step.batch_per_dim + samples_per_dim = 4",
    minimise="test_error",
)
print(best)
assert 1.5 < float(best["step.batch_per_dim"]) < 2.5
