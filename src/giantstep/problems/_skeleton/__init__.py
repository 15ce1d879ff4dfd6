"""A folder to copy for a new family: ridge regression of a linear target on isotropic
data.
"""
