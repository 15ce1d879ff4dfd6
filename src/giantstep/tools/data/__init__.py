"""Theory for tables of numbers: forecasts of real features, estimators, files of
data.
"""
