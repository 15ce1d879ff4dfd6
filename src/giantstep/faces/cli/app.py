"""The typer application: its commands, and what errors and warnings look like."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from giantstep.core.base.errors import GiantstepError, GiantstepWarning, InputError
from giantstep.faces.cli import design, inform, others, store, verbs
from giantstep.faces.cli.options import expand

_UsageError: Any = typer.BadParameter.__base__
"""Typer's own refusals (it brings its own copy of Click, or uses an installed one, by
version).
"""

FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130
"""Exit statuses; the last is that of shells for Ctrl-C (128 and the number of the
signal).
"""


class Commands(TyperGroup):
    """The group of commands; says every error in one sentence on stderr and turns it
    into an exit status.
    """

    def main(  # type: ignore[override]
        self,
        args: Sequence[str] | None = None,
        *,
        standalone_mode: bool = True,
        **options: Any,
    ) -> Any:
        """Run a command and exit."""
        words = list(sys.argv[1:] if args is None else args) or ["--help"]
        with warnings.catch_warnings():
            warnings.simplefilter("default", GiantstepWarning)
            warnings.showwarning = lambda message, *where: _say(f"warning: {message}")
            status = self._status(words, options)
        return sys.exit(status) if standalone_mode else status

    def _status(self, args: list[str], options: dict[str, Any]) -> int:
        try:
            status = super().main(args, standalone_mode=False, **options)
            return status if isinstance(status, int) else 0
        except GiantstepError as error:
            _say(_ended(str(error)))
            return BAD_INPUT if isinstance(error, InputError) else FAILED
        except _UsageError as error:
            _say(_ended(error.format_message().rstrip(".") + self._instead(error)))
        except MemoryError:
            _say("There is not enough memory for this; take a smaller dim or grid.")
        except (typer.Abort, KeyboardInterrupt):
            return INTERRUPTED
        return BAD_INPUT

    def _instead(self, error: Any) -> str:
        """Return where to look after a refusal of Typer's."""
        option = str(getattr(error, "option_name", ""))
        guessed = getattr(error, "possibilities", None)
        if guessed or error.format_message().endswith("?"):  # Did you mean ...?
            return ""
        if option.lstrip("-") in self.commands:
            return f"; the command is `giantstep {option.lstrip('-')}`."
        path = "giantstep" if error.ctx is None else error.ctx.command_path
        return f"; `{path} --help` says what there is."


def _say(text: str) -> None:
    print("giantstep: " + " ".join(text.split()), file=sys.stderr)


def _ended(sentence: str) -> str:
    if sentence.rstrip().endswith((".", "?")):
        return sentence
    return f"{sentence.rstrip()}."


app = typer.Typer(
    cls=Commands,
    name="giantstep",
    help=(
        "Exact high-dimensional theory of feature learning, with the experiment"
        " beside it."
    ),
    epilog=(
        "Start with: giantstep new one-step > S.toml, then giantstep predict S.toml."
    ),
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_COMMANDS: tuple[Callable[..., None], ...] = (
    *(verbs.predict, verbs.simulate, verbs.compare),
    *(
        design.optimize,
        design.solve_for,
        design.sensitivity,
        others.phase_diagram,
        store.sweep,
    ),
    *(
        others.forecast,
        others.place,
        others.exponents,
        others.learnable,
        others.explore,
    ),
    *(inform.figures, inform.reproduce, others.script),
    *(inform.new, inform.describe, inform.cite, inform.doctor, inform.version),
)
"""In the order in which the help lists them: to ask, to design, to look at data and
targets, to rebuild, to learn.
"""
for command in _COMMANDS:
    app.command()(expand(command))
app.add_typer(store.app)
