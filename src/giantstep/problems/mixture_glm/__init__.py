"""Convex learning on Gaussian mixtures: ridge, logistic, hinge, max-margin, Huber and
lasso, in the limit d -> inf.
"""
