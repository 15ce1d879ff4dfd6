"""The learning curve of a linear read-out on given features, forecast from one data set.

`labels`, `sources` and `settings` read what is given; `statistics` passes over the rows once; `decomposition` takes the
one eigendecomposition; `resolvent` and `curve` are the forecast without rows, `rowwise` and `misclassified` that with
rows, `surface` all of it; `experiment` fits real rows; `trust` judges; `layout` and `table` are the result.
"""
