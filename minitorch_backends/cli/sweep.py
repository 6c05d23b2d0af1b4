r"""Run a function for each combination of parameters, flags and seeds, as lab.sweep does.

  minitorch-backends sweep study.py:solve --over n=64,256 --over condition=1e1,1e4 \
      --flag fp32_precision=ieee,tf32,bf16 --seeds 8 --jobs 4 --store runs/solve --page solve.html

With a store, the same command resumes an interrupted sweep. The exit code is 1 if a row failed.
"""

from __future__ import annotations

import argparse

from .common import UsageError, add_outputs, axes, load_object, positive, show, usage_errors

HELP = "run a function over a grid of parameters, flags and seeds"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("target", metavar="FILE:FUNCTION", help="returns a tensor, an array, a number, or a dict of them")
    add("--over", metavar="NAME=V,V", action="append", help="values of a parameter; may be given again")
    add("--flag", metavar="NAME=V,V", action="append", help="values of a flag, as fp32_precision=ieee,tf32")
    add("--seeds", metavar="N", type=positive, default=1, help="repetitions (%(default)s)")
    add("--reference", choices=("float64", "ieee", "none"), default="float64", help="the truth (%(default)s)")
    add("--metric", choices=("logits", "embedding", "regression"), help="further measures, in the units of the task")
    add("--jobs", metavar="N", type=positive, help="number of worker processes (default: run in this process)")
    add("--threads", metavar="N", type=positive, help="threads of each process")
    add("--store", metavar="DIR", help="folder for the rows; rows found there are not run again")
    add("--reuse", action=argparse.BooleanOptionalAction, help="keep rows of a changed function, or discard all rows")
    add("--timing", choices=("shared", "exclusive"), default="shared", help="exclusive: time one cell at a time")
    add("--repeats", metavar="N", type=positive, default=3, help="number of timed calls (%(default)s)")
    add_outputs(parser)


def run(options: argparse.Namespace) -> int:
    from .. import lab

    function = load_object(options.target)
    if not callable(function):
        raise UsageError(f"the target must be a function, got {type(function).__name__}")
    over, flags = axes("--over", options.over), axes("--flag", options.flag)
    with usage_errors():
        found = lab.sweep(
            function, over=over, flags=flags or None, seeds=options.seeds, executor=options.jobs,
            reference=None if options.reference == "none" else options.reference, metric=options.metric,
            threads=options.threads, store=options.store, reuse=options.reuse, timing=options.timing,
            repeats=options.repeats,
        )  # fmt: skip
    return show(found, options)
