"""
Climbing a staircase
====================

A few giant steps on z1 + z1 z2: the first step finds z1, and through it the second
finds z2. Networks of 40 neurons climb as the limit says.
"""

# %%
import matplotlib.pyplot as plt

import giantstep as gs

scenario = gs.GiantSteps(
    target="z1 + z1*z2",
    activation="relu",
    rate=1.0,
    batch_per_dim=8.0,
    steps=4,
    width=40,
)
print(gs.exponents("z1 + z1*z2", activation="relu"))

# %%
both = gs.compare(scenario, dim=300, trials=10)
print(gs.agreement(both))
figure, axis = plt.subplots(figsize=(6, 3.8), layout="constrained")
_ = gs.plot(both.sel(block=[1]), variables="cosine", axes=axis)
