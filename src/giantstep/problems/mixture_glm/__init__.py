"""Convex learning on Gaussian mixtures: ridge, logistic, hinge, max-margin, Huber and
lasso, in the limit d -> inf.

There is one set of equations for every way to give the data: a representation
(`responses`) only supplies V, R, Q, T of its resolvent. One Gaussian in place of a
mixture is the same class again, so that the two references of universality cost no
equations of their own. The square loss needs no iteration; an l1 penalty replaces the
prior side only; max-margin starts from the convex minimisation of an isotropic
stand-in.
"""
