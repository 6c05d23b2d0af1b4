"""Print the table of a store of a sweep, finished or not, and write its page.

minitorch-backends report runs/solve --page solve.html
"""

from __future__ import annotations

import argparse

from .common import add_outputs, show, usage_errors

HELP = "print and draw the contents of a sweep's store"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "store", metavar="STORE", help=("the folder of the store, as given to lab.sweep or the command sweep")
    )
    add_outputs(parser)


def run(options: argparse.Namespace) -> int:
    from .. import lab

    with usage_errors():
        found = lab.Sweep.read(options.store)
    return show(found, options)
