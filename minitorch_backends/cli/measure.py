"""Find the rules by which a device adds products, from the results of its products alone.

  minitorch-backends measure --torch cuda --out mine.json      # a GPU of torch on this machine
  minitorch-backends measure --script > measure_unit.py        # one file for a machine that has torch alone
  minitorch-backends measure --answers answers.json --out mine.json

  minitorch-backends measure --speed --out mine.json           # times, for audit --device mine.json

The script writes `answers.json`, from which `--answers`, or mt.profiles.load, finds the rules on any machine. The file
OUT is a profile: after mt.profiles.load("mine.json"), mt.backends.profile takes its name. Formats that the device
refuses are left out, and named.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ..kernels.runtime.files import write_file
from .common import UsageError, usage_errors, write, write_json

HELP = "find how a device adds products, or how fast it is"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--torch", metavar="DEVICE", help="ask a device of torch, as cuda or cpu")
    add("--formats", metavar="NAME,NAME", default="", help="of tf32, bf16, fp16, e4m3 and others; by default all")
    add("--answers", metavar="FILE", help="take the answers that the script wrote on another machine")
    add("--script", action="store_true", help="print the script that asks a device with torch alone")
    add("--speed", action="store_true", help="measure the speed of products and memory, of this CPU or of --torch")
    add("--out", metavar="FILE", help="write the profile to a file, by whose name it is called")


def run(options: argparse.Namespace) -> int:
    from .. import profiles
    from ..kernels.matrix_units import probes

    if options.speed:
        return _speed(options)
    if sum(map(bool, (options.torch, options.answers, options.script))) != 1:
        raise UsageError("one of --torch, --answers and --script must be given")
    if options.script:
        write(Path(probes.__file__).read_text(encoding="utf-8").rstrip())
        return 0
    with usage_errors():
        if options.torch:
            chosen = list(filter(None, options.formats.split(",")))
            if unknown := [each for each in chosen if each not in probes.RESULTS]:
                raise UsageError(f"--formats must be of {', '.join(probes.RESULTS)}, got {', '.join(unknown)}")
            content = probes.measure_torch(options.torch, chosen)
        else:
            with open(options.answers, encoding="utf-8") as file:
                content = json.load(file)
        found, failed = profiles.from_answers(content, Path(options.out or "measured").stem)
        if options.out and found.formats:
            profiles.save(found, options.out)
    _show(options, found, {**content.get("refused", {}), **failed})
    return 0 if found.formats else 1


def _speed(options: argparse.Namespace) -> int:
    from ..lab.devices import measure_speed

    with usage_errors():
        found = measure_speed(options.torch)
        if options.out:
            write_file(options.out, json.dumps(found._asdict(), indent=1) + "\n")
    if options.json:
        write_json(found._asdict())
    else:
        write(f"{found.source}: {found.bandwidth:.3g} GB/s")
        write("\n".join(f"{name}: {peak:.3g} TFLOP/s" for name, peak in found.peaks.items()))
    return 0


def _show(options: argparse.Namespace, found: Any, refused: dict[str, str]) -> None:
    if options.json:
        formats = {
            name: [way._asdict() | {"rule": str(way.rule)} for way in ways] for name, ways in found.formats.items()
        }
        write_json({"profile": found.name, "note": found.note, "formats": formats, "refused": refused})
        return
    write(f"{found.name}: {found.note}")
    for name, (way,) in found.formats.items():
        write(f"\n{name}: {way.rule}")
        for finding in way.findings:
            write(f"  {finding}")
    for name, reason in refused.items():
        write(f"\n{name}: left out: {reason}")
