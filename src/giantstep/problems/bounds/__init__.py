"""How far a method is from the best possible: the scenario of the same target and
samples, and what is lost.
"""
