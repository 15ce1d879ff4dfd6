"""
Reusing the batch
=================

Full-batch gradient descent on the *same* samples learns the direction of a third Hermite polynomial in two steps.
With a fresh batch at every step it never sees it.
"""

# %%
import giantstep as gs

reused = gs.BatchReuse(
    target="h3(z)/sqrt(6)", activation="erf(z/sqrt(2))", second_layer=[1.0], samples_per_dim=2.0, rate=0.3, steps=5
)
fresh = reused.replace(data="fresh")
for scenario in (reused, fresh):
    print(scenario.data, gs.predict(scenario, nodes=2**13).M.values.ravel())

# %%
# The experiment beside it, at d = 5000.
both = gs.compare(reused, nodes=2**13, dim=5000, trials=10)
print(gs.agreement(both))
figure = gs.plot(both)
