"""The language: fields with bounds and meaning, parts, lists, questions, variables, the
grid, the register of families.
"""
