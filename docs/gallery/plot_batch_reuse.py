"""
Reusing the batch
=================

Gradient descent on the *same* samples learns the direction of a third Hermite
polynomial from the second step on. With a fresh batch at every step it never sees it.
"""

# %%
# Both, in the limit.
import matplotlib.pyplot as plt

import giantstep as gs

reused = gs.BatchReuse(
    target="h3(z)/sqrt(6)",
    activation="erf(z/sqrt(2))",
    second_layer=[1.0],
    samples_per_dim=2.0,
    rate=0.3,
    steps=6,
)
limits = {data: gs.predict(reused, data=data) for data in ("reused", "fresh")}

# %%
# Gradient descent at d = 10,000, without ever forming the data matrix.
figure, axis = plt.subplots(figsize=(6, 3.8), layout="constrained")
for (data, limit), colour in zip(limits.items(), ("C0", "C1")):
    real = gs.simulate(reused, data=data, dim=10_000, trials=30)
    axis.plot(limit.time, abs(limit.M.squeeze()), colour, label=f"{data} batch")
    axis.errorbar(
        real.time,
        abs(real.M.squeeze()),
        real.M_stderr.squeeze(),
        fmt="o",
        color=colour,
        mfc="white",
    )
axis.set(xlabel="steps", ylabel="|overlap|")
axis.legend()

# %%
# The agreement as numbers.
print(gs.agreement(gs.compare(reused, dim=10_000, trials=30)))
