"""Bit-exact models of other devices' matrix units, the table of device profiles, and rules measured from products.

    d = mt.profiles.mma(a, b, c, profile="h100", format="bf16")
    with mt.backends.flags(profile="h100", fp32_precision="bf16"):
        d = a @ b  # summed as that unit does

`PROFILES` has one row per device, with the evidence for it; `add` adds a row. `measure` finds the rules of a function
that multiplies, `save` and `load` write and read them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .backends.profiles import PROFILES, Aligned, Exact, Format, Halves, Profile, Tree, TwoStage, add, find_profile
from .kernels.matrix_units import Chain, Lanes, Rule, Tiles, definition
from .kernels.matrix_units.identify import identify
from .kernels.matrix_units.probes import ADDED_TO_NOTHING, RESULTS, ROWS, VERSION, Product, ask, probes
from .kernels.precisions.float8 import FORMATS
from .kernels.runtime.files import write_file
from .kernels.runtime.first_use import load as load_library
from .ops.creation.factories import as_tensor
from .tensor.tensor import Tensor

__all__ = [
    "PROFILES", "Aligned", "Chain", "Exact", "Format", "Halves", "Lanes", "Profile", "Tiles", "Tree", "TwoStage", "add",
    "load", "measure", "mma", "save",
]  # fmt: skip

_TYPES = {
    "fp32": "float32",
    "tf32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    **{operand: name for name, operand in FORMATS.items()},
}
"""The storage dtype of each operand format. TF32 is stored as float32; the units ignore the low 13 bits."""

_RESULTS = {"float32": np.float32, "float16": np.float16}


def mma(
    a: Any,
    b: Any,
    c: Any,
    *,
    profile: str | Profile,
    format: str,
    result: str = "float32",
    instruction: str | None = None,
) -> Tensor:
    """Compute n dot products as a device's matrix unit does: c + the sums over K of a * b.

    Arguments:
        a, b: shape (n, K), values of `format`, as tensors or arrays of any floating dtype.
        c: shape (n,), rounded to `result` first.
        profile: a name in `PROFILES`, or a row of your own.
        format: "fp16", "bf16", "tf32" (the unit ignores the low 13 bits), "e4m3", "e5m2", "e4m3fnuz" or "e5m2fnuz".
        result: "float32", or "float16" where NVIDIA's units have it: for fp16 and fp8.
        instruction: the instruction to use where a device has several for a format, for example "mma.sync" for fp8 on
            H100.

    Returns shape (n,) in `result`. Raises ValueError for unknown names and for values that `format` cannot hold, and
    RuntimeError for mismatched shapes.
    """
    row = find_profile(profile)
    way = row.format(format, instruction)
    if way.rule is None:
        raise ValueError(f"mma(): profile must be a device with a known summation order, got {row.name!r}")
    kind, halves = _RESULTS.get(result), isinstance(way.rule, Aligned | Halves) and format not in ("bf16", "tf32")
    if kind is None or (kind is np.float16 and not halves):
        has = "'float32' or 'float16'" if halves else "'float32' here"
        raise ValueError(f"mma(): result must be {has}, got {result!r}")
    left, right, start = (np.asarray(x._array if isinstance(x, Tensor) else x, np.float64) for x in (a, b, c))
    if left.ndim != 2 or left.shape != right.shape or start.shape != left.shape[:1]:
        shapes = ", ".join(str(list(x.shape)) for x in (left, right, start))
        raise RuntimeError(f"mma(): a and b must be (n, K) and c (n), got {shapes}")
    left, right = (_values(name, x, format) for name, x in (("a", left), ("b", right)))
    return Tensor(definition(way.rule, format, left, right, start, result=kind))


def _values(name: str, x: np.ndarray, operand: str) -> np.ndarray:
    """The values of an operand. Raises ValueError unless `format` holds them exactly."""
    if operand == "tf32":
        return (x.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    load_library("ml_dtypes")  # registers the extension dtypes with NumPy
    with np.errstate(over="ignore", invalid="ignore"):
        held = x.astype(_TYPES[operand]).astype(np.float64)
    wrong = np.flatnonzero((held != x) & ~(np.isnan(held) & np.isnan(x)))
    if len(wrong):
        raise ValueError(f"mma(): {name} must hold values of {operand}, got {x.ravel()[wrong[0]]}; round it first")
    return held


# Measured

_REFUSALS = (RuntimeError, NotImplementedError, TypeError, ValueError)


def measure(
    product: Callable[[np.ndarray, np.ndarray, np.ndarray], Any], formats: Sequence[str] = ("fp16", "bf16"),
    name: str = "measured", places: Sequence[int] = range(ROWS),
) -> Profile:  # fmt: skip
    """Find the rules by which a function adds products, from its results alone.

    Arguments:
        product: takes arrays a (m, k), b (k, n) and c (m, n), and returns c plus the product of a and b, as an array
            or a tensor of any library. a and b have the storage dtype of a format (of ml_dtypes where NumPy has none;
            float32 for "tf32", whose low 13 bits are zero), c has the dtype that the result should have: float32, and
            float16 where that is tried too. If it returns bfloat16, or float16 for c in float32, c is zero.
        formats: of "fp16", "bf16", "tf32", "fp32", "e4m3", "e5m2", "e4m3fnuz" and "e5m2fnuz".
        name: that of the profile.
        places: the entries (i, i) of the result that are asked, for a library whose order depends on the place.

    Returns a `Profile` for `add`, whose formats say in `findings` what was shown and what stays undetermined: a block's
    length and order, kept bits, rounding, least exponents, flushed subnormals, restarts along K. `depths` of a format
    is the range of K for which the rule is shown, as libraries choose blocks by K: products of another K under that
    profile give a warning. m and n are 64: other sizes may take other ways.

    Sources: P. Xie et al., arXiv 2411.00442; M. Fasi et al., PeerJ Computer Science 7:e330; X. Li et al.,
    arXiv 2403.00232. Raises ValueError for unknown formats, for results of another shape or dtype, for places that are
    added in several orders, and where no known rule gives all results.
    """
    unknown = [each for each in formats if each not in RESULTS]
    if unknown or not formats:
        raise ValueError(f"measure(): formats must be of {', '.join(RESULTS)}, got {', '.join(unknown) or 'none'}")
    answers: dict[str, dict[str, str]] = {}
    for operand in formats:
        dtype = _result_dtype(product, operand, "float32")
        if dtype not in (*RESULTS[operand], "float16"):
            raise ValueError(f"measure(): product must return float32, float16 or bfloat16, got {dtype}")
        kind = "rounded" if dtype == "float16" else dtype
        entries = _entries(product, operand, kind, places)
        _check_one_order(entries, operand, kind, places)
        answers[f"{operand} {kind}"] = ask(entries, operand, kind)
        if dtype == "float32" and "float16" in RESULTS[operand]:
            try:
                halves = _result_dtype(product, operand, "float16") == "float16"
            except _REFUSALS:
                continue
            if halves:
                answers[f"{operand} float16"] = ask(_entries(product, operand, "float16", places), operand, "float16")
    return Profile(name, dict(_identify_format(operand, answers) for operand in dict.fromkeys(formats)))


def _whole(product: Callable[..., Any], operand: str, result: str, a: Any, b: Any, c: Any) -> np.ndarray:
    """A product of rows a and rows b, added to rows of c."""
    load_library("ml_dtypes")
    left, right = (np.asarray(x, np.float64).astype(_TYPES[operand]) for x in (a, b))
    start = np.asarray(c, np.float64).astype("float32" if result in ADDED_TO_NOTHING else result)
    into = np.ascontiguousarray(np.broadcast_to(start, (len(a), len(b))))
    with np.errstate(over="ignore", invalid="ignore"):  # infinities are answers
        array = as_tensor(product(left, np.ascontiguousarray(right.T), into))._array
    if array.shape != (len(a), len(b)):
        raise ValueError(f"measure(): product must return {[len(a), len(b)]} numbers, got {list(array.shape)}")
    return array


def _result_dtype(product: Callable[..., Any], operand: str, result: str) -> str:
    return _whole(product, operand, result, [[1.0] * 8] * 4, [[1.0] * 8] * 4, [0.0] * 4).dtype.name


def _entries(product: Callable[..., Any], operand: str, result: str, places: Sequence[int]) -> Product:
    """A product's dot products of rows, as many at once as there are places on its diagonal for them."""

    def entries(a: Any, b: Any, c: Any) -> list[float]:
        found: list[float] = []
        rows, taken = [np.asarray(x, np.float64) for x in (a, b, c)], np.zeros(ROWS, np.int64)
        for start in range(0, len(c), len(places)):
            at = places[: len(c) - start]
            taken[at] = np.arange(start, start + len(at))
            whole = _whole(product, operand, result, *(x[taken] for x in rows))
            found += whole.diagonal()[at].astype(np.float64).tolist()
        return found

    return entries


def _check_one_order(entries: Product, operand: str, result: str, places: Sequence[int]) -> None:
    """Raise ValueError where the same dot products give other bits at other places."""
    rows = next(group.rows for group in probes(operand, result) if group.name == "check")[:8]
    found = np.array([entries(*([x] * len(places) for x in row)) for row in rows])  # type: ignore[arg-type]
    other = np.flatnonzero((found != found[:, :1]).any(0) & ~np.isnan(found).any(0))
    if len(other):
        raise ValueError(
            f"measure(): product must add all entries in one order, got other bits at {places[other[0]]} than at "
            f"{places[0]} of the diagonal; pass places={places[: other[0]]}, and others after it"
        )


def _identify_format(operand: str, answers: dict[str, dict[str, str]]) -> tuple[str, tuple[Format]]:
    """A format and its rule, from answers by format and type of results."""
    keys = [key.partition(" ") for key in answers]
    found = identify(operand, {result: answers[f"{of} {result}"] for of, _, result in keys if of == operand})
    way = Format(found.rule, "measured", "", found.promote, (), found.findings, found.depths, found.halve_to)
    return operand, (way,)


def from_answers(content: dict[str, Any], name: str) -> tuple[Profile, dict[str, str]]:
    """The profile that the content of a file of answers stands for, and the formats for which no rule is known.

    Raises ValueError for answers to probes of another version.
    """
    if content["probes"] != VERSION:
        raise ValueError(f"answers must be to probes of version {VERSION}, got {content['probes']!r}")
    formats: dict[str, tuple[Format, ...]] = {}
    failed: dict[str, str] = {}
    for operand in dict.fromkeys(key.split()[0] for key in content["answers"]):
        try:
            formats |= [_identify_format(operand, content["answers"])]
        except ValueError as problem:
            failed[operand] = str(problem)
    return Profile(name, formats, f"measured by {content['software']} on {content['device']}"), failed


def save(profile: Profile, path: str | os.PathLike[str]) -> None:
    """Write a profile to a JSON file, from which `load` makes it again. Raises OSError where that is not possible."""
    formats = {name: [_way_as_json(way) for way in ways] for name, ways in profile.formats.items()}
    write_file(path, json.dumps({"profile": 1, **profile._asdict(), "formats": formats}, indent=1) + "\n")


def load(path: str | os.PathLike[str], name: str | None = None) -> Profile:
    """Read a profile from a file of `save`, or find it from a file of answers (`minitorch-backends measure --script`),
    and `add` it: `backends.profile` takes its name then.

    `name` is given to it in the place of its own. Raises OSError for a file that cannot be read, and ValueError for
    other content.
    """
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        if "answers" in content:
            profile, failed = from_answers(content, name or Path(path).stem)
            if failed:
                raise ValueError("; ".join(failed.values()))
        else:
            formats = {each: tuple(map(_way_from_json, ways)) for each, ways in content.pop("formats").items()}
            content.pop("profile")
            profile = Profile(**content, formats=formats)
            profile = profile if name is None else profile._replace(name=name)
        add(profile)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        what = f"no {problem}" if isinstance(problem, KeyError) else problem
        raise ValueError(f"load(): {os.fspath(path)} must be a profile or answers to probes, got {what}") from None
    return profile


_KINDS: dict[str, Any] = {each.__name__: each for each in (Aligned, Halves, Exact, Tree, TwoStage, Chain, Lanes, Tiles)}


def _way_as_json(way: Format) -> dict[str, Any]:
    return {**way._asdict(), "rule": None if way.rule is None else _rule_as_json(way.rule)}


def _rule_as_json(rule: Any) -> dict[str, Any]:
    pairs = rule._asdict().items()
    fields = {name: _rule_as_json(each) if type(each) in _KINDS.values() else each for name, each in pairs}
    return {"kind": type(rule).__name__, **fields}


def _way_from_json(content: dict[str, Any]) -> Format:
    rule = None if content["rule"] is None else _rule_from_json(content["rule"])
    lists = {name: tuple(content[name]) for name in ("scaled_blocks", "findings")}
    return Format(**{**content, **lists, "depths": _depths_from_json(content.get("depths", ())), "rule": rule})


def _depths_from_json(content: Any) -> tuple[int, ...]:
    """The range of K of a measured rule. Raises ValueError for other content."""
    if content and (len(content) != 3 or any(type(each) is not int or each < 1 for each in content)):
        raise ValueError(f"depths {content!r}")
    return tuple(content)


def _rule_from_json(content: dict[str, Any]) -> Rule:
    """A rule by its fields. They decide how memory is read, and each is checked."""
    fields = dict(content)
    kind = _KINDS[fields.pop("kind")]
    for name, value in fields.items():
        if isinstance(value, dict):
            fields[name] = _rule_from_json(value)
        elif name == "walk":
            fields[name] = tuple((int(of_a), int(of_b)) for of_a, of_b in value)
            if not fields[name] or not {part for pair in fields[name] for part in pair} <= {0, 1, 2}:
                raise ValueError(f"walk {value!r}")
        elif isinstance(value, list):
            fields[name] = tuple(map(int, value))
        elif not isinstance(value, (bool, int)) and value not in ("rz32", "rz22", "rne32"):
            raise ValueError(f"{name} {value!r}")
    rule = kind(**fields)
    if not 1 <= rule.length <= 1024 or (kind is Chain and sorted(rule.order) != list(range(rule.length))):
        raise ValueError(f"a block of {rule.length} places")
    return rule
