"""What experiments share: devices, seeds, memory, threads, streaming Gram matrices, ridge paths; nothing of papers."""

from giantstep._names import load_when_used, names_in_stub

__getattr__ = load_when_used(__name__, names_in_stub(__file__))
