"""Shared parts of the commands: the parser, values in arguments, objects in files, and output."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import math
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ..explain.records import align_columns

if TYPE_CHECKING:
    from ..lab import Sweep


class UsageError(Exception):
    """Wrong input; its text is the sentence shown to the user."""


class Parser(argparse.ArgumentParser):
    """A parser with one-sentence errors."""

    layout = argparse.RawDescriptionHelpFormatter

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Report the library's errors about arguments, files and missing extras as usage errors."""
    try:
        yield
    except (ValueError, TypeError, ImportError, RuntimeError) as problem:  # torch's flags raise RuntimeError
        raise UsageError(str(problem)) from None
    except OSError as problem:
        named = problem.filename is not None
        raise UsageError(f"cannot use {problem.filename!r}: {problem.strerror}" if named else str(problem)) from None


def positive(text: str) -> int:
    """A positive integer (processes, threads or repetitions)."""
    if not text.isascii() or not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"must be a positive integer, got {text!r}")
    return int(text)


def axes(option: str, listed: list[str] | None) -> dict[str, list[Any]]:
    """`NAME=VALUE,VALUE` arguments as lists of values by name."""
    found: dict[str, list[Any]] = {}
    for text in listed or ():
        name, equals, values = text.partition("=")
        if not name or not equals or not values:
            raise UsageError(f"{option} must be NAME=VALUE,VALUE,..., got {text!r}")
        if name in found:
            raise UsageError(f"{option} names {name!r} twice; list all its values together")
        found[name] = [_value(each) for each in values.split(",")]
    return found


def _value(text: str) -> Any:
    """An integer, a finite number, True, False, None, or the text itself."""
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            number = kind(text)
            return number if math.isfinite(number) else text
    return text


def load_object(target: str, others: str = "") -> Any:
    """Load the object `FILE:NAME`; the file runs as a module named after it. `others` names further targets.

    The file's folder is prepended to `sys.path`, so that it and worker processes find its neighbours. Raises UsageError
    on every failure.
    """
    file, colon, name = target.rpartition(":")
    path = Path(file)
    if not colon or not name.isidentifier() or path.suffix != ".py":
        known = f"FILE:NAME with FILE a Python file, as study.py:solve{others}"
        raise UsageError(f"the target must be {known}, got {target!r}")
    if not path.is_file():
        raise UsageError(f"file {file!r} does not exist")
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        module = importlib.import_module(path.stem)
    except Exception as error:
        raise UsageError(f"{file!r} raised {type(error).__name__}: {error}") from error
    if Path(module.__file__ or "").resolve() != path.resolve():
        raise UsageError(f"{path.stem!r} is the name of another module, {module.__file__!r}; rename {file!r}")
    try:
        return getattr(module, name)
    except AttributeError:
        raise UsageError(f"{file!r} defines no {name!r}") from None


def write(text: str) -> None:
    """Print a result."""
    sys.stdout.write(f"{text}\n")


_HEADINGS = {
    "a": "number of the call in the first run",
    "b": "number of the call in the second run",
    "changed": "how the two calls ran",
    "GFLOP": "operations of one run, in units of 10^9",
    "largest difference": "with the index where it is, and in units in the last place of the second's dtype",
    "local error": "largest relative error of one product against float64",
    "error": "relative error of the result, in the Frobenius norm",
    "max_ulp": "largest difference, in units in the last place",
    "seconds": "median time of a call",
    "failed": "rows whose function raised an exception",
    "out of range": "formats in which values are lost or saturate, with the largest share",
    "log_probability_error": "largest change of a log-probability, in nats",
    "kl": "mean divergence of the distributions from the true ones, in nats",
    "worst_kl": "largest divergence of a distribution from the true one, in nats",
    "flips": "share of rows whose first choice changed",
    "top5": "mean share of the five largest entries that stay",
    "margin": "least gap of the two largest true entries over their largest change; below 2, a flip is possible",
    "wrong": "share of wrong answers",
    "loss": "mean negative log-probability of the labels",
    "perplexity": "of the tokens that follow",
    "log_ratio": "mean change of a token's log-probability, in nats",
    "ratio_off_1_percent": "share of tokens whose probability changed by more than 1 %",
    "ratio_off_20_percent": "share of tokens whose probability changed by more than 20 %",
    "largest_ratio": "largest ratio of a token's probability to its true one, or its inverse",
    "cosine_distance": "mean of 1 - cosine between a vector and its true one",
    "worst_cosine_distance": "largest 1 - cosine between a vector and its true one",
    "nearest_changed": "share of vectors whose nearest neighbour changed",
    "rank_change": "mean change of a neighbour's rank",
    "rmse": "root of the mean squared change",
    "max_abs": "largest change of a value",
    "bias": "mean change of a prediction",
    "unexplained": "squared change as a share of the variance of the true values",
}
"""What the headings of tables mean."""


def write_table(cells: list[tuple[str, ...]]) -> None:
    """Print a table that fits the terminal, and below it what its headings mean."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    write("\n".join(fit_columns(cells, width)))
    known = [f"{name}: {_HEADINGS[name]}" for name in cells[0] if name in _HEADINGS]
    if known:
        write("\n" + "\n".join(known))


def fit_columns(cells: list[tuple[str, ...]], width: int | None) -> list[str]:
    """The lines of a table, whose widest columns lose the middle of their text where it would be wider."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    while width is not None and sum(widths) + 2 * (len(widths) - 1) > width and max(widths) > _LEAST_WIDTH:
        widths[widths.index(max(widths))] -= 1
    return align_columns([[_shorten(cell, most) for cell, most in zip(row, widths, strict=True)] for row in cells])


_LEAST_WIDTH = 8


def _shorten(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    return f"{text[: width // 2]}\N{HORIZONTAL ELLIPSIS}{text[len(text) - (width - 1) // 2 :]}"


def write_json(result: Any) -> None:
    """Print a result as JSON. Values that JSON lacks become text, including infinite and undefined numbers."""
    write(json.dumps(_as_json(result), indent=1, allow_nan=False, default=str))


def _as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _as_json(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_json(each) for each in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def add_outputs(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that `show` reads."""
    parser.add_argument("--csv", metavar="PATH", help="write the rows to a file")
    parser.add_argument("--page", metavar="PATH", help="write a page of HTML")
    parser.add_argument("--plot", metavar="PATH", help="draw the error over the first axis, as PNG, PDF or SVG")


def show(sweep: Sweep, options: argparse.Namespace) -> int:
    """Print a sweep, and write its files. Return the exit code: 1 if a row failed, with the exceptions on stderr."""
    with usage_errors():
        if options.csv:
            sweep.to_csv(options.csv)
        if options.page:
            sweep.report(options.page)
        if options.plot:
            sweep.plot(path=options.plot)
    if options.json:
        write_json(sweep.rows)
    else:
        write_table(sweep.cells())
    failures = sweep.failures()
    for sentence in failures:
        sys.stderr.write(f"minitorch-backends {options.command}: {sentence}\n")
    return int(bool(failures))
