"""
Learning by repeating
=====================

A ReLU neuron never learns the third Hermite polynomial by one-pass SGD, since its own
third coefficient is zero. One extra look at each sample (an extragradient step) is
enough.
"""

# %%
# The verdicts, with their reasons.
import matplotlib.pyplot as plt

import giantstep as gs

for algorithm in ("squared", "extragradient"):
    print(gs.learnable("h3(z1)", "relu", algorithm))

# %%
# The same as dynamics: the limit of small rates as lines, runs as dots.
dim = 400
scenario = gs.OnlineSGD(
    target="h3(z1)",
    activation="relu",
    dim=dim,
    rate=0.01 / dim,
    inner_rate=0.1,
    steps=20 * dim,
    initial_overlap="zero",
)
times = [4 * dim, 8 * dim, 12 * dim, 16 * dim, 20 * dim]
figure, axis = plt.subplots(figsize=(6, 3.8), layout="constrained")
for algorithm, colour in (("squared", "C0"), ("extragradient", "C1")):
    both = gs.compare(
        scenario, algorithm=algorithm, theory="ode", times=times, trials=3, runs=40
    )
    cosine = both.cosine.isel(neuron=0, direction=0)
    samples = both.time / dim
    error = both.cosine_stderr.isel(neuron=0, direction=0).sel(source="experiment")
    axis.plot(samples, cosine.sel(source="limit"), colour, label=algorithm)
    axis.errorbar(
        samples,
        cosine.sel(source="experiment"),
        error,
        fmt="o",
        color=colour,
        mfc="white",
    )
axis.set(xlabel="samples per dimension", ylabel="cosine with the direction")
axis.legend()
