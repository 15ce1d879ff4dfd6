"""Functions of Gaussian variables with measured errors, solvers over batches of points,
densities.
"""
