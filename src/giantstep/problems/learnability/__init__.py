"""What can be learned, by whom and in how many samples: exponents of a target, verdicts
on a student.

`prepared` finds the subspace a target depends on, the rules that break where it is not
smooth, and the stages of directions in any basis. `reuse` takes those of order 1 as the
rounds of a batch. `algorithms` has what an update does at zero overlap, and its forces.
"""
