"""Answers to what people ask of a limit: what is best, what does it take, what matters
most, how many trials.
"""
