"""The modules of the page as one classic script: a browser loads no modules from files."""

from __future__ import annotations

import re
from collections.abc import Mapping

_IMPORT = re.compile(r'^import \{ ([^}]+) \} from "\./([^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|class|const) ([\w$]+))", re.MULTILINE)
_ASIDE = re.compile(r"^[ \t]*(?://.*|/\*\*.*\*/)?\n|^[ \t]+", re.MULTILINE)
"""What a browser need not load: indentation, lines that are comments, empty lines."""


def bundle(sources: Mapping[str, str], entry: str) -> str:
    """Return one script that does what the module `entry` does.

    Parameters
    ----------
    sources : name -> text of each module; they import from each other by name, and export declarations.
    entry : the module that is run last.
    """
    parts = [_wrapped(name, sources[name]) for name in _order(sources, entry)]
    return '"use strict";\n(() => {\nconst modules = {};\n' + "\n".join(parts) + "})();\n"


def _order(sources: Mapping[str, str], entry: str) -> list[str]:
    """Return the modules so that each comes after all that it imports."""
    done: list[str] = []
    waiting: list[str] = []

    def visit(name: str) -> None:
        if name in done:
            return
        if name in waiting:
            raise ValueError(f"The modules {' -> '.join([*waiting, name])} import each other.")
        waiting.append(name)
        for _, imported in _IMPORT.findall(sources[name]):
            visit(imported)
        waiting.pop()
        done.append(name)

    visit(entry)
    return done


def _wrapped(name: str, source: str) -> str:
    source = _ASIDE.sub("", source)
    body = _IMPORT.sub(lambda match: f'const {{ {match[1]} }} = modules["{match[2]}"];\n', source)
    exported = _EXPORT.findall(body)
    body = _EXPORT.sub("", body)
    if re.search(r"^(import|export) ", body, re.MULTILINE):
        raise ValueError(f"The module {name} imports or exports in a way that cannot be bundled.")
    return f'modules["{name}"] = (() => {{\n{body}\nreturn {{ {", ".join(exported)} }};\n}})();\n'
