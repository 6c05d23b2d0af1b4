"""CPU time and modules of `import minitorch_backends`, and of the way to the first product, beside the imports of torch
and NumPy. Each runs in a new process; `python -X importtime` says which modules are heaviest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from statistics import median
from typing import Any

from . import peers
from .presentation import Table, paragraphs, ratio, seconds
from .session import Session

TITLE = "Import"

ALLOWED = 0.25 / 0.09
"""The most CPU time that importing may take, relative to NumPy's import, which is a part of it."""
ALLOWED_MODULES = 150
"""Our modules before the first product has run."""

_STATEMENTS = {
    "minitorch_backends": "import minitorch_backends as mt",
    "first product": "import minitorch_backends as mt; mt.ones(3, 3) @ mt.ones(3, 3)",
    "numpy": "import numpy as np",
    "first product of numpy": "import numpy as np; np.ones((3, 3)) @ np.ones((3, 3))",
    "torch": "import torch",
    "first product of torch": "import torch; torch.ones(3, 3) @ torch.ones(3, 3)",
}

_SCRIPT = """
import time; start = time.process_time(); {}; taken = time.process_time() - start
import json, sys; own = sum(name.partition(".")[0] == "minitorch_backends" for name in sys.modules)
print(json.dumps([taken, own, len(sys.modules)]))
"""


def _run(folder: str, statement: str) -> str:
    """Run a statement in a new process and return what it prints. Its bytecode is kept in `folder`, so that packages
    start alike whether or not their installer wrote theirs."""
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": folder}
    return subprocess.check_output([sys.executable, "-c", _SCRIPT.format(statement)], env=environment, text=True)


def run(session: Session) -> dict[str, Any]:
    """Run each statement in new processes, in turn; the first of each warms the caches and is not counted."""
    cases = {name: text for name, text in _STATEMENTS.items() if peers.torch_is_installed() or name[-5:] != "torch"}
    rounds = 3 if session.quick else 8
    samples: dict[str, list[tuple[float, int, int]]] = {name: [] for name in cases}
    with session.progress(TITLE) as report, tempfile.TemporaryDirectory() as folder:
        for turn in range(rounds):
            for position, (name, statement) in enumerate(cases.items()):
                report((turn + position / len(cases)) / rounds, name)
                samples[name].append(tuple(json.loads(_run(folder, statement))))
    medians = {name: median(each[0] for each in taken[1:]) for name, taken in samples.items()}
    relative, modules = medians["minitorch_backends"] / medians["numpy"], samples["first product"][0][1]
    return {
        "cpu_seconds": medians,
        "least_cpu_seconds": {name: min(each[0] for each in taken[1:]) for name, taken in samples.items()},
        "modules": {name: taken[0][1:] for name, taken in samples.items()},
        "samples": rounds - 1,
        "relative_to_numpy": relative,
        "relative_to_torch": medians["minitorch_backends"] / medians["torch"] if "torch" in medians else None,
        "allowed_relative_to_numpy": ALLOWED,
        "allowed_modules": ALLOWED_MODULES,
        "met": relative <= ALLOWED and modules <= ALLOWED_MODULES,
    }


def tables(result: dict[str, Any]) -> list[Table]:
    ours = result["cpu_seconds"]["minitorch_backends"]
    rows = [
        (name, seconds(value), seconds(result["least_cpu_seconds"][name]), ratio(ours / value), *map(str, modules))
        for (name, value), modules in zip(result["cpu_seconds"].items(), result["modules"].values(), strict=True)
    ]
    titles = "statement", "CPU time", "least", "our import relative to it", "our modules", "all modules"
    return [Table("Import in a new process", titles, rows)]


def summary(result: dict[str, Any]) -> list[str]:
    """What was done, and what it shows, in paragraphs."""
    return paragraphs(f"""
        Numba, SciPy, opt_einsum and ml_dtypes load with the first kernel that needs them, subjects of ops with their
        first call. An import may take {ALLOWED:.1f} times the CPU time of NumPy's, which it contains: here it takes
        {result["relative_to_numpy"]:.2f}. Of our modules at most {ALLOWED_MODULES} may be loaded before the first
        product: here {result["modules"]["first product"][0]} are.
    """)
