"""Where giant steps draw their lines: what is zero, what has diverged, which rules are
good enough.
"""

from __future__ import annotations

LEAST_SPREAD = 1e-9
"""Private spread of a preactivation, over the length of an input, below which a neuron
has none of its own.
"""
RULES_AGREE = 2e-13
"""Relative difference of two rules up to which the coarse pair answers: rounding of
some thousand nodes.
"""
RULES_DISAGREE = 1e-2
"""Relative difference of two rules above which a point is not answered: a figure would
show it.
"""
NO_VARIANCE = 1e-11
"""Variance of a direction of the shared space, in units of |w|^2, below which it is
left out.
"""
REPELLING = 1e-4
MOST_CLIPPED = 1e-2
MOST_SINGLE = 10
"""More negative overlaps beyond the target, in units of |w|^2, are not taken for zero:
the first in networks of at most `MOST_SINGLE` neurons (they are followed one by one),
the second in larger ones, where the error made is reported.
"""
DIVERGED = 1e8
"""Squared norm beyond which a trajectory is not followed."""
