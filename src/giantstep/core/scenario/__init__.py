"""The language: fields with bounds and meaning, parts, lists, questions, variables, the
grid, the register of families.

What a family of one's own needs is imported from here, in one line; docs/own_family.md
shows it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
