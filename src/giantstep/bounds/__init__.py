"""How far a method is from the best possible: the scenario of the same target and samples, and what is lost."""

from giantstep.bounds.best import best_possible as best_possible
from giantstep.bounds.best import efficiency as efficiency
