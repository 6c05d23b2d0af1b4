"""The operators of torch's dispatcher, and which of them multiply: `python -m tests.parity.operators` writes the table
that `test_operators` compares with the torch that is installed."""

import subprocess
import sys
import textwrap
from collections import defaultdict
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("operators.txt")

KINDS = {
    "here": "runs on our kernels",
    "decomposed": "consists of operators that arrive one by one; listed in mode.left where none of them runs here",
    "left": "multiplies in torch, and is listed in mode.left",
    "other": "multiplies nothing, by its name",
}

_NAMES = "import torch; print(*torch._C._dispatch_get_all_op_names(), sep='\\n')"
"""In a process of its own, since modules of torch add operators when they are imported."""


def _kind_of(operator: Any) -> str:
    from minitorch_backends.interop.torch import mode  # noqa: F401  (fills the table)
    from minitorch_backends.interop.torch.table import entry_of

    entry = entry_of(operator)
    if entry.function is not None:
        return "here"
    return "other" if not entry.product else "decomposed" if entry.inside else "left"


def operators() -> dict[str, str]:
    """The kind of each operator of the installed torch, by its name without overloads."""
    import torch

    names = subprocess.run([sys.executable, "-c", _NAMES], capture_output=True, text=True, check=True).stdout.split()
    kinds: dict[str, set[str]] = defaultdict(set)
    for full in names:
        name, _, overload = full.partition(".")
        namespace, _, base = name.partition("::")
        packet = getattr(getattr(torch.ops, namespace), base)
        kinds[name].add(_kind_of(getattr(packet, overload or "default")))
    return {name: next(kind for kind in KINDS if kind in found) for name, found in kinds.items()}


def read() -> dict[str, str]:
    """The table in the file."""
    found, kind, namespace = {}, "", ""
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            namespace, kind = line.strip("[]").split()
        elif not line.startswith("#"):
            found.update({f"{namespace}::{name}": kind for name in line.split()})
    return found


def write() -> None:
    import torch

    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, kind in operators().items():
        namespace, _, base = name.partition("::")
        groups[namespace, kind].append(base)
    lines = [f"# Operators of torch {torch.__version__.partition('+')[0]}, by namespace and kind:"]
    lines += [f"# {kind}: {what}" for kind, what in KINDS.items()]
    for (namespace, kind), names in sorted(groups.items(), key=lambda item: (item[0][0], [*KINDS].index(item[0][1]))):
        lines += ["", f"[{namespace} {kind}]", *textwrap.wrap(" ".join(sorted(names)), 120, break_on_hyphens=False)]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
