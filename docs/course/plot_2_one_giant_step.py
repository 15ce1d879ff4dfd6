"""
2. One giant step
=================

*One gradient step on the first layer, then the same fit as before. What does it
change?*

In lesson 1 the weights of the first layer stayed as they were drawn. A *row* is the
vector of weights of one neuron, of length one. Now every row makes one step along its
gradient. A *giant* step is one so large that the rows move by as much as they are long.
"""

# %%
# Before and after
# ----------------
#
# The problem of lesson 1, and a network twice: without a step, and after one step on
# all data. While the step is made, a neuron has one of four values in the second layer.
# They decide how far its row moves, and which way. Afterwards the second layer is
# fitted anew.
import matplotlib.pyplot as plt

import giantstep as gs

before = gs.OneStep(
    activation="relu",
    target="z + h2(z)/sqrt(2)",
    noise=0.1,
    width_per_dim=4.0,
    samples_per_dim=2.0,
    ridge=0.1,
    second_layer=gs.Vocabulary([2, 1, -1, -2]),
)
after = before.replace(step=gs.MaximalStep(rate=1.0))

# %%
# The step finds the direction
# ----------------------------
#
# All rows now have a part along the direction z of the target. Their features are
# curved functions of z, and the read-out combines these. The error falls far below the
# dashed line, which is the floor of lesson 1. The thin line is the limit of infinite
# dimension. Networks of 200 dimensions are on their way there, and the theory knows how
# far.
networks = {"no step": before, "one giant step": after}
both = gs.compare(networks, samples_per_dim=[0.5, 1.0, 2.0, 4.0], dim=200, trials=20)
figure, axis = plt.subplots(figsize=(6, 3.8), layout="constrained")
axis.axhline(1.1, color="0.5", ls="--", lw=0.9)
_ = gs.plot(both, "test_error", ax=axis)
_ = axis.set(ylim=(0, 2.3))

# %% Can theory and networks be told apart? Not by 20 networks each. The report says how
# many would show a gap of 5%.
print(gs.agreement(both, "test_error"))

# %%
# Exercise
# --------
#
# Give all neurons the value 1 in place of four values. Does the step help as much? Why?
#
# **Solution.** It does not: the error is twice as large. All rows now move by the same
# vector, so that the read-out has one curved function of z in place of four. Four
# functions can be combined to a line and a parabola; one cannot.
errors = {}
for values in ([2, 1, -1, -2], [1]):
    network = after.replace(second_layer=gs.Vocabulary(values))
    errors[str(values)] = float(gs.predict(network, dim=200).test_error)
print({values: round(error, 3) for values, error in errors.items()})
assert errors["[1]"] > 1.8 * errors["[2, 1, -1, -2]"]
