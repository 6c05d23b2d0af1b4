"""Run the Python of pages of the site, and print the seconds of each: python -m bench.page docs/gallery/NAME.md"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path


def main(paths: list[str]) -> None:
    """Run each page in a namespace of its own."""
    for path in paths:
        blocks = re.findall(r"^```python\n(.*?)^```", Path(path).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
        start = time.perf_counter()
        exec(compile("\n".join(blocks), path, "exec"), {"__name__": path})
        print(f"{path}: {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
