"""
1. Random features see the linear part
======================================

*A layer of random weights is fixed, and only a read-out of its features is fitted. What
of the target can it learn?*

Inputs have d coordinates, all standard normal. The layer has p neurons; their outputs
are the *features* of an input. The *read-out* is a linear function of the features. It
is fitted on n samples by ridge regression: least squares with a penalty on large
coefficients. The theory holds for large d, with the ratios p/d and n/d fixed.
"""

# %%
# Two problems
# ------------
#
# The first target is z + h2(z)/sqrt(2). Here z is one direction of the input, and
# h2(z) = z^2 - 1. The second target is z alone, with more noise: the variance of
# h2(z)/sqrt(2), which is 1, is added to the variance of the noise.
import matplotlib.pyplot as plt
import numpy as np

import giantstep as gs

layer = {
    "activation": "relu",
    "width_per_dim": 4.0,
    "samples_per_dim": 2.0,
    "steps": [],
    "readout": gs.Ridge(1.0),
}
curved = gs.Network(target="z + h2(z)/sqrt(2)", noise=0.1, **layer)
straight = gs.Network(target="z", noise=1.1, **layer)
problems = {"z + h2(z)/sqrt(2), noise 0.1": curved, "z, noise 1.1": straight}

# %%
# One curve
# ---------
#
# Lines are the theory, dots are networks of 600 neurons. Both problems have the same
# learning curve: to random features, everything but the linear part of a target is
# noise.
both = gs.compare(
    problems, samples_per_dim=[0.5, 1.0, 2.0, 4.0, 8.0], dim=150, trials=20
)
figure, axis = plt.subplots(figsize=(6, 3.8), layout="constrained")
_ = gs.plot(both, "test_error", ax=axis)

# %% More samples and more neurons do not help: the error stays above the variance of
# the noise and of the curved part.
print(float(gs.predict(curved).floor[0]))

# %%
# Exercise
# --------
#
# The target is tanh(2 z) with noise 0.1. Above which error do random features stay,
# however many there are?
#
# **Solution.** The linear part of a target g is c z with c = E[z g(z)]. Its variance is
# c^2. What is left is E[g(z)^2] - c^2, and the noise.
points, weights = np.polynomial.hermite_e.hermegauss(100)
weights = weights / weights.sum()
target = np.tanh(2 * points)
linear = weights @ (points * target)
floor = weights @ target**2 - linear**2 + 0.1
answer = float(gs.predict(curved.replace(target="tanh(2*z)")).floor[0])
print(round(floor, 4), round(answer, 4))
assert abs(floor - answer) < 1e-4
