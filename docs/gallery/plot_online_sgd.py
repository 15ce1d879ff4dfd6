"""
Learning by repeating
=====================

A ReLU neuron never learns the third Hermite polynomial by one-pass SGD, since its own third coefficient is zero. One
extra look at each sample (an extragradient step) is enough.
"""

# %%
import giantstep as gs

print(gs.exponents("h3(z1)"))
for algorithm in ("squared", "extragradient"):
    print(gs.learnable("h3(z1)", "relu", algorithm=algorithm))

# %%
dim = 512
scenario = gs.OnlineSGD(
    target="h3(z1)",
    activation="relu",
    second_layer=[1.0],
    dim=dim,
    batch_size=1,
    rate=0.01 / dim,
    inner_rate=0.1,
    steps=20 * dim,
    algorithm="extragradient",
    initial_overlap="zero",
)
both = gs.compare(scenario, trials=10)
figure = gs.plot(both)
