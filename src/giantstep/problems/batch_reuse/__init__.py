"""Full-batch gradient descent on the same samples: discrete-time mean-field theory and
its experiment.

One recursion serves every use of the data, loss and constraint: M, P and K(., s) move
by the same rule, batch_reuse_dmft (2.5)-(2.7). Mini-batches are a mask on the gradient.
The sphere is a rescaling of three rows. Fresh samples are the recursion without memory.
The experiment never stores the data matrix; it stores only the products it has
computed.

The limit integrates over quasi-random points, so it has standard errors: `predict`
takes a `seed`, several scrambles run as several limits, and z-scores use the joint
error with the degrees of freedom of both sides.
"""
