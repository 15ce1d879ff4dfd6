"""Subspace clustering: Gaussian mixtures with sparse means, approximate message passing
and its phase diagram.
"""
