"""What every problem needs; nothing here knows a problem.

The rooms, lowest first: ``base``, ``maths``, ``scenario``, ``lab``, ``readout``,
``result``, ``run``. Each imports only those before it.
"""
