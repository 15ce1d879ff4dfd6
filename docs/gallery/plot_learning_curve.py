"""
A learning curve, twice
=======================

The test error of a two-layer network after one giant gradient step: the exact limit as
a line, real networks as dots.
"""

# %%
# A scenario says once what is studied.
import matplotlib.pyplot as plt
import numpy as np

import giantstep as gs

scenario = gs.OneStep(
    activation="relu",
    target="tanh(z)",
    width_per_dim=1.5,
    samples_per_dim=2.0,
    ridge=0.01,
    second_layer=gs.Vocabulary([1, -1], [0.9, 0.1]),
    step=gs.MaximalStep(rate=2.0),
)

# %%
# `compare` asks both engines and lays one over the other.
both = gs.compare(scenario, dim=200, trials=20, samples_per_dim=np.linspace(0.4, 4, 7))
print(gs.agreement(both))

# %%
# Dots with error bars over the line they should follow.
figure, axis = plt.subplots(figsize=(6, 3.8), layout="constrained")
_ = gs.plot(both, variables="test_error", axes=axis)
