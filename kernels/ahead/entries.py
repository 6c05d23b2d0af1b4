"""The functions that Python calls, each with the kinds of arguments that it is called with.

A parameter is an int64, or the record that it is annotated with, unless the table below says otherwise, by an example
for each kind.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..runtime import cpu, native
from ..runtime.dtypes import FLOATS, NUMBERS
from ..runtime.jit import Entry
from .leaves import leaves

_KERNELS = Path(__file__).parents[1]
_WORDS = (np.uint8(0), np.uint16(0), np.uint32(0), np.uint64(0))
_INT, _WORD, _SINGLE, _EITHER = np.int32(0), np.uint32(0), np.float32(0), (np.float32, np.float64)
_ON_TILES = ("conv.pointwise_nchw", "conv.pointwise_nhwc", "conv.weight_tiles")
"""Modules whose functions need tiles."""

Examples = Iterator[dict[str, Any]]
"""Parameters that are not int64, by name."""


def _job(kind: Any, **fields: Any) -> Any:
    """A tuple of a class with these fields, and 0 in all others."""
    return kind(**dict.fromkeys(kind._fields, 0) | fields)


def _array(dtype: Any, ndim: int = 1) -> np.ndarray:
    return np.empty((1,) * ndim, dtype)


def _add_rows(of: Any) -> Examples:
    pairs = [(zero, zero) for zero in NUMBERS.values()]
    yield from ({"zero": zero, "value_zero": value} for zero, value in (*pairs, (0.0, _SINGLE)))


def _updates(of: Any) -> Examples:
    yield from ({"optional": optional, "like": zero} for optional in (None, 0) for zero in FLOATS.values())


def _differentiate(of: Any) -> Examples:
    for number in FLOATS.values():
        shape, operand = _job(of.Shape), _job(of.Operand)
        operands = dict.fromkeys(("q", "k", "v", "g", "q_across", "k_across", "g_across", "p", "p_across"), operand)
        numbers = {"mask": _job(of.Mask, scale=number), "scale": number, "slope_scale": number, "hidden": number}
        yield {"layout": _job(of.Layout, shape=shape, **operands, **numbers), "places": _job(of.Places)}


def _by_rows(of: Any) -> Examples:
    yield {"fields": (0,) * (len(of._task._fields) - 1)}


def _pairs(first: str, numbers: str, last: str) -> Callable[[Any], Examples]:
    def examples(of: Any) -> Examples:
        yield from ({first: _array(each, 2), numbers: _array(each), last: _array(each, 2)} for each in _EITHER)

    return examples


def _products(dtype: Any) -> native.Pointer:
    """The products of a factorisation in a dtype."""
    from ..linalg.groups import tag_of
    from ..linalg.updates import Products

    return Products.of(tag_of(np.dtype(dtype))).pointer


def _factors(*flags: str, **arrays: Any) -> Callable[[Any], Examples]:
    """Examples of arguments of blocked factorisations; `arrays` are those whose dtype is not the matrix's."""

    def examples(of: Any) -> Examples:
        for dtype in _EITHER:
            tuples = {"packed": "Blocks", "sides": "Sides"} if "pivots" in arrays and not flags else {}
            found = {name: _job(getattr(of, kind)) for name, kind in tuples.items()}
            yield {"p": _products(dtype)} | arrays | dict.fromkeys(flags, False) | found

    return examples


def _reflections(of: Any) -> Examples:
    for dtype in _EITHER:
        sizes = {"triangles": 3, "panel": 1, "vectors": 2, "gram": 2}
        memory = _job(of.Memory, **{name: _array(dtype, ndim) for name, ndim in sizes.items()})
        yield {
            "p": _products(dtype), "taus": _array(dtype), "memory": memory, "transposed": False, "upper": False
        }  # fmt: skip


def _few_sides(of: Any) -> Examples:
    for dtype in _EITHER:
        two = _array(dtype, 2)
        yield {
            "t": two, "a": two, "b": two, "x": two, "work": two, "sums": _array(dtype), "lower": False, "unit": False,
            "pivots": _array(np.int32), "transposed": False,
        }  # fmt: skip


def _groups(of: Any) -> Examples:
    from ..linalg import small_factors, small_jacobi, small_qr, small_solves, small_svd

    for module, dtype in itertools.product((small_factors, small_jacobi, small_qr, small_solves, small_svd), _EITHER):
        for job in vars(module).values():
            if getattr(job, "_fields", ()) == of.Group._fields and job.__module__ == module.__name__:
                yield {"job": job(of.tag_of(np.dtype(dtype)), 0)}


def _squares(of: Any) -> Examples:
    from ..linalg.groups import tag_of

    yield from ({"tag": tag_of(np.dtype(dtype))} for dtype in _EITHER)


def _scaling(ndim: int) -> Callable[[Any], Examples]:
    arrays = {"x": _array(np.float32, ndim), "out": _array(np.float32, ndim)}
    form = (_INT, _INT, _SINGLE, _SINGLE)
    numbers = {"tensor": _SINGLE, "form": form, "emax": _INT, "stochastic": False, "seed": _WORD}
    return lambda of: iter([arrays | numbers])


def _rounding(of: Any) -> Examples:
    words = dict.fromkeys(("shift", "bias", "odd", "truncated_from", "greatest", "least_normal", "fixed"), _WORD)
    arrays = dict.fromkeys(("source", "out", "high", "middle", "low"), _array(np.float32))
    yield words | arrays


def _scaled_rows(of: Any) -> Examples:
    words = dict.fromkeys(("half", "shift", "least"), _WORD)
    yield {"job": _job(of.Rows, tensor=_SINGLE, emax=_INT, greatest=_SINGLE, **words)}


def _ggml(of: Any) -> Examples:
    x, codes = _array(np.float32, 2), _array(np.uint8, 2)
    yield {
        "x": x, "codes": codes, "tops": x, "numbers": _array(np.uint8, 3), "heads": _array(np.float32),
        "scales": _array(np.int8, 2),
    }  # fmt: skip


def _each_float(name: str, **others: Any) -> Callable[[Any], Examples]:
    def examples(of: Any) -> Examples:
        for zero in FLOATS.values():
            yield {name: zero} | {key: _job(getattr(of, kind)) for key, kind in others.items()}

    return examples


def _jobs(*names: str, **lists: Any) -> Callable[[Any], Examples]:
    """Jobs of these classes, with each of some numbers in one field."""

    def examples(of: Any) -> Examples:
        for name, (field, number) in itertools.product(names, _each(lists)):
            yield {"job": _job(getattr(of, name), **({field: number} if field else {}))}

    return examples


def _each(lists: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(field, number) for field, numbers in lists.items() for number in numbers] or [("", 0)]


def _each_number(of: Any) -> Examples:
    yield from ({"largest": False, "zero": zero} for zero in NUMBERS.values())


_SPECIAL: dict[str, Callable[[Any], Examples]] = {
    "arrays.accumulate_loops.add_rows": _add_rows, "arrays.distances_loops.add_differences": _each_float("zero"),
    "arrays.distances_loops.distances": _each_float("zero"),
    "arrays.elementwise.mask_loops.choose": lambda of: (
        {"x_varies": False, "y_varies": False, "word": word} for word in _WORDS
    ),
    "arrays.elementwise.ufunc_loops.run": _jobs("Lines", "Halves"),
    "arrays.gathering_loops.run": _jobs("Gather", "Scatter", flip=_WORDS),
    "arrays.pooling_loops.add_at": _each_float("zero", spread="Spread"),
    "arrays.pooling_loops.gather": _each_float("zero", windows="GradientWindows"),
    "arrays.pooling_loops.largest": lambda of: ({"windows": _job(of.Windows), "word": word} for word in (_INT, 0)),
    "arrays.resampling_loops.run": lambda of: (
        {"job": _job(of.Job, back=False, zero=zero)} for zero in FLOATS.values()
    ),
    "arrays.rows.loops.run": _by_rows, "arrays.sampling_loops.run": _jobs("Job", one=tuple(FLOATS.values())),
    "arrays.selection_loops.lead": _each_number, "arrays.selection_loops.run_extrema": _each_number,
    "arrays.updates_loops._adam_of_all": _updates, "arrays.updates_loops._sgd_of_all": _updates,
    "attention.forward.attend": lambda of: iter([{"indirect": False}]), "attention.loops.differentiate": _differentiate,
    "block.loops.leaf_address": lambda of: ({"leaf": leaf} for leaf in leaves()),
    "fft.chirp.transform_by_chirp": _jobs("Chirps"), "fft.pairs._join": _pairs("x", "powers", "z"),
    "fft.pairs._join_spectra": _pairs("spectra", "powers", "z"), "fft.pairs._part": _pairs("z", "factors", "x"),
    "fft.pairs._part_spectra": _pairs("z", "halves", "out"), "gemm.skinny_loops.multiply_rows": _jobs("Columns"),
    "linalg.blocked_cholesky.cholesky": _factors(),
    "linalg.blocked_lu.invert": _factors("_", pivots=_array(np.int32), starts=_array(np.int64)),
    "linalg.blocked_lu.lu": _factors(pivots=_array(np.int32)),
    "linalg.blocked_lu.lu_solve": _factors("transpose", pivots=_array(np.int32)),
    "linalg.blocked_qr.apply_reflections": _reflections, "linalg.blocked_qr.householder": _reflections,
    "linalg.blocked_qr.load_reflections": _reflections, "linalg.few_sides.largest_row_sum": _few_sides,
    "linalg.few_sides.solve_by_factors": _few_sides, "linalg.few_sides.solve_few": _few_sides,
    "linalg.groups._run_groups": _groups, "linalg.squares.copy_rows": _squares,
    "linalg.triangular.solve_triangular": _factors("lower", "unit", "right"),
    "matrix_units.loops.multiply": lambda of: iter(
        [{"arrays": (0,) * 5, "sizes": (0,) * 4, "rule": (0,) * 3, "numbers": (0.0,) * 3}]
    ),
    "precisions.ggml_loops.search_affine": _ggml, "precisions.ggml_loops.search_symmetric": _ggml,
    "precisions.parts._round_array": _rounding, "precisions.parts._round_array_narrow": _rounding,
    "precisions.parts._split_in_three": _rounding, "precisions.parts._split_in_two": _rounding,
    "precisions.scaling_loops.round_columns": _scaling(3), "precisions.scaling_loops.round_rows": _scaling(2),
    "precisions.scaling_loops.run": _scaled_rows, "recurrence.loops.run_sequence": _jobs("SequenceJob"),
}  # fmt: skip


def _kind(example: Any) -> Any:
    return example if isinstance(example, native.Pointer) else native.kind_of(native.plain(example))


def _entries() -> Iterator[tuple[str, Any, Entry]]:
    """Their names, modules and themselves, of all modules that define some."""
    for path in sorted(_KERNELS.rglob("*.py")):
        name = ".".join(path.relative_to(_KERNELS).with_suffix("").parts)
        if "\n@njit" not in path.read_text(encoding="utf-8") or (name in _ON_TILES and cpu.refusal("amx")):
            continue
        module = importlib.import_module(f"..{name}", __package__)
        for each in vars(module).values():
            if isinstance(each, Entry) and each.py_func.__module__ == module.__name__:
                yield f"{name}.{each.py_func.__name__}", module, each


def signatures() -> Iterator[tuple[Entry, tuple]]:
    """Every function with the kinds of its arguments, each once."""
    for name, module, entry in _entries():
        parameters, found = inspect.signature(entry.py_func).parameters, dict[str, tuple]()
        records = {
            each.name: vars(module)[each.annotation].pointer
            for each in parameters.values()
            if each.annotation is not each.empty
        }
        for given in _SPECIAL.get(name, lambda of: iter([{}]))(module):
            kinds = tuple(_kind((records | given).get(parameter, 0)) for parameter in parameters)
            found[native.text(kinds)] = kinds
        yield from ((entry, kinds) for kinds in found.values())
