"""
Where clusters can be found
===========================

Two clusters with sparse means: the accuracy of the best algorithm we know (uninformed) and of the best there is
(bayes), against the signal-to-noise ratio.
"""

# %%
import numpy as np

import giantstep as gs

scenario = gs.SubspaceClustering(clusters=2, sparsity=0.05, snr=1.0, samples_per_dim=2.0)
curve = gs.predict(scenario, snr=np.linspace(0.6, 2.2, 15))
print(gs.predict(scenario, what="thresholds"))

# %%
figure = gs.plot(curve)
