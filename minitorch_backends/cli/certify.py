"""Check that the bits of a function depend neither on the batch nor on threads, shards or the CPU's instructions.

  minitorch-backends certify model.py:predict --invariant batch,isa
  minitorch-backends certify model.py:predict --inputs batch.npz --batch-sizes 1,7 --capabilities portable,avx2
  minitorch-backends certify model.py:predict --invariant shards --shards 1,2,4,8
  minitorch-backends certify model.onnx --inputs batch.npz

FUNCTION takes the inputs, which come from `inputs` in the same file (a tensor, a tuple of positional arguments, a dict
of named ones, or a function that returns these), or from an NPZ file. Their first dimension is the batch. The exit code
is 0 where all bits are the same, and 1 where some differ; then the first kernel call that differs is named.
"""

from __future__ import annotations

import argparse

from .audit import inputs_of, load_model
from .common import load_object, positive, usage_errors, write

HELP = "check that bits depend neither on the batch nor on the CPU"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("target", metavar="FILE:FUNCTION|ONNX", help="a function, a module in evaluation mode, or an ONNX file")
    add("--inputs", metavar="NAME|NPZ", default="inputs", help="a name in FILE, or a file of arrays (%(default)s)")
    add("--invariant", metavar="KIND", help='"batch", "isa", "shards" or several; by default the flag in force')
    add("--batch-sizes", metavar="N,N", type=_numbers, default=[1, 2, 5], help="of parts of the batch (1,2,5)")
    add("--threads", metavar="N,N", type=_numbers, default=[1, 2], help="numbers of threads (1,2)")
    add("--shards", metavar="N,N", type=_numbers, help="numbers of parts of sums (1,2,4,8 for --invariant shards)")
    add("--capabilities", metavar="C,C", help="CPU capabilities, or 'none'; by default all below the one in force")


def run(options: argparse.Namespace) -> int:
    from .. import lab

    function = (
        load_model(options.target)
        if options.target.endswith(".onnx")
        else load_object(options.target, ", or an ONNX file")
    )
    inputs = inputs_of(options.inputs, options.target, function)
    listed = options.capabilities
    capabilities = None if listed is None else () if listed == "none" else tuple(listed.split(","))
    with usage_errors():
        found = lab.certificate(
            function, inputs, invariant=options.invariant, batch_sizes=options.batch_sizes, threads=options.threads,
            shards=options.shards, capabilities=capabilities,
        )  # fmt: skip
    write(found.to_json() if options.json else str(found))
    return 0 if found.holds else 1


def _numbers(text: str) -> list[int]:
    return [positive(each) for each in text.split(",")]
