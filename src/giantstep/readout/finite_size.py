"""What the correction of a read-out at a finite dimension is, in words."""

FINITE_MEANS = "the means of the features are of finite strength, with a ridge of 1/(d R)"
