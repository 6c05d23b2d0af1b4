"""`%load_ext minitorch_backends`: torch in a notebook under the flags of this package."""

from __future__ import annotations

from typing import Any

from ...flags.environment import parse_assignments
from ...flags.writes import assign


def load_ipython_extension(shell: Any) -> None:
    """Run torch's products on our kernels in all later cells, and define `%minitorch`.

    `%minitorch fp32_precision=tf32 profile=h100` sets flags. `%minitorch` alone prints what has run since the extension
    was loaded, and the products that torch computed itself.
    """
    import torch  # noqa: F401  (the mode is entered after it, and this raises ImportError where it is not installed)

    from . import process

    process.enter(notebook=True)

    def minitorch(line: str) -> None:
        if line.strip():
            assign(parse_assignments(line.split()))
        else:
            print(process.report_until_now())  # noqa: T201  (the output of the cell)

    shell.register_magic_function(minitorch, "line", "minitorch")
