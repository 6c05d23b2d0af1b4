"""Study: what float64 made of 8-bit integers does to a solver, over the condition of the matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

import minitorch_backends as mt

from ..presentation import Plot, Table, error, paragraphs
from ..session import Session
from .solvers import system

__all__ = ["PLOTS", "TITLE", "run", "solve", "summary", "tables"]

TITLE = "Emulated float64"

SIZE = {"quick": 80, "usual": 160, "full": 320}
CONDITIONS = (1e2, 1e5, 1e8, 1e11)
SPREADS = (0.1, 0.5, 1.0, 2.0, 4.0)
"""Spreads of the exponents of random numbers, as in the figures of arXiv 2306.11975 and 2504.08009."""

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


def factors_of(spread: float, seed: int) -> tuple[mt.Tensor, mt.Tensor]:
    random = np.random.default_rng([seed, 1])
    sizes = (64, 512), (512, 64)
    return tuple(  # type: ignore[return-value]
        mt.from_numpy((random.random(each) - 0.5) * np.exp(spread * random.standard_normal(each))) for each in sizes
    )


def run(session: Session) -> dict[str, Any]:
    """Systems of each condition with refinement and without, and products over spreads of exponents."""
    names = NAMES["quick" if session.quick else "usual"]
    points = [
        {"n": SIZE[session.extent], "condition": condition, "refine": refine}
        for condition in CONDITIONS for refine in (True, False)
    ]  # fmt: skip
    options: dict[str, Any] = {"flags": {"fp64_precision": names}, "seeds": [session.seed], "repeats": 1}
    with mt.no_grad():
        rows = session.sweep(solve, over=points, reference=exact_solution, **options)
        products = []
        for spread in SPREADS:
            a, b = factors_of(spread, session.seed)
            true = mt.matmul(a, b, precision="int8mod20")
            for name in names:
                found = mt.matmul(a, b, precision=name)
                products.append({"spread": spread, "name": name, "error": ((found - true) / true).abs().max().item()})
    return {"rows": rows, "products": products}


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
    return [*found, Table("Products of length 512: largest relative errors by spread of exponents", columns, rows)]


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
    """)


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
