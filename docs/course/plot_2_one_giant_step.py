"""
2. One giant step
=================

*One gradient step on the first layer, then the same fit as before. What does it change?*

In lesson 1 the weights of the first layer stayed as they were drawn. Now every row of them makes one step along its
gradient. A *giant* step is one so large that the rows move by as much as they are long.
"""

# %%
# Before and after
# ----------------
#
# The same network twice: without a step, and after one step of rate 2 on all data. The second layer holds 1 for half of
# the neurons and -1 for the others while the step is made. It is fitted anew afterwards.
import matplotlib.pyplot as plt

import giantstep as gs

before = gs.OneStep(
    activation="relu",
    target="tanh(2*z)",
    noise=0.1,
    width_per_dim=1.5,
    samples_per_dim=2.0,
    ridge=0.1,
    second_layer=gs.Vocabulary([1, -1]),
)
after = before.replace(step=gs.MaximalStep(rate=2.0))

# %%
# The step finds the direction
# ----------------------------
#
# The floor of lesson 1 is gone. All rows now have a part along the direction z of the target, so that their features
# are curved functions of z, and the read-out combines these. The bump is at n = p, where a fit with a small ridge
# follows the noise most closely.
networks = {"no step": before, "one giant step": after}
both = gs.compare(networks, samples_per_dim=[0.5, 1.0, 2.0, 4.0], dim=200, trials=30)
figure, axis = plt.subplots(figsize=(6, 3.8), layout="constrained")
_ = gs.plot(both, "test_error", ax=axis)

# %%
# Can theory and networks be told apart?
print(gs.agreement(both, "test_error"))

# %%
# Exercise
# --------
#
# Give all neurons the value 1 in place of 1 and -1. Does the step still help? Why?
#
# **Solution.** It hardly helps. All rows move the same way. To the read-out they then show a single curved function of
# z, and for ReLU that function is convex, while tanh is not. With 1 and -1 there are two such functions, one the mirror
# image of the other, and their difference is a straight line through zero.
for name, values in (("1 and -1", [1, -1]), ("1", [1])):
    chosen = after.replace(second_layer=gs.Vocabulary(values))
    errors = [float(gs.predict(network).test_error) for network in (chosen.replace(step=gs.NoStep()), chosen)]
    print(f"{name}: {errors[0]:.3f} before the step, {errors[1]:.3f} after it")
