"""What can be learned, by whom and in how many samples: exponents of a target, verdicts on a student.

`exponents.py` (`giantstep.exponents`) judges the target alone, `learnable.py` (`giantstep.learnable`) the student with
it. `verdict.py` names the families whose experiments show a verdict.
"""
