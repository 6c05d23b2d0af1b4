"""`python -m minitorch_backends.compat.torch script.py args`: run a script of torch's on this library."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from . import install


def main() -> None:
    """Run the script that the command line names, or `-m module`, with the arguments after it."""
    arguments = sys.argv[1:]
    by_name = arguments[:1] == ["-m"]
    if len(arguments) < 1 + by_name or arguments[0] in ("-h", "--help"):
        sys.exit("usage: python -m minitorch_backends.compat.torch script.py args, or -m module args")
    sys.argv = arguments[by_name:]
    install()
    sys.path[0] = str(Path.cwd() if by_name else Path(sys.argv[0]).resolve().parent)
    if by_name:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
