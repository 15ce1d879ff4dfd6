"""What counts as nothing, as equal, as settled: the thresholds that several modules of
this family share.
"""

from __future__ import annotations

TINY = 1e-290
"""Densities are at least this large, so that their logarithms and reciprocals are
finite.
"""
REACH = 8.5
"""Standard deviations of z beyond which nothing is integrated: 2e-17 of the
probability, times any polynomial.
"""
SEEN = 8.6
"""Standard deviations at which a Gaussian kernel is cut: 1e-16 of its height."""
VISIBLE = 7.7
"""Standard deviations of z whose images y are integrated over: those of the others have
probability 1e-14.
"""
ABSENT = 1e-7
"""E m1^2 and rho below this count as zero, bayes_multi_index section 5."""
SAME_POINT = 1e-9
"""Distance of two kinks, or of two labels, that only rounding tells apart."""
SAME_BRANCH = 1e-7
"""Difference of overlaps below which two branches are one; roots are solved to 1e-12 in
log alpha.
"""
CERTAIN = 1e-12
"""Eigenvalue of M below which omega is zero along its direction."""
LARGEST_OVERLAP = 1 - 1e-6
"""Eigenvalues of M are kept below this, so that V = 1 - M can be inverted."""
SETTLED = 1e-9
"""Entries of M that a step of state evolution moves by less are a fixed point of two
directions.
"""
UNSETTLED = 1e-6
"""A step that moves M by more says that no fixed point was found."""
SAMPLED_SETTLED = 5e-5
"""The same for sampled steps, whose standard error is some 1e-3."""
SAMPLED_SAME = 1e-3
"""Bias of sampled overlaps within which two branches are one."""
TOLD = 4.0
"""Standard errors by which sampled quantities differ where they are told apart."""
