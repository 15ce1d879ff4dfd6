"""
5. The best possible
====================

*A network has some error with n samples. Could another method do better, and by how
much?*

The best estimator knows the function of the target and the law of the noise. It does
not know the direction. No method has a smaller error with as many samples, and its
error can be computed.
"""

# %%
# A bound under every curve
# -------------------------
#
# The network of lesson 3, with a batch of 2 d samples for its step. `bound=True` draws
# the best possible error with as many samples as the network saw: those of the step and
# those of the fit.
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
curve = gs.predict(network, samples_per_dim=np.geomspace(0.25, 16, 25))
figure, axis = plt.subplots(figsize=(6, 3.8), layout="constrained")
_ = gs.plot(curve, "test_error", bound=True, ax=axis)

# %% The same as a number: how many times more samples does the network use than the
# best estimator at the same error?
few = gs.predict(network, samples_per_dim=[0.5, 2.0, 8.0])
print(gs.efficiency(few).test_error_ratio.values.round(1))

# %% The ratio grows. The fit gets more samples, but the step does not: the direction
# that it found stays as it is.
#
# Exercise
# --------
#
# Give step and fit 8 samples per dimension together. Tune the rate, the split and the
# ridge, for this width and for twenty times as many neurons. How far from the best
# possible is the network then?
#
# **Solution.** Tuning gains little, and width a little more. After one step from random
# rows the network still needs three to four times the samples.
equal = network.replace(samples_per_dim=4.0, step__batch_per_dim=4.0)
best = gs.optimize(
    equal,
    over={
        "step.rate": (0.1, 20.0),
        "step.batch_per_dim": (0.5, 7.5),
        "ridge": (0.001, 10.0),
    },
    budget="step.batch_per_dim + samples_per_dim = 8",
    minimise="test_error",
    width_per_dim=[1.5, 30.0],
)
print(best)


def tuned(width):
    """Return the network of this width at its best fields."""
    names = ("step.rate", "step.batch_per_dim", "samples_per_dim", "ridge")
    return equal.replace(
        {
            "width_per_dim": width,
            **{name: float(best[name].sel(width_per_dim=width)) for name in names},
        }
    )


networks = {"equal parts": equal, "tuned": tuned(1.5), "tuned, wide": tuned(30.0)}
ratios = {
    name: float(gs.efficiency(gs.predict(chosen)).test_error_ratio)
    for name, chosen in networks.items()
}
print({name: round(ratio, 1) for name, ratio in ratios.items()})
assert ratios["equal parts"] > ratios["tuned"] > ratios["tuned, wide"] > 2
