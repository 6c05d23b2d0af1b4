"""`python -m tests.mutations [WORD ...]`: one fault at a time in a copy of the checkout, and the tests that find it.

Each row replaces one line of the package, in each family, and names the tests that must fail. It shows that a smaller
suite finds what a larger one found: run it after tests were removed. Words select rows by their file or text. Exits
with 1 if a fault survives, or if the text of a row is not found once.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
OPS = "minitorch_backends/ops"


class Mutation(NamedTuple):
    """A fault: in a file, the text `old`, which is there once, becomes `new`; `tests` are pytest's arguments."""

    file: str
    old: str
    new: str
    tests: str


MUTATIONS = [
    Mutation(
        "kernels/gemm/ranges.py",
        "(bits >> 23) - 127",
        "(bits >> 23) - 126",
        "tests/kernels/gemm/test_ranges.py -k flushed_numbers",
    ),
    Mutation(
        "kernels/rounding.py",
        "(bits >> shift) & odd)",
        "(bits >> shift) & 0)",
        "tests/kernels/test_rounding.py -k known_from_the_instructions",
    ),
    Mutation(
        "kernels/conv/geometry.py",
        "(places < count) & (index >= 0)",
        "(places < count) & (index > 0)",
        "tests/kernels/conv/test_direct.py -k every_tap_is_a_shift",
    ),
    Mutation(
        "kernels/attention/plain.py",
        "    if causal:",
        "    if not causal:",
        "tests/kernels/test_attention.py -k float64",
    ),
    Mutation(
        "kernels/fft/bluestein.py", "chirp[:0:-1].conj()", "chirp[:0:-1]", "tests/kernels/test_fft.py -k bluestein"
    ),
    Mutation(
        "kernels/linalg/refine.py",
        "                return Refined(x, step, error, error <= enough)",
        "                return Refined(x, step, error, True)",
        "tests/kernels/linalg/test_refined.py -k refinement",
    ),
    Mutation(
        "kernels/rows/functions.py",
        "row.minus(row.minus(x, largest), logarithm)",
        "row.minus(x, logarithm)",
        "tests/kernels/test_rows.py -k every_length",
    ),
    Mutation(
        "minitorch_backends/autograd/engine.py",
        "heappush(self.heap, (-edge.sequence, edge))",
        "heappush(self.heap, (edge.sequence, edge))",
        "tests/autograd/test_autograd.py",
    ),
    Mutation(
        "minitorch_backends/autograd/accumulation.py",
        "state.grad = state.grad + g",
        "state.grad = g",
        "tests/autograd/test_autograd.py tests/autograd/test_engine_statements.py",
    ),
    Mutation(
        "minitorch_backends/autograd/views.py",
        "(*state.steps, step) if",
        "(step,) if",
        "tests/tensor/test_views.py -k reshaped_in_place",
    ),
    Mutation(
        "minitorch_backends/flags/state.py",
        "{**below.stored, **self.named}",
        "{**self.named, **below.stored}",
        "tests/flags/test_flags.py -k scope",
    ),
    Mutation(
        "minitorch_backends/backends/precision_policy.py",
        "decided_by is not None or of_device is None",
        "of_device is None",
        "tests/backends/test_profiles.py",
    ),
    Mutation(
        "minitorch_backends/dispatch/promotion.py",
        "halves.pop() if len(halves) == 1 else None",
        "None",
        "tests/ops/test_half_types.py",
    ),
    Mutation(
        f"{OPS}/elementwise/trigonometric.py",
        "conjugated(-input.sin())",
        "conjugated(input.sin())",
        "tests/ops/test_ops.py -k cos",
    ),
    Mutation(
        f"{OPS}/reductions/variance.py",
        "axes_of(dim, len(shape))) - correction",
        "axes_of(dim, len(shape)))",
        "tests/ops/test_ops.py -k var",
    ),
    Mutation(
        f"{OPS}/einsum/slicing.py",
        "return bodies + sum(self.plan_ahead(part).flops for part in self.ahead)",
        "return bodies",
        "tests/ops/einsum/test_slices.py",
    ),
    Mutation(
        "minitorch_backends/nn/init.py",
        '[mode == "fan_out"]',
        '[mode != "fan_out"]',
        "tests/nn/test_nn.py -k test_starting_values",
    ),
    Mutation(
        "minitorch_backends/optim/adaptive.py",
        "            scale=1 / (1 - beta2**step),",
        "            scale=1 / (1 - beta2),",
        "tests/optim/test_optim.py -k nadam",
    ),
    Mutation(
        "minitorch_backends/optim/lr_scheduler/factors.py",
        "milestone <= epoch",
        "milestone < epoch",
        "tests/optim/test_lr_scheduler.py -k MultiStep",
    ),
    Mutation(
        "minitorch_backends/lab/pareto.py", "second < least))", "second <= least))", "tests/lab/test_sweeps.py -k front"
    ),
    Mutation(
        "minitorch_backends/utils/data/datasets.py",
        "bisect.bisect_right(self",
        "bisect.bisect_left(self",
        "tests/utils/test_data.py",
    ),
]


def copy_tree(folder: Path) -> Path:
    """A copy of what git tracks or would add, with the links as links."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(lambda name: os.path.lexists(ROOT / name), listed.stdout.splitlines()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    return folder


def verdict(mutation: Mutation, folder: Path) -> str:
    """The outcome of a fault: "caught" with the test that found it, "survives", or why the row does not apply."""
    path = folder / mutation.file
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if text.count(mutation.old) != 1:
        return f"stale: the text is there {text.count(mutation.old)} times"
    path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *mutation.tests.split()]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    path.write_text(text, encoding="utf-8")
    found = next(
        (line.split(" - ")[0] for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))), ""
    )
    if done.returncode in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED):
        return f"stale: {mutation.tests} selects no tests"
    return f"caught: {found or f'exit code {done.returncode}'}" if done.returncode else "survives"


def main() -> int:
    words = sys.argv[1:]
    chosen = [each for each in MUTATIONS if not words or any(word in f"{each.file} {each.old}" for word in words)]
    left = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = copy_tree(Path(folder))
        for each in chosen:
            result = verdict(each, copy)
            left += not result.startswith("caught")
            sys.stdout.write(f"{each.file}: {each.old.strip()!r} -> {each.new.strip()!r}\n    {result}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(chosen) - left} of {len(chosen)} faults are caught\n")
    return 1 if left or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
