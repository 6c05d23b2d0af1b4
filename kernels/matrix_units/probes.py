"""Probes of an unknown matrix unit: dot products whose results tell how it aligns, cuts, rounds and orders its terms.

This file needs nothing but Python, and torch where it is run, so that it can be copied to a machine with the device:

    python probes.py --torch cuda --out answers.json

It writes what the device answered; `minitorch_backends.profiles.load` finds the rules from it on any machine. Probes do
not depend on answers. The methods are those of FPRev (P. Xie et al., arXiv 2411.00442: a number, its opposite and
units elsewhere; the units that are lost are those summed before the two meet), of M. Fasi et al. (PeerJ Computer
Science 7:e330) and of FTTN (X. Li et al., arXiv 2403.00232).
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import math
import random
import re
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

VERSION = 3
"""Of the probes: answers to others cannot be read."""


class Range(NamedTuple):
    """The numbers of a format: bits of the significand, the least and greatest exponents of normal ones, and the
    significand of the greatest number."""

    significand: int
    least: int
    greatest: int
    last: float = 2.0


RANGES = {
    "fp32": Range(24, -126, 127), "tf32": Range(11, -126, 127), "bf16": Range(8, -126, 127), "fp16": Range(11, -14, 15),
    "e4m3": Range(4, -6, 8, 1.75), "e5m2": Range(3, -14, 15), "e4m3fnuz": Range(4, -7, 7),
    "e5m2fnuz": Range(3, -15, 15),
}  # fmt: skip
RESULTS: dict[str, tuple[str, ...]] = {
    name: ("float32", "bfloat16") if name == "bf16" else ("float32", "float16") for name in RANGES
}
RESULTS |= {"fp32": ("float32",), "tf32": ("float32",)}
"""The types of results of each format. Those in bfloat16 are sums in float32, rounded at last."""

ADDED_TO_NOTHING = ("bfloat16", "rounded")
"""Types of results with which c is zero; "rounded" is float16 of products that return it where float32 is asked for."""

TORCH_TYPES = {
    "fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16", "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2", "e4m3fnuz": "float8_e4m3fnuz", "e5m2fnuz": "float8_e5m2fnuz",
}  # fmt: skip

Row = tuple[list[float], list[float], float]
"""One dot product: operands of K numbers each, and what their products are added to."""

PLACES = 64
"""K of most probes: two blocks of the longest unit that is known."""

DEPTHS = (16, 32, 48, 112, 192, 208, 272, 336, 400, 464, 528, 784, 1040, 2064)
"""Other K that are asked, as libraries choose their blocks by K: multiples of 16, which all units take."""

UNALIGNED = (1, 7, 50, 129, 253, 390, 521, 1029)
"""Other K, which libraries may send another way. Libraries of float8 refuse them."""

ROWS = 64
"""Dot products of one call: the diagonal of a product of so many rows and columns."""


class Probes(NamedTuple):
    """A group of dot products, all of one K."""

    name: str
    rows: list[Row]


@functools.lru_cache(2)
def probes(name: str, result: str = "float32") -> tuple[Probes, ...]:
    """The groups for a format (a key of `RANGES`) and a type of results (`RESULTS`)."""
    return tuple(_groups(name, result))


def _groups(name: str, result: str) -> Iterator[Probes]:
    half = result in ("float16", "rounded")
    make = _Maker(RANGES[name], half, random.Random(f"{name} {result}"))
    yield Probes("order", make.order(PLACES, [(i, j) for i in range(32) for j in range(i + 1, 32)], range(PLACES)))
    if result != "float16":
        depth = 2048 if make.top - make.low >= 40 else 512
        pairs = [(j, j + 1) for j in range(0, depth, 16)] + [(0, j) for j in range(PLACES, depth, PLACES)]
        yield Probes("depth", make.order(depth, pairs, range(0, depth, PLACES)))
    yield Probes("cut", list(make.cut()))
    yield Probes("near", [make.random_row(spread) for spread in (0, 1, 3, 6, 12) for _ in range(50)])
    yield Probes("wide", [make.random_row(spread) for spread in (20, 40, 200) for _ in range(80)])
    yield Probes("tiny", [*make.ties(), *(make.tiny_row() for _ in range(250))])
    yield Probes("check", [make.random_row(make.random.choice((0, 2, 5, 10, 30))) for _ in range(400)])
    if result != "float16":
        for depth in (*DEPTHS, *(UNALIGNED if not name.startswith("e") else ())):
            yield Probes(f"K = {depth}", make.of_depth(depth))


class _Maker:
    """Makes rows for a format. `top` and `low` are the exponents of products that no unit adds without a loss."""

    def __init__(self, of: Range, half: bool, source: random.Random) -> None:
        self.of, self.random, self.lowest = of, source, of.least - of.significand + 1
        self.top = min(2 * of.greatest, 15 if half else 60)
        low = 2 * of.least if self.top - 2 * of.least >= 40 else 2 * self.lowest
        self.low = max(low, self.top - 60, -24 if half else -200)
        self.bottom = -24 if half else -149  # of the result

    def factors(self, exponent: int) -> tuple[float, float]:
        """Two powers of two of the format whose product has this exponent, normal ones if possible."""
        first = min(max(exponent // 2, self.lowest), self.of.greatest)
        return 2.0**first, 2.0 ** (exponent - first)

    def sparse(self, terms: dict[int, float], places: int = PLACES, fill: float = 0.0) -> Row:
        """A row with these products, signed powers of two by place; at the place -1, what is added to."""
        a, b = ([x] * places for x in (self.factors(self.low) if fill else (0.0, 0.0)))
        for place, value in terms.items():
            if place >= 0:
                first, second = self.factors(_exponent(value))
                a[place], b[place] = (first if value > 0 else -first), second
        return a, b, terms.get(-1, 0.0)

    def order(self, places: int, pairs: Sequence[tuple[int, int]], ends: Sequence[int]) -> list[Row]:
        """A number at one place of a pair, its opposite at the other, units elsewhere; and the same of c and places."""
        big = 2.0**self.top
        rows = [self.sparse({i: big, j: -big}, places, 1.0) for i, j in pairs]
        return rows + [self.sparse({-1: big, j: -big}, places, 1.0) for j in ends]

    def of_depth(self, depth: int) -> list[Row]:
        """Products alone, without c: pairs show where sums are cut along K, random terms how they are rounded."""
        ends = {*range(1, depth, max(depth // 12, 1)), depth - 1} - {0}
        pairs = [(0, j) for j in sorted(ends)] + [(j - 1, j) for j in sorted(ends)[1:]]
        spreads = (0, 2, 5, 10) if self.bottom > -149 else (0, 2, 5, 10, 30)
        random_rows = [self.random_row(spread, depth)[:2] for spread in spreads * 2]
        return self.order(depth, pairs, ()) + [(a, b, 0.0) for a, b in random_rows]

    def cut(self) -> Iterator[Row]:
        """Terms so many places below another one, which is then taken away, or not."""
        for below in range(min(self.top - self.low, 48) + 1):
            one, small = 2.0**self.top, 2.0 ** (self.top - below)
            for terms in (
                {-1: one, 0: -small}, {0: one, 1: -small}, {0: one, 1: small, 2: -one}, {0: one, 1: small, 4: -one},
                {0: one, 1: -small, 2: -one}, {-1: one, 0: small, 1: -one}, {-1: small, 0: one, 1: -one},
                {-1: -small, 0: one, 1: -one}, {0: one, 1: -one, 2: small, 3: small},
                {0: one, 2: -one, 1: small, 3: small},
                {0: one, 2: -one, 1: -small, 3: -small, -1: small}, {0: one, 1: small / 2, 3: small / 2, 2: -one},
            ):  # fmt: skip
                if all(self.low <= _exponent(value) for value in terms.values()):
                    yield self.sparse(terms)
        bits = 11 if self.bottom == -24 else 24
        tie = min(self.top, 14 - bits if bits == 11 else self.top)
        for below in range(1, min(tie - self.low, 48) + 1):  # half a unit of c, and a trifle more or less
            for c in (2.0 ** (tie + bits), 2.0 ** (tie + bits) + 2.0 ** (tie + 1)):
                for sign in (1, -1):
                    for place in (0, PLACES - 2):  # later blocks may cut c
                        terms = {-1: sign * c, place: 2.0**tie, place + 1: sign * 2.0 ** (tie - below)}
                        yield self.sparse(terms)
        for below in range(1, min(self.top - bits - self.low, 48) + 1):  # the same of a sum of the unit's own
            half = 2.0 ** (self.top - bits)
            for sign in (1, -1):
                terms = {0: sign * 2.0**self.top, PLACES - 2: half, PLACES - 1: sign * half / 2**below}
                yield self.sparse(terms)

    def number(self, exponent: int) -> float:
        """A random number of the format with this exponent, a subnormal one below the least."""
        bits = self.of.significand - 1 - max(self.of.least - exponent, 0)
        if bits < 0:
            return 0.0
        value = (1 + self.random.getrandbits(max(bits, 1)) / 2 ** max(bits, 1) if bits else 1.0) * 2.0**exponent
        return min(value, self.of.last * 2.0**self.of.greatest) * self.random.choice((-1, 1))

    def random_row(self, spread: int, places: int = PLACES) -> Row:
        """Exponents within so many of each other, a seventh of the terms zero."""
        half = self.bottom == -24
        middle = (self.of.greatest + self.of.least) // 2 - 3 * half if self.of.greatest < 20 else 0
        room = min(spread // 2, self.of.greatest - middle - 1, middle - self.of.least, 30)
        sides = [[self.number(middle + self.random.randint(-room, room)) for _ in range(places)] for _ in range(2)]
        for side in sides:
            for place in range(places):
                side[place] *= self.random.random() > 0.07
        power = 2 * middle + self.random.randint(-2 * room, 2 * room + 6)
        c = self.random.choice((0.0, 1.0, -1.0)) * self.random.uniform(1, 2)
        return sides[0], sides[1], self.round(c * 2.0 ** (min(power, 14) if half else power))

    def round(self, c: float) -> float:
        """A number in the type of results."""
        return struct.unpack(form := "<e" if self.bottom == -24 else "<f", struct.pack(form, c))[0]

    def ties(self) -> Iterator[Row]:
        """Terms that decide whether a result is the least number or zero, and terms that are added to nothing else."""
        for sign in (1, -1):
            for below in range(1, min(self.bottom - 2 * self.lowest, 24)):
                small = 2.0 ** (self.bottom - below)
                yield self.sparse({0: sign * small})
                yield self.sparse({0: sign * 2.0 ** (self.bottom - 1), 1: sign * small})
                yield self.sparse({0: sign * 2.0 ** (self.bottom - 1), 1: -sign * small})
                yield self.sparse(dict.fromkeys(range(4), sign * small))
            for power in range(self.bottom, min(self.bottom + 60, 2 * self.of.greatest + 1, 15)):
                yield self.sparse({-1: sign * 2.0**power})
                if power >= 2 * self.lowest:
                    yield self.sparse({-1: sign * 2.0**power, 0: sign * 2.0**power})

    def tiny_row(self) -> Row:
        """Products near the least result, by operands that may be subnormal."""
        lowest, greatest = self.lowest, self.of.greatest
        row: tuple[list[float], list[float]] = ([], [])
        for _ in range(PLACES):
            exponent = max(self.bottom + self.random.randint(-14, 22), 2 * lowest)
            first = self.random.randint(max(lowest, exponent - greatest), min(exponent - lowest, greatest))
            if self.random.random() < 0.8:
                first = min(max(exponent // 2, lowest), greatest)
            keep = self.random.random() < self.random.choice((0.1, 0.5, 1.0))
            row[0].append(self.number(first) * keep)
            row[1].append(self.number(exponent - first) * keep)
        c = self.random.choice((0.0, 1.0, -1.0)) * self.random.uniform(1, 2)
        return row[0], row[1], self.round(c * 2.0 ** (self.bottom + self.random.randint(0, 26)))


def _exponent(power: float) -> int:
    """Return the encoding of a signed power of two."""
    return math.frexp(power)[1] - 1


Product = Callable[[list[list[float]], list[list[float]], list[float]], list[float]]
"""The dot products of rows a and rows b, each added to its c."""


def ask(product: Product, name: str, result: str = "float32") -> dict[str, str]:
    """The answers of a unit to the probes of a format: by group, the bits of results in float32 in hexadecimal. With
    results in bfloat16 nothing is added to."""
    found = {}
    for group in probes(name, result):
        results: list[float] = []
        for start in range(0, len(group.rows), ROWS):
            part = group.rows[start : start + ROWS]
            rows = part + [part[-1]] * (ROWS - len(part))
            a, b, c = map(list, zip(*rows, strict=True))
            results += product(a, b, [0.0] * ROWS if result in ADDED_TO_NOTHING else c)[: len(part)]
        found[group.name] = struct.pack(f">{len(results)}f", *results).hex()
    return found


# On a device, by torch


def _by_torch(torch: Any, device: str, name: str, result: str) -> Product:
    dtype, kind = getattr(torch, TORCH_TYPES[name]), getattr(torch, result)
    options = {} if dtype == kind else {"out_dtype": kind}

    def product(a: list, b: list, c: list) -> list[float]:
        left, right = (torch.tensor(x, dtype=torch.float64).float().to(dtype).to(device) for x in (a, b))
        start = torch.tensor(c, dtype=torch.float64).to(kind).to(device)
        if name.startswith("e"):
            one = torch.ones((), device=device)
            whole = torch._scaled_mm(left, right.t(), one, one, out_dtype=kind, use_fast_accum=True)
            return (whole.diagonal() + start).cpu().double().tolist()
        into = start.expand(len(c), len(c)).contiguous()
        return torch.addmm(into, left, right.t(), **options).diagonal().cpu().double().tolist()

    return product


def measure_torch(device: str, formats: Sequence[str] = (), log: Callable[[str], Any] = len) -> dict[str, Any]:
    """The answers of a device of torch, and what it refused: the content of a file of answers. Raises ValueError for a
    device that torch has not."""
    torch = importlib.import_module("torch")
    try:
        torch.zeros(1, device=device).cpu()
    except (RuntimeError, NotImplementedError, AssertionError) as error:
        raise ValueError(f"--torch must be a device that torch has here, got {device!r}: {_first(error)}") from None
    answers: dict[str, Any] = {}
    refused: dict[str, str] = {}
    for name, result in [(each, result) for each in formats or RANGES for result in RESULTS[each]]:
        key = f"{name} {result}"
        if result == "bfloat16" and f"{name} float32" in answers:
            continue
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        try:
            answers[key] = ask(_by_torch(torch, device, name, result), name, result)
            log(f"{key}: {sum(map(len, answers[key].values())) // 8} dot products")
        except (RuntimeError, NotImplementedError, TypeError, ValueError, AttributeError) as error:
            refused[key] = _first(error)
            log(f"{key}: refused: {refused[key]}")
    about = torch.cuda.get_device_name() if device.startswith("cuda") else device
    found = {"probes": VERSION, "device": about, "software": f"torch {torch.__version__}"}
    return {**found, "answers": answers, "refused": refused}


def _first(error: Exception) -> str:
    """The first sentence of a message, without torch's list of what else there is."""
    return re.split(r"[.;:!?]\s|\n", str(error).strip())[0][:200]


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask a device of torch and write its answers."""
    parser = argparse.ArgumentParser(description="Write a device's answers to the probes of its matrix unit.")
    parser.add_argument("--torch", metavar="DEVICE", default="cuda", help="a device of torch (%(default)s)")
    parser.add_argument("--out", metavar="FILE", default="answers.json", help="the file to write (%(default)s)")
    parser.add_argument("--formats", metavar="NAME,NAME", default="", help=f"of {', '.join(RANGES)} (all)")
    options = parser.parse_args(arguments)
    chosen = list(filter(None, options.formats.split(",")))
    if unknown := [each for each in chosen if each not in RANGES]:
        parser.error(f"--formats must be of {', '.join(RANGES)}, got {', '.join(unknown)}")
    try:
        found = measure_torch(options.torch, chosen, lambda text: sys.stderr.write(f"{text}\n"))
    except ValueError as problem:
        parser.error(str(problem))
    with open(options.out, "w", encoding="utf-8") as file:
        json.dump(found, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
