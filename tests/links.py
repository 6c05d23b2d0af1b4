"""Links of the pages and of the code to other sites: `python -m tests.links` asks each for its page.

Links within the project are tests (`tests/project/test_docs.py`). This needs the network, and fails without it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[1]

_LINK = re.compile(r"https?://[^\s)>\]\"'`]+")

_NOT_PAGES = re.compile(r"https?://(localhost|127\.0\.0\.1|www\.w3\.org|example\.(com|org))|.*[{}\\]")
"""Addresses of this machine, names of schemas, and texts of formats."""


def links() -> dict[str, list[str]]:
    """The places of each link."""
    command = ["git", "grep", "-nIE", "https?://", "--", "*.md", "*.py", "*.toml", "*.cff"]
    found: dict[str, list[str]] = {}
    for line in subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines():
        file, number, text = line.split(":", 2)
        for link in _LINK.findall(text):
            if not _NOT_PAGES.match(link) and file != "tests/links.py":
                found.setdefault(link.rstrip(".,;:"), []).append(f"{file}:{number}")
    return found


def problem_of(link: str) -> str | None:
    """A sentence if the page is not there. Raises `URLError` where the site cannot be reached."""
    request = urllib.request.Request(link, headers={"User-Agent": "minitorch-backends link check"})
    try:
        with urllib.request.urlopen(request, timeout=20):
            return None
    except urllib.error.HTTPError as error:
        return None if error.code in (403, 429) else f"{error.code} {error.reason}"  # sites that refuse programs


def main() -> int:
    """Print a line for each link that leads nowhere; 1 if there are any, or if no site can be reached."""
    found, lost, reached = links(), [], 0
    for link, places in found.items():
        try:
            problem = problem_of(link)
            reached += 1
        except (urllib.error.URLError, TimeoutError) as error:
            problem = f"cannot be reached: {getattr(error, 'reason', error)}"
        if problem:
            lost.append(f"{link} ({', '.join(places)}): {problem}")
    if not reached:
        sys.stdout.write(f"No site can be reached: {len(found)} links to other sites were not checked.\n")
        return 1
    sys.stdout.write("".join(f"{line}\n" for line in lost) + f"{len(found) - len(lost)} of {len(found)} links hold.\n")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
