"""
The spectrum of learned features
================================

One gradient step changes the spectrum of the feature covariance: the bulk changes its
shape and eigenvalues leave it.
"""

# %%
# The same network twice: before the step, and after a giant one.
import matplotlib.pyplot as plt
import numpy as np

import giantstep as gs

untrained = gs.OneStep(
    activation="tanh",
    target="sin(z)",
    width_per_dim=1.2,
    samples_per_dim=3.0,
    ridge=0.1,
    second_layer=gs.Vocabulary([1]),
)
trained = untrained.replace(step=gs.MaximalStep(rate=3.0))

# %%
# The limit gives the density, its edges, the mass at zero and the outliers.
x = np.linspace(0.02, 6, 200)
laws = {
    "before": gs.predict(untrained, what="spectrum", x=x),
    "after": gs.predict(trained, what="spectrum", x=x),
}
for name, law in laws.items():
    print(
        name,
        "upper edge",
        float(law.upper_edge.round(3)),
        "outliers",
        law.outliers.values.round(2),
    )

# %%
# Real networks of 360 neurons lie over both.
figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained", sharey=True)
for panel, scenario, name in zip(axes, (untrained, trained), laws):
    gs.plot(
        gs.compare(scenario, what="spectrum", x=x, dim=300, trials=2),
        variables="density",
        axes=panel,
    )
    panel.set_title(f"{name} the step", loc="left")
