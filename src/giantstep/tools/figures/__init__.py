"""Drawing: `giantstep.plot` for any result, and the parts that published figures
share.
"""
