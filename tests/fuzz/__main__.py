"""`python -m tests.fuzz --seconds 3600 --seed N`: fuzz, print the first find of each kind as code, and the counts."""

import argparse
import sys
from collections import Counter

from .supervisor import fuzz


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20, help="how long to go on, when --cases is not given")
    parser.add_argument("--cases", type=int, default=0, help="how many cases to run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="the number of the first case")
    parser.add_argument("--only", default="", help="a regular expression of the targets")
    options = parser.parse_args()
    kinds: Counter[str] = Counter()
    ran = 0
    for find in fuzz(options.seed, options.start, options.cases, options.seconds, options.only):
        if isinstance(find, int):
            ran += find
            continue
        kinds[find.kind] += 1
        if kinds[find.kind] == 1:
            sys.stdout.write(f"{find.code}\n    {find.fault}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{ran} cases, {sum(kinds.values())} finds of {len(kinds)} kinds\n")
    return bool(kinds)


if __name__ == "__main__":
    sys.exit(main())
