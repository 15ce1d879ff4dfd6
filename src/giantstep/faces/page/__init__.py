"""The explorer: a page on this machine where the exact curve follows the hand and the
experiment's dots stream in.
"""
