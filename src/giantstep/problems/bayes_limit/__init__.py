"""The best possible error of a multi-index target, and the best that message passing
reaches.
"""
