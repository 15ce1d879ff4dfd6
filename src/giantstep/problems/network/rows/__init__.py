"""The law of the rows: how the rows of a block spread around their mean, and what that
means to whoever reads the layer.

A `Layer` is `means` (where the blocks are), `frame` (where the target is), `rows` (this
law) and `velocity`. Everything that depends on the theory in use is the business of one
object with one protocol, `protocol.Rows`. Steps, descriptions and answers ask it; none
of them asks which class it is.

==========================  ============================================================
who asks, and when          what
==========================  ============================================================
a step, once                `shifted`, where a spike is planted by hand.
                            `descend`: one step of gradient descent, whose numbers are a
                            `Descent`; `on_batches` before it, where a batch is finite
                            and its theory exact.
`views`, for every layer    `kin`, `has_own_axis`, `signed_coordinates`: which sets
                            share a rule for kappa, and along which axes.
`describe`, for every view  `axes`: the channels of the features. `bulks`: the law of
                            the bulk rows, which `core.readout` solves.
                            `uneven`: how much the lengths differ inside a block.
a read-out at a finite d    `finite_size`, `terms`, `added_to_means`: which terms of
                            order 1/d are known, their numbers, their words.
answers                     `spread`, `sums`, `sums_known`, `independent`,
                            `for_spectrum`, `scale_of_model`: what the law says beyond
                            the error. `flagged`, `accuracy`: where it cannot be
                            trusted, and what was approximated.
everybody                   `known`: what this law knows. A question about anything else
                            is answered by NaN, or the term is left out.
==========================  ============================================================

The laws are modules of their own, each of one page of the theory:

- `isotropic`: rows of isotropic inputs, followed to first order of their spread
  (few_steps_readout). `ExactRows` has all terms of order 1/d, `IsotropicRows` those of
  the means, `BulkRows` stands for an isotropic bulk of another length.
- `covariance`: the same with several atoms of the inputs (structured_inputs).
- `batches`: rows after steps on finite batches (finite_batches_several_steps).
- `sign.rows`, `weak.rows`: in the folders of their steps, which nothing else imports.

A new theory is a new class:

- *A fit on the step's own sample.* Its rows remember the functions of a sample that the
  step has written into them, and add these to `axes`; their `bulks` know that the fit
  meets the same samples again. The limit refuses such a fit by `Step.shares_sample`
  until then, and would ask for a name in `known`.
- *Finite batches on inputs with a covariance.* `CovarianceRows.on_batches` returns
  rows whose `descend` follows a chain for every atom. `steps.maximal.outside_batches`
  no longer refuses them; nothing else changes.
- *Another loss of a step.* Its gradient is a function of the output and the label. It
  is a field of `Descent`, as `fed_back` is for the two losses there are now, and
  `gradient` and `BatchRows.advanced` read it.
- *Another law of the labels.* It belongs to the target given kappa
  (`views.SharedView.given`); rows see a label through its average there only.
"""
