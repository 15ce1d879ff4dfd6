"""Turn a derivation written as plain text into a page of this folder: `python
docs/theory/from_text.py TEXT.md`.

The text has Markdown headings with numbers ("## 3. Title"), tables and lists; formulas
are lines indented by four spaces, with their number first, "(3.1) ...", or last. The
page has the same words, with targets `(page-3.1)=` before every numbered equation and
`(page-section-3)=` before every section. A text without numbers (`--letters`) gets them
from its sections: (2.1b) is the second formula of section 2.1; `--indent 1` takes less
indented lines, too, before the section `--plain` (tables of numbers). Read the page
afterwards: from then on the page is the original.
"""

from __future__ import annotations

import argparse
import re
from itertools import count
from pathlib import Path

FOLDER = Path(__file__).parent
HEADING = re.compile(r"^(#+) (?:(\d+(?:\.\d+)*)\.? )?(.*)$")
RUN_IN = re.compile(r"^(\d+\.\d+) (?=[A-Z*])")
ITEM = re.compile(r"^ *(?:[*-]|\d+\.) ")
FIRST = re.compile(r"^ *\((\d+(?:\.\d+)?[a-z]?)\) ")
LAST = re.compile(r"\((\d+(?:\.\d+)?)\)[ *.]*$")
KEPT = re.compile(
    r"`[^`]*`|\*\*[^*]+\*\*|(?<![\w*^'])\*[A-Za-z][^*\n]*[A-Za-z]\*(?![\w*])"
)
PAGES = {
    "[SF]": "spiked_features",
    "[GD]": "gradient_dynamics",
    "[FS]": "few_steps_readout",
    "[FB]": "finite_batch_general",
}


def escape(line: str) -> str:
    """Return a line of prose in which Markdown finds no mark-up but code, bold and
    emphasised words.
    """
    pieces = []
    start = 0
    for kept in [*KEPT.finditer(line), None]:
        text = line[start : kept.start()] if kept else line[start:]
        text = (
            text.replace("*", r"\*")
            .replace("<", r"\<")
            .replace("](", r"\](")
            .replace("$", r"\$")
        )
        text = re.sub(r"(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])", r"\_", text)
        pieces.append(text + (kept.group() if kept else ""))
        start = kept.end() if kept else 0
    return "".join(pieces)


class Writer:
    """The page as it grows, line by line."""

    def __init__(self, page: str, *, letters: bool, indent: int, plain: str) -> None:
        self.page = page
        self.letters = letters
        self.indent = indent
        self.plain = plain
        self.lines: list[str] = []
        self.formula: list[str] = []
        self.section = ""
        self.free = count()
        self.in_item = False

    def target(self, name: str) -> None:
        """Write the target of an equation or a section."""
        self.lines += ["", f"({self.page}-{name})="]

    def close_formula(self) -> None:
        """Write the formula gathered so far, in one block for each number."""
        while self.formula and not self.formula[-1].strip():
            self.formula.pop()
        if not self.formula:
            return
        margin = min(
            len(line) - len(line.lstrip()) for line in self.formula if line.strip()
        )
        lines = [line[margin:] for line in self.formula]
        self.formula = []
        if self.letters:
            lines = [
                (
                    line
                    if line[:1] == " " or "=" not in line
                    else f"({self.section}{chr(97 + next(self.free))}) {line}"
                )
                for line in lines
            ]
        blocks: list[tuple[str, list[str]]] = []
        for line in lines:
            number = FIRST.match(line) or LAST.search(line)
            if number or not blocks:
                blocks.append((number.group(1) if number else "", []))
            blocks[-1][1].append(line)
        for name, block in blocks:
            if name:
                self.target(name)
            self.lines += [*[""] * (not name), "```text", *block, "```", ""]

    def add(self, line: str) -> None:
        """Take one line of the text."""
        heading = HEADING.match(line)
        item = ITEM.match(line)
        spaces = len(line) - len(line.lstrip())
        if not line.strip():
            self.in_item = False
        elif (
            not item
            and spaces >= self.indent
            and (not self.in_item or spaces > 5 or FIRST.match(line))
        ):
            self.formula.append(line)
            return
        self.close_formula()
        if heading:
            self.head(*heading.groups(default=""))
        elif line.startswith("|"):
            starts = not self.lines[-1].startswith("|")
            self.lines += [*[""] * starts, re.sub(r"(?<!\\)\*", r"\*", line)]
        elif item:
            self.in_item = True
            self.lines += [
                *[""] * (not ITEM.match(self.lines[-1])),
                item.group().lstrip() + escape(line[item.end() :]),
            ]
        else:
            run_in = RUN_IN.match(line)
            number = FIRST.match(line)
            if run_in:
                self.start(run_in.group(1))
            elif (
                number
                and not self.lines[-1]
                and f"({self.page}-{number.group(1)})=" not in self.lines
            ):
                self.target(number.group(1))
            if self.in_item:
                line = "  " + line.lstrip()
            broken = 0 < spaces < 4 and not self.in_item
            if broken and self.lines[-1] and not self.lines[-1].endswith(("\\", "=")):
                self.lines[-1] += "\\"
            self.lines.append(escape(line.strip() if broken else line))

    def start(self, section: str) -> None:
        """Begin a section."""
        self.section = section
        self.free = count()
        if section == self.plain:
            self.letters = False
            self.indent = 4
        self.target(f"section-{section}")

    def head(self, level: str, number: str, title: str) -> None:
        """Write a heading; a long one is cut after its first sentence."""
        rest = ""
        if len(title) > 80:
            title, _, rest = title.partition(". ")
        self.in_item = False
        if number:
            self.start(number)
        self.lines += [
            *[""] * (not number),
            f"{level} {number}{'.' if number and '.' not in number else ''}"
            f" {escape(title)}".replace("  ", " ").strip(),
            "",
        ]
        if rest:
            self.lines.append(escape(rest))


def convert(
    text: str, page: str, *, letters: bool = False, indent: int = 4, plain: str = ""
) -> str:
    """Return the page that a text becomes."""
    for short, name in PAGES.items():
        text = text.replace(short, name)
    writer = Writer(page, letters=letters, indent=indent, plain=plain)
    for line in text.splitlines():
        writer.add(line.rstrip())
    writer.close_formula()
    return re.sub(r"\n{3,}", "\n\n", "\n".join(writer.lines)).strip() + "\n"


def main() -> None:
    """Write the page of the text named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path)
    parser.add_argument("--letters", action="store_true")
    parser.add_argument("--indent", type=int, default=4)
    parser.add_argument("--plain", default="")
    given = parser.parse_args()
    text = given.text.read_text(encoding="utf-8")
    page = convert(
        text,
        given.text.stem,
        letters=given.letters,
        indent=given.indent,
        plain=given.plain,
    )
    (FOLDER / given.text.name).write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
