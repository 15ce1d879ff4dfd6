"""What experiments share: devices, seeds, memory, threads, streaming Gram matrices,
ridge paths; nothing of papers.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
