"""Ridge and convex read-outs of features that are Gaussian given kappa; it knows no
network and no family.

- `Features`: functions of kappa at nodes, classes of neurons, channels, labels. Whoever
  has such a description can be answered: kappa in R^m, any number of unlearnt
  directions.
- `Bulk`: the law of the rows of the first layer, behind one protocol: `IsotropicBulk`,
  `ChainBulk`, `InputBulk`.
- `Equations` joins them with the sizes and (a, b); `solve_first_order` finds V(kappa)
  and the response (R, S).
- `ridge_errors` fits the means (`solve_signal`), then solves one linear system: errors,
  order parameters, self-test.
- `classify` does the same for the logistic and the hinge loss, by iteration.
- `Spectrum` is the same equations at lambda = -z: resolvent, density, edges, atom;
  `bulk_law`, `find_outliers`.

All of it works on B points at once, in chunks; a point never depends on its neighbours.

The only unknown is the function V(kappa); everything else follows by k x k algebra.
With up to 8 blocks, or more than 1,000 nodes, Newton's equation is solved for the K =
k(k+1)/2 + k coordinates of V. With more blocks (a Gaussian second layer has 32) it is
solved for the values of V at the nodes. The nodes also answer where coordinates lose
digits, as with a linear activation and several blocks.

The equations have two offsets, in D = a + Vh2 and in b + V, and only their product a b
= ridge matters. For n < p we take (1, ridge), which stays finite as ridge -> 0; for n >
p (ridge, 1). With complex z, (-z, 1) is the spectrum.

What depends on the law of the rows stands behind the protocol `Bulk`: the map from `Vh`
to (R, S), its derivative, the prior of the channel coefficients. After steps on finite
batches it is a chain of Gaussian vectors, one link for each step; after a sign step
every cell of coordinates has a variance of its own. `FiniteSize` is what a finite
dimension adds: the Gram matrix of the mean rows of the blocks, stretched inputs, the
count of fitted parameters.

A point counts as converged when its residual is below the tolerance and two independent
expressions of the training objective agree to 1e-6, spiked_features (4.7).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
