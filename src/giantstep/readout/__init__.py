"""Ridge and convex read-outs of features that are Gaussian given kappa; it knows no network and no family.

- `Features`: functions of kappa at nodes, classes of neurons, channels, labels. Whoever has such a description can be
  answered: kappa in R^m, any number of unlearnt directions.
- `Bulk`: the law of the rows of the first layer, behind one protocol: `IsotropicBulk`, `BatchBulk`,
  `InputBulk`.
- `Equations` joins them with the sizes and (a, b); `solve_first_order` finds V(kappa) and the response (R, S).
- `ridge_errors` fits the means (`solve_signal`), then solves one linear system: errors, order parameters, self-test.
- `classify` does the same for the logistic and the hinge loss, by iteration.
- `Spectrum` is the same equations at lambda = -z: resolvent, density, edges, atom; `bulk_law`, `find_outliers`.

All of it works on B points at once, in chunks; a point never depends on its neighbours.
"""

from giantstep.readout.batch_bulk import BatchBulk as BatchBulk
from giantstep.readout.bulk import Bulk as Bulk
from giantstep.readout.bulk import Response as Response
from giantstep.readout.bulk import Tangents as Tangents
from giantstep.readout.classes import GOOD_ENOUGH as GOOD_ENOUGH
from giantstep.readout.classes import LOSSES as LOSSES
from giantstep.readout.classes import Classifier as Classifier
from giantstep.readout.classes import classify as classify
from giantstep.readout.errors import Errors as Errors
from giantstep.readout.errors import ridge_errors as ridge_errors
from giantstep.readout.features import Features as Features
from giantstep.readout.first_order import PACKED_BLOCKS as PACKED_BLOCKS
from giantstep.readout.first_order import Equations as Equations
from giantstep.readout.first_order import FirstOrder as FirstOrder
from giantstep.readout.first_order import solve_first_order as solve_first_order
from giantstep.readout.input_bulk import InputBulk as InputBulk
from giantstep.readout.isotropic_bulk import IsotropicBulk as IsotropicBulk
from giantstep.readout.outliers import OUTLIER_ROOM as OUTLIER_ROOM
from giantstep.readout.outliers import find_outliers as find_outliers
from giantstep.readout.signal import Signal as Signal
from giantstep.readout.signal import solve_signal as solve_signal
from giantstep.readout.spectrum import Law as Law
from giantstep.readout.spectrum import Spectrum as Spectrum
from giantstep.readout.spectrum import bulk_law as bulk_law
from giantstep.readout.spectrum import is_physical as is_physical
