"""The learning curve of a linear read-out on given features, forecast from one data
set.

`settings` reads what is asked and prepares the features; `decomposition` takes the one
eigendecomposition and forecasts without rows, `rowwise` with rows; `experiment` fits
real rows; `trust` judges; `verb` and `table` make the result.
"""
