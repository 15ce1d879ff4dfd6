"""
Where clusters can be found
===========================

Two clusters whose means differ on one feature in twenty: what the best known fast
algorithm finds (uninformed), and what is possible at all (bayes), against the
signal-to-noise ratio.
"""

# %%
# Three thresholds, in closed integrals.
import matplotlib.pyplot as plt
import numpy as np

import giantstep as gs

scenario = gs.SubspaceClustering(
    clusters=2, sparsity=0.05, snr=1.0, samples_per_dim=2.0
)
t = gs.predict(scenario, what="thresholds")
print({name: round(float(t[name]), 4) for name in ("lam_dyn", "lam_it", "lam_alg")})

# %% Between the possible and the feasible lies the hard phase; AMP on real matrices
# stops near where it should (at a finite size the border is soft).
jumps = np.array([float(t.lam_it), float(t.lam_alg)])
snr = np.unique(
    np.concatenate([np.linspace(0.6, 2.6, 81), jumps * (1 - 1e-6), jumps * (1 + 1e-6)])
)
curve = gs.predict(scenario, snr=snr)
amp = gs.simulate(scenario, snr=[0.7, 1.1, 1.6, 2.0, 2.4], dim=800, trials=3)
figure, axis = plt.subplots(figsize=(6, 3.8), layout="constrained")
axis.plot(snr, curve.accuracy.sel(branch="bayes"), label="possible")
axis.plot(
    snr, curve.accuracy.sel(branch="uninformed"), "--", label="fast algorithm, limit"
)
found = amp.sel(branch="uninformed")
axis.errorbar(
    found.snr,
    found.accuracy,
    found.accuracy_stderr,
    fmt="o",
    color="C1",
    mfc="white",
    label="AMP, d = 800",
)
axis.axvspan(float(t.lam_it), float(t.lam_alg), color="0.9", label="hard")
axis.set(xlabel="signal to noise", ylabel="fraction of labels that are right")
axis.legend(loc="lower right")

# %%
# The whole plane in one call; the star is the scenario.
gs.phase_diagram(scenario)
