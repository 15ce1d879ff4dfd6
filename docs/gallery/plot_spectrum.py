"""
The spectrum of learned features
================================

One gradient step changes the spectrum of the feature covariance: the bulk widens and eigenvalues leave it.
"""

# %%
import giantstep as gs

untrained = gs.OneStep(activation="relu", target="tanh(z)", width_per_dim=1.2, samples_per_dim=3.0, ridge=0.1)
trained = untrained.replace(step=gs.MaximalStep(rate=3.0), second_layer=gs.Vocabulary([1, -1]))

# %%
# The limit gives the density, its edges, the mass at zero and the outliers.
for scenario in (untrained, trained):
    spectrum = gs.predict(scenario, what="spectrum")
    print(float(spectrum.upper_edge), spectrum.outliers.values)

# %%
# A histogram of one network lies over the density.
both = gs.compare(trained, what="spectrum", dim=300, trials=2)
figure = gs.plot(both)
