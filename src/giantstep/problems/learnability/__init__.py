"""What can be learned, by whom and in how many samples: exponents of a target, verdicts
on a student.
"""
