"""The command `minitorch-backends`: a description of this installation, and the laboratory in the shell.

Each command is a module of this folder with HELP, `add_arguments(parser)` and `run(options)`, which returns the exit
code: 0, or 1 on failures and differences. Wrong input gives one sentence on stderr and exit code 2.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from .common import Parser, UsageError

__all__ = ["main"]

_COMMANDS = ("env", "compile", "sweep", "audit", "compare", "report")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments; returns its exit code."""
    parser = Parser(prog="minitorch-backends", description="Tools of minitorch-backends.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    modules = {name: importlib.import_module(f".{name}", __name__) for name in _COMMANDS}
    for name, module in modules.items():
        command = commands.add_parser(name, help=module.HELP, description=module.__doc__, formatter_class=Parser.layout)
        module.add_arguments(command)
        command.add_argument("--json", action="store_true", help="print the result for programs")
    options = parser.parse_args(arguments)
    try:
        return modules[options.command].run(options)
    except UsageError as problem:
        sys.stderr.write(f"minitorch-backends {options.command}: {problem}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write(f"minitorch-backends {options.command}: interrupted\n")
        return 130
