"""
4. Several steps and the staircase
==================================

*A target may have several directions. What does the second step find that the first one
could not?*

The target is z1 + z1 z2. A step moves rows along what it sees *linearly*. At the start
that is z1 alone: the product z1 z2 has no linear part.
"""

# %%
# Two networks climb, one of them higher
# --------------------------------------
#
# Once z1 is known, z1 z2 is linear in z2. So the second step finds z2, if the
# activation can multiply: it needs an even part. ReLU has one. tanh is odd and has
# none.
import warnings

import matplotlib.pyplot as plt

import giantstep as gs

relu = gs.FewSteps(
    target="z1 + z1*z2",
    activation="relu",
    noise=0.1,
    rate=1.0,
    steps=3,
    width_per_dim=1.5,
    samples_per_dim=4.0,
    ridge=0.1,
    second_layer=gs.Vocabulary([2, 1, -1, -2]),
)
with warnings.catch_warnings():
    # giantstep warns that tanh never finds z2; that is what we want to see
    warnings.simplefilter("ignore")
    both = gs.compare(
        {"ReLU": relu, "tanh": relu.replace(activation="tanh")}, dim=150, trials=6
    )

# %% Lines are the theory, dots are networks. The dashed line is the error of predicting
# zero.
figure, axis = plt.subplots(figsize=(6, 3.8), layout="constrained")
gs.plot(both, "test_error", ax=axis)
axis.axhline(2.1, color="0.6", ls="--", lw=0.9)
axis.set(ylim=(0, 2.4))
# directions found after 0, 1, 2 and 3 steps
print(both.learned.sel(source="limit").values)

# %%
# Exercise
# --------
#
# Change the second term of the target so that a tanh network finds both directions.
#
# **Solution.** An odd network needs a term that becomes odd in z2 and even in z1:
# h2(z1) z2, with h2(z) = z^2 - 1. `gs.learnable` says so without any training.
climbs = relu.replace(activation="tanh", target="z1 + h2(z1)*z2")
found = gs.predict(climbs).learned.values
print(found)
print(gs.learnable("z1 + h2(z1)*z2", "tanh", "giant-steps"))
assert found[-1] == 2
