"""A sweep as a program of its own, to be killed: ``python nightly.py STORE [engine]``.

It prints what is reported as done.
"""

import sys

import giantstep as gs
from sweeps.faulty import Faulty

SETTINGS = {
    "dim": 10,
    "trials": 4,
    "level": [1, 2, 3, 4, 5, 6],
    "offset": [0, 1],
    "pause": 0.03,
}

if __name__ == "__main__":
    engine = sys.argv[2] if len(sys.argv) > 2 else "local"
    gs.sweep(
        Faulty(),
        store=sys.argv[1],
        engine=engine,
        workers={"processes": 2, "dask": 1}.get(engine),
        progress=lambda done, total, text: print(done, total, flush=True),
        **SETTINGS,
    )
    print("finished", flush=True)
