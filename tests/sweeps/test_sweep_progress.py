"""Progress of a sweep: numbers for a callable, lines in a log, a bar on stderr."""

import logging

import giantstep as gs
from giantstep.core.base.progress import duration
from giantstep.tools.sweeps.verb import SweepProgress

from .faulty import Faulty


def test_a_callable_hears_points_and_time_left(store, monkeypatch):
    monkeypatch.setattr("giantstep.tools.sweeps.backends.TOGETHER", 0.0)
    said = []
    settings = {
        "store": store,
        "dim": 10,
        "level": [1, 2],
        "progress": lambda *words: said.append(words),
    }
    gs.sweep(Faulty(), trials=2, **settings)
    assert [words[:2] for words in said] == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]
    assert said[-1][2].endswith(", 0 s left")
    said.clear()
    gs.sweep(Faulty(), trials=3, **settings)
    assert said[0] == (4, 6, "4 of 6 trials at 2 points done") and said[-1][:2] == (
        6,
        6,
    )


def test_lines_where_nobody_watches(caplog, capsys):
    with caplog.at_level(logging.INFO, "giantstep"):
        gs.sweep(Faulty(), dim=10, trials=2, level=[1, 2])
    assert caplog.messages[0] == "0 of 4 trials at 2 points done"
    assert caplog.messages[1].startswith("4 of 4 trials at 2 points done, ")
    assert "4 results computed, 0 were stored, 0 failed" in caplog.messages[2]
    assert capsys.readouterr() == ("", "")


def test_lines_come_now_and_then(caplog, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with caplog.at_level(logging.INFO, "giantstep"), SweepProgress(None, 100, 0) as bar:
        for _ in range(50):
            now[0] += 1.0
            bar.advance()
    assert caplog.messages[1] == "11 of 100 points done, 89 s left"
    assert len(caplog.messages) == 1 + 4 + 1


def test_a_bar_on_stderr(capsys):
    with SweepProgress(True, 10, 2) as bar:
        bar.advance(3)
        assert bar.text.startswith("5 of 10 points done, ")
    assert capsys.readouterr().out == ""


def test_durations():
    assert [duration(seconds) for seconds in (9, 300, 10000)] == [
        "9 s",
        "5 min",
        "2.8 h",
    ]


def test_short_tasks_are_stored_together(store):
    """Catches a transaction for every task of a millisecond, which costs more than the
    task.
    """
    said = []
    gs.sweep(
        Faulty(),
        store=store,
        dim=10,
        trials=50,
        progress=lambda done, *_: said.append(done),
    )
    assert said[-1] == 50 and len(said) < 25
