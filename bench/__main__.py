"""`python -m bench`: run the parts of the laboratory, print their tables, and write results, plots and the report."""

from __future__ import annotations

import argparse
import datetime as dt
import importlib
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from .fair import restart_where_held

PARTS = {
    "digits": "two classifiers of handwritten digits: what each precision does to their answers, and each layer",
    "minilm": "encode sentences with MiniLM's weights at each precision, and see which sentences are nearest",
    "smollm2": "read text with a language model: perplexity and choices at 8, 6 and 4 bits of weights, operands, cache",
    "shards": "the same model in bfloat16 in one and in eight shards: how often its first choice changes",
    "products": "bare products: errors beside theory, and the example of PyTorch's note on TF32",
    "devices": "the same products on eight devices: errors and drift of the sums of their matrix units",
    "einsum": "orders of contraction: FLOPs, memory, time and error of each strategy at each precision",
    "solvers": "solvers at each precision: what refinement gives back, over the condition (with --full inv and lstsq)",
    "emulated": "float64 made of 8-bit integers: a solver over the condition, products over the spread of exponents",
    "products-speed": "bare products beside NumPy's and torch's",
    "einsum-speed": "einsum beside opt_einsum, NumPy, torch and cotengra",
    "linalg": "factorisations and solvers beside torch's and NumPy's",
    "attention": "attention: time beside torch's, forward and backward",
    "conv": "convolutions: every algorithm at every precision for one, layers of networks beside torch's",
    "sums": "sums over every memory layout: time and error beside NumPy's and torch's",
    "fft": "Fourier transforms: time beside torch's and SciPy's",
    "models": "networks: inference and training steps beside torch's",
    "overhead": "time of one operation on 8 x 8 tensors, of a scope and of a flag, beside torch's",
    "import": "time of `import minitorch_backends` in a new process, beside torch's",
}
"""The parts in execution order, each with a description."""

USUAL = ("digits", "minilm", "smollm2", "shards", "products", "devices", "einsum", "solvers")
"""The parts of a run without --full: studies of the laboratory. Most of the others measure speed beside peers, each
only where it is installed."""

SPEED = ("products-speed", "einsum-speed", "linalg", "attention", "conv", "sums", "fft", "models", "overhead")
"""The parts that are cells of `bench.speed`."""

MODULES = {
    **{name: f"studies.{name}" for name in (*USUAL, "emulated")},
    "minilm": "studies.sentences",
    "smollm2": "studies.language",
    "import": "imports",
}
"""The module of a part, where it is not its name without "-speed"."""

SCHEMA = 4
"""Raised when the meaning or the place of something in results.json changes."""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def _seed(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a seed; expected an integer of at least 0")
    return int(text)


def _part(text: str) -> str:
    if text not in PARTS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a part; expected one of {', '.join(PARTS)}")
    return text


def parser() -> argparse.ArgumentParser:
    """The command line."""
    usual, full = (
        "\n".join(f"  {name:<14} {meaning}" for name, meaning in PARTS.items() if (name in USUAL) == wanted)
        for wanted in (True, False)
    )
    command = _Parser(
        prog="python -m bench",
        description="The laboratory: what each precision of the live flags does to answers, errors and speed.\n"
        "It prints tables, and writes results.json, plots (PNG) and report.html, which stands by itself.",
        epilog=f"parts:\n{usual}\n\nparts of --full:\n{full}\n\n"
        "A run takes two to three minutes on two cores, with kernels that are compiled the first time; --full takes\n"
        "half an hour. Speeds need a quiet machine.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    option = command.add_argument
    extent = command.add_mutually_exclusive_group().add_argument
    extent("--quick", action="store_true", help="small sizes and few repeats")
    extent("--full", action="store_true", help="all parts, with every size, dtype and direction")
    option("--out", metavar="DIR", type=Path, default=Path("bench-results"), help="folder of the results (%(default)s)")
    option("--seed", metavar="N", type=_seed, default=0, help="what all random numbers follow from (%(default)s)")
    option("--only", metavar="PART", type=_part, action="append", help="run this part alone; may be given again")
    option(
        "--cells", metavar="TEXT", default="", help="in parts that measure speed: only cells whose label has the text"
    )
    return command


def _output_folder(command: argparse.ArgumentParser, folder: Path) -> None:
    """Make the folder, before anything is measured."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / "results.json"
        with probe.open("a", encoding="utf-8"):
            pass
    except OSError as problem:
        command.error(f"argument --out: cannot write to {str(folder)!r} ({problem.strerror}); name another folder")


def _module(part: str) -> ModuleType:
    return importlib.import_module(f".{MODULES.get(part, part.removesuffix('-speed'))}", __package__)


def _tools(command: argparse.ArgumentParser) -> None:
    for tool in ("rich", "matplotlib", "threadpoolctl"):
        try:
            importlib.import_module(tool)
        except ImportError:
            command.error(f"{tool} is not installed; run: pip install -e '.[bench]'")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit status."""
    command = parser()
    options = command.parse_args(arguments)
    if options.cells and not (options.only and {*options.only} <= {*SPEED}):
        command.error(f"argument --cells: needs --only with parts that have cells, {', '.join(SPEED)}")
    _tools(command)
    from .session import NoCellError

    _output_folder(command, options.out)
    start = time.perf_counter()
    try:
        results = _measure(options)
    except NoCellError as problem:
        command.error(f"argument --cells: {problem}")
    results["seconds"] = time.perf_counter() - start
    written = _write(options.out, results)
    parts = ", ".join(f"{name} {seconds:.0f}" for name, seconds in results["seconds_by_part"].items())
    print(f"Took {results['seconds']:.0f} s ({parts}). Written: {', '.join(map(str, written))}")
    return 0


def _chosen_parts(options: argparse.Namespace) -> list[str]:
    """The parts that run."""
    if options.only:
        return [part for part in PARTS if part in options.only]
    return [part for part in PARTS if options.full or part in USUAL]


def _measure(options: argparse.Namespace) -> dict[str, Any]:
    from . import environment
    from .session import Session
    from .studies import answers

    extent = "quick" if options.quick else "full" if options.full else "usual"
    session = Session(extent=extent, seed=options.seed, cells=options.cells)
    parts: dict[str, Any] = {}
    taken: dict[str, float] = {}
    for name in _chosen_parts(options):
        module = _module(name)
        start = time.perf_counter()
        parts[name] = module.run(session)
        taken[name] = time.perf_counter() - start
        session.heading(module.TITLE)
        for table in module.tables(parts[name]):
            session.show(table.without_empty_columns())
        for sentence in module.summary(parts[name]):
            session.say(sentence)
    effects = answers.effects(parts)
    if effects:
        session.heading(answers.TITLE)
        for sentence in answers.summary(effects, parts):
            session.say(sentence)
    return {
        "schema": SCHEMA,
        "started": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "arguments": {"extent": session.extent, "seed": session.seed, "only": options.only},
        "environment": environment.collect(),
        "seconds_by_part": taken,
        "overview": [each._asdict() for each in effects],
        "parts": parts,
    }


def _write(folder: Path, results: dict[str, Any]) -> list[Path]:
    """Write results.json, then the plots, then the report with both; the paths, in that order."""
    from minitorch_backends.lab.pages import Picture, Section, write_page

    from . import environment
    from .presentation import Plot, draw
    from .studies import answers

    numbers = folder / "results.json"
    numbers.write_text(json.dumps(results, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    paths: list[Path] = []

    def draw_plot(plot: Plot, result: Any) -> Picture:
        paths.append(draw(plot, result, folder))
        return Picture(paths[-1].read_bytes(), plot.caption)

    sections = []
    if results["overview"]:
        effects = [answers.Effect(**each) for each in results["overview"]]
        language, measured = _module("smollm2"), results["parts"].get("smollm2", {"installed": False})
        first = [draw_plot(plot, measured) for plot in language.FIRST_PLOTS if measured["installed"]]
        parts = [*answers.summary(effects, results["parts"]), draw_plot(answers.overview, effects), *first]
        sections.append(Section(answers.TITLE, parts, "overview"))
    for name, result in results["parts"].items():
        module = _module(name)
        tables = [table.without_empty_columns() for table in module.tables(result)]
        plots = getattr(module, "PLOTS", ()) if tables else ()
        pictures = [draw_plot(plot, result) for plot in plots if plot.shows(result)]
        sections.append(Section(module.TITLE, [*module.summary(result), *pictures, *tables], name))
    sections.append(Section("Environment", environment.tables(results["environment"]), "environment"))
    page = folder / "report.html"
    write_page(page, "Precision laboratory", _subtitle(results), sections, width="62rem")
    return [numbers, *paths, page]


def _subtitle(results: dict[str, Any]) -> str:
    where, arguments = results["environment"], results["arguments"]
    return (
        f"minitorch-backends {where['minitorch_backends']} on {where['cpu']} ({where['capability']['in_force']}, "
        f"{where['threads']['minitorch_backends']} threads), {results['started']}, seed {arguments['seed']}, "
        f"{results['seconds']:.0f} s, {arguments['extent']} extent"
    )


if __name__ == "__main__":
    restart_where_held()
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("python -m bench: interrupted; nothing was written")
