"""The labelled table that both engines fill; comparison, verdicts, text and files of
it.
"""
