"""Compare two runs that lab.capture wrote, call by call, worst first; and name the first call that precision does not
explain.

  minitorch-backends compare a.run b.run --page difference.html

The exit code is 0 if all results are the same, bit for bit, and 1 if not.
"""

from __future__ import annotations

import argparse

from .common import positive, usage_errors, write, write_table

HELP = "compare two captured runs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("first", metavar="A", help="a run")
    parser.add_argument("second", metavar="B", help="the run to compare with")
    parser.add_argument("--limit", metavar="N", type=positive, default=20, help="number of rows to print (%(default)s)")
    parser.add_argument("--page", metavar="PATH", help="write a page of HTML with all calls")


def run(options: argparse.Namespace) -> int:
    from .. import lab

    with usage_errors():
        found = lab.compare(options.first, options.second)
        first = lab.first_divergence(found.first, found.second)
        if options.page:
            found.report(options.page)
    counts = found.counts()
    if options.json:
        write(found.to_json())
    else:
        settings = [f"{name}: {a} -> {b}" for name, (a, b) in found.settings().items()]
        write("\n".join([*settings, ", ".join(f"{count} {status}" for status, count in counts.items())]))
        write(f"first: {first or 'no call differs by more than its precision explains'}")
        for each in found.remarks():
            write(each)
        write_table(found.cells(options.limit))
    return int(counts["same"] < len(found.calls))
