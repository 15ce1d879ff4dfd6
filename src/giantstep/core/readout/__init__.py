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
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
