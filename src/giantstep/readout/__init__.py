"""Ridge and convex read-outs of features that are Gaussian given kappa."""
