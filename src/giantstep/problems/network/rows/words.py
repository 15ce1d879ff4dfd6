"""What laws of rows say of themselves: which terms of a finite size are in, and what is
approximated.
"""

_MEANS = "whole numbers of samples and neurons; the means of the blocks as "
INDEPENDENT = _MEANS + "those of independent rows, with a ridge of 1/(d R)"
ON_BATCHES = (
    ", what the output of the network adds to them (finite_size_steps sections 2 and"
    " 7), as if the batches had no preferred directions, and the number of fitted"
    " parameters"
)
STRETCHED_ALONE = ", and stretched inputs"

FOLLOWED = _MEANS + "the steps leave them"
MEANS_ALONE = " (finite_size_steps sections 2 to 4)"
STRETCHED = ", and stretched inputs (finite_size_steps section 6)"
ALL_TERMS = (
    ", the action of neurons on themselves, stretched inputs and the number of fitted"
    " parameters (finite_size_steps, all terms)"
)
SPLIT = (
    "; the overlaps of the rows with the target by sub-blocks (finite_size_steps"
    " section 14)"
)

ISOTROPIC = "the noise of a finite batch is described as isotropic"
ISOTROPIC_ERROR = (
    "at 0.5 to 8 samples per dimension its test error was found from 14% below to 10%"
    " above the exact one (7.5% in the mean square), 5% below at 20, within 0.5% at 100"
)
PUBLISHED = "the features after the step are described by an isotropic bulk"
PUBLISHED_ERROR = (
    "against networks it was found off by -9 to +8%, and by up to 13% after a"
    " logistic fit"
)
