"""A family whose trials go wrong on demand, and keep a diary of what was really
computed.
"""

import gc
import multiprocessing
import os
import signal
import struct
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from threadpoolctl import threadpool_info

from giantstep.core.base.deadline import check_time
from giantstep.core.scenario.answer import Answer
from giantstep.core.scenario.family import Question, Variable
from giantstep.core.scenario.fields import Expression, Integer, Number, field
from giantstep.core.scenario.model import Scenario

DIARY = "GIANTSTEP_TEST_DIARY"
"""Environment variable with the file in which every trial writes a line."""

(
    FINE,
    RAISES,
    KILLS,
    KILLS_ONCE,
    NEVER_ENDS,
    TAKES_MEMORY,
    SINGULAR,
    NO_NUMBER,
    DEAF,
    DIES_ANSWERING,
) = range(10)
COUNTS_THREADS, LEAVES_A_CHILD, HAS_CHILDREN = range(10, 13)


class Faulty(Scenario):
    """The mean of `dim` noisy numbers around `level`; `trouble` says what goes wrong
    from trial `since` on.
    """

    family: ClassVar[str] = "faulty"
    title: ClassVar[str] = "Mean of noisy numbers, with faults"
    update_rule: ClassVar[str] = "mean = level + offset + N(0, 1)/sqrt(dim)"
    questions: ClassVar[Mapping[str, Question]] = {
        "mean": Question(
            "the mean",
            (
                Variable("mean", (), "m", "mean of the numbers"),
                Variable("found", ("outlier",), "z", "numbers found", compared=False),
                Variable(
                    "phase",
                    (),
                    "",
                    "name of the level",
                    engines=("limit",),
                    compared=False,
                ),
            ),
            plot=("mean",),
        )
    }
    papers: ClassVar[tuple[str, ...]] = ("mei2022generalization",)
    shared_fields: ClassVar[tuple[str, ...]] = ("offset",)

    level: Number = field("l", "true mean", default=1.0)
    offset: Number = field("o", "added at the end", default=0.0)
    trouble: Integer = field("t", "what goes wrong", default=FINE)
    since: Integer = field("s", "first trial that goes wrong", default=0)
    pause: Number = field("w", "seconds a trial takes", default=0.0)
    shape: Expression = field("g", "a function", default="relu")

    def trial(
        self,
        points: Mapping[str, np.ndarray],
        what: str,
        dim: int,
        draws: Any,
        settings: Any,
    ) -> dict:
        noise = draws.normal("numbers", ()) / dim**0.5
        write(
            f"trial {draws.trial} level {self.level:g} offsets"
            f" {points['offset'].tolist()}"
        )
        time.sleep(self.pause)
        if self.trouble and draws.trial >= self.since:
            get_into_trouble(self.trouble)
        mean = points["level"] + points["offset"] + noise
        if self.trouble == NO_NUMBER and draws.trial >= self.since:
            mean = mean * np.nan
        found = np.full((len(mean), 1 + draws.trial % 2), 7.0)
        return {"mean": mean, "found": found}

    def limit(
        self, points: Mapping[str, np.ndarray], what: str, settings: Mapping[str, Any]
    ) -> Answer:
        write(f"limit of {len(points['level'])}")
        if np.any(points["level"] == 13):
            raise ZeroDivisionError("thirteen")
        mean = points["level"] + points["offset"] + np.abs(points["level"] - 2.0)
        phase = np.where(mean > 4, "high", "low")
        status = np.where(points["level"] == 11, "it does not converge", "")
        found = mean[:, None] + np.arange(2)
        values = {"mean": mean, "found": found, "phase": phase}
        return Answer(
            values,
            status,
            np.zeros(len(mean)),
            np.ones(len(mean), int),
            attrs={"solver": "by hand"},
        )


def write(line: str) -> None:
    """Add a line to the diary."""
    if DIARY in os.environ:
        with open(os.environ[DIARY], "a") as diary:
            diary.write(f"{line}\n")


def get_into_trouble(kind: int) -> None:
    """Do what the trouble says."""
    if kind == RAISES:
        raise RuntimeError("boom")
    if kind == COUNTS_THREADS:
        write(
            "threads"
            f" {sorted({lib['num_threads'] for lib in threadpool_info() if lib['user_api'] == 'blas'})}"
        )
    if kind == HAS_CHILDREN:
        child = multiprocessing.get_context("spawn").Process(target=print)
        child.start()
        child.join()
    if kind in (DIES_ANSWERING, LEAVES_A_CHILD) and first_time():
        if kind == DIES_ANSWERING:
            begin_an_answer()
        elif not os.fork():  # it inherits the pipe, and holds it open
            time.sleep(30)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == KILLS or (kind == KILLS_ONCE and first_time()):
        os.kill(os.getpid(), signal.SIGKILL)
    while kind == NEVER_ENDS:
        check_time()
    if kind == DEAF:
        time.sleep(3600)  # one call, which looks at no deadline
    if kind == TAKES_MEMORY:
        np.ones(2**27)
    if kind == SINGULAR:
        raise np.linalg.LinAlgError("singular")


def begin_an_answer() -> None:
    """Write the length of an answer, and nothing of it, where a worker process writes
    its answers.
    """
    pipes = [pipe for pipe in gc.get_objects() if isinstance(pipe, Connection)]
    assert pipes
    for pipe in pipes:
        os.write(pipe.fileno(), struct.pack("!i", 1000))


def first_time() -> bool:
    """Tell whether this is asked for the first time, in whatever process."""
    try:
        Path(os.environ[DIARY] + ".once").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
