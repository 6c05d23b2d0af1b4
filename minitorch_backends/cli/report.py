"""Print the table of a store of a sweep, finished or not, and write its page.

minitorch-backends report runs/solve --page solve.html
"""

from __future__ import annotations

import argparse

from .common import checked, write, write_json

HELP = "print and draw the contents of a sweep's store"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "store", metavar="STORE", help=("the folder of the store, as given to lab.sweep or the command sweep")
    )
    parser.add_argument("--page", metavar="PATH", help="write a page of HTML")
    parser.add_argument("--csv", metavar="PATH", help="write the rows to a file")


def run(options: argparse.Namespace) -> int:
    from .. import lab

    with checked():
        found = lab.Sweep.read(options.store)
        if options.page:
            found.report(options.page)
        if options.csv:
            found.to_csv(options.csv)
    if options.json:
        write_json(found.rows)
    else:
        write(found.table())
    return int(any(row["exception"] is not None for row in found.rows))
