"""One folder for each problem: `scenario.py` (what it is), `limit.py`, `experiment.py`.

Problems never import each other. What several of them share is in ``inputs`` (laws of
the inputs) and ``learnability`` (exponents); ``bounds`` holds results of any problem
against the best possible error.
"""
