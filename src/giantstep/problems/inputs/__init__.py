"""Inputs with a covariance: how it is given, and the law that the equations of a family
take from it.
"""
