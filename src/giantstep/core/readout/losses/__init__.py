"""Convex losses with proximal maps, penalties, label laws and channel integrals: what
convex estimators share.
"""
