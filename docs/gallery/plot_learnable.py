"""
What can be learned, and by whom?
=================================

Targets against algorithms: in how many samples does a ReLU network find the directions
of a target?
"""

# %%
# Exponents are about the target alone.
import matplotlib.pyplot as plt

import giantstep as gs

targets = ["z", "h2(z)", "h3(z)", "h4(z)", "z1 + z1*z2", "z1*z2", "z1 + h3(z2)"]
for target in targets:
    found = gs.exponents(target)
    print(
        f"{target:12} information {found.information}, leap stages {found.leap_stages},"
        f" one pass {found.one_pass}"
    )

# %%
# A verdict is about the target, the student and the algorithm together.
algorithms = ["squared", "extragradient", "giant-steps", "reused"]
verdicts = [
    [gs.learnable(target, "relu", algorithm) for algorithm in algorithms]
    for target in targets
]
print(verdicts[2][0])

# %%
# All of them at a glance.
figure, axis = plt.subplots(figsize=(7, 3.6), layout="constrained")
table = axis.table(
    [
        [
            (
                v.samples
                if v.learned or v.samples == "never"
                else f"part of it: {v.samples}"
            )
            for v in row
        ]
        for row in verdicts
    ],
    cellColours=[
        ["#d8ead8" if v.learned else "#f3dddd" for v in row] for row in verdicts
    ],
    rowLabels=targets,
    colLabels=algorithms,
    loc="center",
    cellLoc="center",
)
table.scale(1, 1.6)
axis.set_axis_off()
