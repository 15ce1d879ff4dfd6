"""Where one-pass SGD draws its lines: what is zero, what has diverged, which moments
are good enough.
"""

from __future__ import annotations

ROUNDING = 1e-14
"""Components of the drift below this share of sqrt(E F^2) are rounding errors."""
COARSE = 1e-2
"""Relative difference to a coarser rule above which a rule does not see its integrand
(the error is far smaller).
"""
SAME_EXPONENT = 0.05
"""Exponents closer than this count as equal when a regime is named."""
DIVERGED = 1e6
"""A neuron of larger squared norm has diverged."""
FLUCTUATION = 1.2
"""Relative variance of the squared force of one sample, as far as it moves overlaps:
right within a factor of two in seven settings with 5 and 10 samples an update, after
which it was chosen.
"""
NOISY = 0.02
"""Estimated relative error of overlaps by the noise of single updates that is worth a
warning.
"""
UNSEEN = 1e-2
"""Relative error of the averages of a target along lines above which its points are not
answered.
"""
