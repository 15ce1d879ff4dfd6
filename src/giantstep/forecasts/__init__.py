"""The learning curve of a linear read-out on given features, forecast from one data set.

`settings` reads what is asked; `preparation` checks the features; `decomposition` takes the one eigendecomposition;
`curve` is the forecast without rows, `rowwise` and `misclassified` that with rows; `experiment` fits real rows; `trust`
judges; `layout` and `table` are the result.
"""
