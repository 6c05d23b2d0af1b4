"""The command `minitorch-backends`: a description of this installation, and the laboratory in the shell.

Each command is a module of this folder with HELP, `add_arguments(parser)` and `run(options)`, which returns the exit
code: 0, or 1 on failures and differences. Wrong input gives one sentence on stderr and exit code 2.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from .common import Parser, UsageError

__all__ = ["main", "parser"]

_COMMANDS = ("env", "compile", "tune", "sweep", "audit", "certify", "measure", "compare", "report", "torch")


def parser() -> tuple[Parser, dict[str, Parser]]:
    """The parser of the command, and those of its commands by name."""
    whole = Parser(prog="minitorch-backends", description="Tools of minitorch-backends.")
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")
    parts: dict[str, Parser] = {}
    for name in _COMMANDS:
        module = importlib.import_module(f".{name}", __name__)
        parts[name] = commands.add_parser(
            name, help=module.HELP, description=module.__doc__, formatter_class=Parser.layout
        )
        module.add_arguments(parts[name])
        if name != "torch":  # whose output is the program's
            parts[name].add_argument("--json", action="store_true", help="print the result for programs")
        parts[name].set_defaults(run=module.run)
    return whole, parts


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments; returns its exit code."""
    options = parser()[0].parse_args(arguments)
    try:
        return options.run(options)
    except UsageError as problem:
        sys.stderr.write(f"minitorch-backends {options.command}: {problem}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write(f"minitorch-backends {options.command}: interrupted\n")
        return 130
