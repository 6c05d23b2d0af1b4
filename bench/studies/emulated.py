"""Study: what float64 made of 8-bit integers does to a solver, over the condition of the matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

import minitorch_backends as mt

from ..presentation import Plot, Table, error, paragraphs
from ..session import Session
from .solvers import system

TITLE = "Emulated float64"

SIZE = {"quick": 80, "usual": 160, "full": 320}
CONDITIONS = (1e2, 1e5, 1e8, 1e11)
LENGTH = 1024
SPREADS = (0.0, 0.5, 1.0, 2.0, 4.0)
"""Spreads of the exponents of random numbers, as in the figures of arXiv 2306.11975 and 2504.08009."""

PUBLISHED = {
    "ieee": (1.1e-11, 2.0e-11, 3.2e-12, 1.8e-12, 1.1e-12),
    "int8x6": (1.3e-9, 2.0e-9, 1.1e-8, 6.5e-8, 3.7e-6),
    "int8x7": (4.6e-13, 1.5e-11, 1.6e-10, 4.0e-10, 4.7e-8),
    "int8x8": (5.5e-13, 1.5e-11, 2.0e-12, 8.2e-13, 8.5e-10),
    "int8mod12": (1.5e-9, 9.1e-8, 4.9e-7, 2.4e-5, 4.4e1),
    "int8mod14": (4.2e-11, 3.5e-10, 1.7e-9, 1.6e-7, 1.8e-1),
    "int8mod16": (2.1e-16, 4.2e-13, 1.2e-11, 2.1e-10, 1.3e-3),
    "int8mod12-accurate": (5.3e-9, 9.9e-9, 3.0e-8, 1.1e-8, 9.3e-6),
    "int8mod14-accurate": (4.2e-11, 2.0e-11, 1.7e-10, 1.1e-10, 3.1e-8),
    "int8mod16-accurate": (2.1e-16, 5.8e-14, 1.7e-13, 4.7e-13, 6.7e-11),
}
"""Largest relative errors at these spreads, of 128 x 1024 by 1024 x 128, on a B200: DGEMM and slices of cuBLAS, moduli
of GEMMul8 (github.com/UCHINO-Yuki/GEMMul8_numerical_results, results_07/B200, oz2_results_i_d_accuracy, 2026-03-26)."""

NAMES = {
    "quick": ("ieee", "int8x4", "int8x7", "int8mod15"),
    "usual": ("ieee", "int8x4", "int8x5", "int8x6", "int8x7", "int8x8", "int8", "int8mod12", "int8mod15", "int8mod"),
}


def solve(n: int, condition: float, refine: bool, seed: int) -> mt.Tensor:
    """The solution of a system."""
    return mt.linalg.solve(*system(n, condition, seed, "float64"), refine=refine)


def exact_solution(n: int, condition: float, refine: bool, seed: int) -> mt.Tensor:
    """The same, refined by residuals that are rounded once, of exact products of twenty moduli."""
    a, b = system(n, condition, seed, "float64")
    factors, x = mt.linalg.lu_factor(a), mt.zeros_like(b)
    for _ in range(6):
        residual = mt.matmul(mt.cat([b, a], 1), mt.cat([mt.ones(1, 1, dtype=a.dtype), -x]), precision="int8mod20")
        x = x + mt.linalg.lu_solve(*factors, residual)
    return x


def factors_of(spread: float, seed: int, length: int = LENGTH) -> tuple[mt.Tensor, mt.Tensor]:
    random = np.random.default_rng([seed, 1])
    sizes = (length // 8, length), (length, length // 8)
    return tuple(  # type: ignore[return-value]
        mt.from_numpy((random.random(each) - 0.5) * np.exp(spread * random.standard_normal(each))) for each in sizes
    )


def run(session: Session) -> dict[str, Any]:
    """Systems of each condition with refinement and without, and products over spreads of exponents."""
    names, length = NAMES["quick" if session.quick else "usual"], LENGTH // 4 if session.quick else LENGTH
    points = [
        {"n": SIZE[session.extent], "condition": condition, "refine": refine}
        for condition in CONDITIONS for refine in (True, False)
    ]  # fmt: skip
    options: dict[str, Any] = {"flags": {"fp64_precision": names}, "seeds": [session.seed], "repeats": 1}
    with mt.no_grad():
        rows = session.sweep(solve, over=points, reference=exact_solution, **options)
        products = []
        for spread in SPREADS:
            a, b = factors_of(spread, session.seed, length)
            true = mt.matmul(a, b, precision="int8mod20-accurate")
            for name in names if session.quick else dict.fromkeys((*names, *PUBLISHED)):
                found = mt.matmul(a, b, precision=name)
                products.append({"spread": spread, "name": name, "error": ((found - true) / true).abs().max().item()})
    return {"rows": rows, "products": products, "length": length}


def _name(row: dict[str, Any]) -> str:
    return row["flags"]["fp64_precision"]


def tables(result: dict[str, Any]) -> list[Table]:
    by_cell = {(_name(row), row["condition"], row["refine"]): row["error"] for row in result["rows"]}
    names = list(dict.fromkeys(_name(row) for row in result["rows"]))
    found = [
        Table(
            f"solve, n = {result['rows'][0]['n']}, {'refined' if refine else 'not refined'}: errors by condition",
            ("float64 by", *(f"{condition:g}" for condition in CONDITIONS)),
            [(name, *(error(by_cell[name, condition, refine]) for condition in CONDITIONS)) for name in names],
        )
        for refine in (False, True)
    ]
    of_product = {(row["name"], row["spread"]): row["error"] for row in result["products"]}
    rows = [(name, *(error(of_product[name, spread]) for spread in SPREADS)) for name in names]
    columns = ("float64 by", *(f"{spread:g}" for spread in SPREADS))
    title = f"Products of length {result['length']}: largest relative errors by spread of exponents"
    found.append(Table(title, columns, rows))
    if result["length"] == LENGTH:
        beside = []
        for name, published in PUBLISHED.items():
            pairs = zip(published, (of_product[name, spread] for spread in SPREADS), strict=True)
            beside.append((name, *(f"{error(each)} / {error(own)}" for each, own in pairs)))
        found.append(Table("The same as published for a B200 / here", columns, beside))
    return found


def summary(result: dict[str, Any]) -> list[str]:
    """What was done, and what it shows, in paragraphs."""
    few = {(row["condition"], row["refine"]): row["error"] for row in result["rows"] if _name(row) == "int8x4"}
    first, last = CONDITIONS[0], CONDITIONS[-1]
    return paragraphs(f"""
        Four slices (31 bits) leave {error(few[first, False])} in the solution at a condition of {first:g}, and
        {error(few[first, True])} after refinement, whose residuals are float64's own; at {last:g} they leave
        {error(few[last, False])} and {error(few[last, True])}, for what does not converge is solved again in ieee.

        The products inside of the factorisation are made of 8-bit integers by slices (int8x7) or moduli (int8mod15).
        Errors are relative to solutions refined with exact residuals. What slices keep is relative to the largest
        number of a row, so that errors of products grow with the spread of exponents, and for int8 and int8mod, whose
        count follows from the spread, do not.

        {BESIDE_PUBLISHED if result["length"] == LENGTH else ""}
    """)


BESIDE_PUBLISHED = """
The published errors are of other numbers of the same distribution. The largest relative error is that of the smallest
result, so that a factor of ten is chance. cuBLAS adds slices in float64, whose error stays. The published fast mode of
moduli divides by norms and by the largest number; here, by norms alone (arXiv 2606.29129), which comes close to the
accurate mode.
"""


def _draw(figure: Figure, result: dict[str, Any]) -> None:
    left, right = figure.subplots(1, 2)
    for name in dict.fromkeys(_name(row) for row in result["rows"]):
        own = [row for row in result["rows"] if _name(row) == name and not row["refine"]]
        left.loglog([row["condition"] for row in own], [row["error"] for row in own], marker=".", label=name)
        of_product = [row for row in result["products"] if row["name"] == name]
        errors = [max(row["error"], 2.0**-54) for row in of_product]
        right.semilogy([row["spread"] for row in of_product], errors, marker=".")
    left.set(title="solve, not refined", xlabel="condition of the matrix", ylabel="relative error")
    right.set(title="products", xlabel="spread of exponents")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=5)


PLOTS = [Plot("emulated", "Errors of float64 made of 8-bit integers, over condition and spread.", (10, 4.4), _draw)]
