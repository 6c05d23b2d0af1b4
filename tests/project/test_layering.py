"""The house as it was drawn: imports point down, `import minitorch_backends` stays light, functions are short."""

import ast
import functools
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGE = "minitorch_backends"

# The floors, lowest first. A part (a module or folder of the package, or kernels/) may import parts of its own floor
# and below.
FLOORS = [
    {"kernels", "display", "index"}, {"flags"}, {"compat"}, {"backends"}, {"tensor"}, {"autograd"}, {"dispatch"},
    {"random"}, {"serialization"}, {"ops"}, {"namespaces"}, {"fft", "linalg", "special"}, {"nn"},
    {"amp", "func", "optim", "utils", "testing", "profiles"}, {"explain"}, {"lab", "interop"},
    {"pytest_plugin", "cli", "compile_ahead", "__main__", "__init__"},
]  # fmt: skip
RANKS = {part: rank for rank, floor in enumerate(FLOORS) for part in floor}

KERNEL_FLOORS = [
    {"runtime"}, {"precisions"}, {"registry"}, {"block", "matrix_units", "partial_sums"}, {"arrays"}, {"gemm"},
    {"fft", "attention", "recurrence", "linalg"}, {"conv"}, {"ahead"},
]  # fmt: skip
"""The rooms of kernels/ in the same way."""

MOST_PARAMETERS = 12
MORE_PARAMETERS = {"conv": 3}
"""Functions of kernels that take more, by folder; the numbers only fall."""

MOST_MODULES = 150
"""Modules of the package that a process loads until its first product."""

CORE = {"tensor", "autograd", "dispatch"}

CIRCLES: dict[str, int] = {}
"""How many groups of modules import each other, by part; the numbers only fall."""

LONGEST_FUNCTION = 60
"""Lines of a function without its docstring."""
LONG_FUNCTIONS = {"kernels": 2}
"""How many functions of kernels are longer: plans in kernels/conv; of other parts none may be."""


def dotted_name(path: Path) -> tuple[str, ...]:
    """The name under which a file is installed: kernels/runtime/cpu.py is minitorch_backends.kernels.runtime.cpu."""
    names = path.relative_to(ROOT).with_suffix("").parts
    return (PACKAGE, *names) if names[0] == "kernels" else names


def part_of(name: tuple[str, ...]) -> str:
    """The part of a module, or of a name that one defines."""
    folder = ".".join(name[1:3])
    return folder if folder in RANKS else name[1]


FILES = {dotted_name(path): path for folder in (PACKAGE, "kernels") for path in sorted((ROOT / folder).rglob("*.py"))}
PARTS = {part_of(name) for name in FILES}


BODIES = ("body", "orelse", "handlers", "finalbody", "cases")
"""The fields in which nodes have statements, or nodes that have them."""


class Import(NamedTuple):
    importer: tuple[str, ...]
    imported: tuple[str, ...]
    relative: bool
    place: str

    def part(self) -> str:
        """The part of the package that is imported; a name other than a module's is defined by its `__init__`."""
        return part_of(self.imported) if len(self.imported) > 1 and self.imported[1] in PARTS else "__init__"


def statements_that_run(node: ast.AST) -> Iterator[ast.stmt]:
    """Every statement below `node`, except under `if TYPE_CHECKING:`, whose imports never run."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt):
            yield node
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            waiting += node.orelse
        else:
            waiting += (each for part in BODIES for each in getattr(node, part, ()))


def imports_of(name: tuple[str, ...], path: Path) -> Iterator[Import]:
    """Each import of a file, at the top or inside a function, with relative ones resolved."""
    for node in statements_that_run(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import | ast.ImportFrom):
            level = getattr(node, "level", 0)
            base = name[:-level] if level else ()
            base += tuple(node.module.split(".")) if getattr(node, "module", None) else ()
            place = f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node)}"
            yield from (Import(name, (*base, *alias.name.split(".")), level > 0, place) for alias in node.names)


@functools.cache
def imports() -> list[Import]:
    return [found for name, path in FILES.items() for found in imports_of(name, path)]


def internal() -> list[Import]:
    return [found for found in imports() if found.imported[:1] == (PACKAGE,)]


def declared_dependencies() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {re.match(r"\w+", requirement)[0] for requirement in project["dependencies"]}


def test_every_part_has_a_rank():
    unknown = sorted(PARTS - set(RANKS))
    assert not unknown, f"{unknown} have no rank: say in RANKS of {__file__} which parts they may import"


def test_imports_point_down():
    top = max(RANKS.values())
    ranked = [(found, RANKS.get(found.part(), 0), RANKS.get(part_of(found.importer), top)) for found in internal()]
    upward = [found.place for found, imported, importer in ranked if imported > importer]
    assert not upward, f"these import a part that stands above them: {upward}"


def test_imports_inside_kernels_point_down():
    ranks = {room: rank for rank, floor in enumerate(KERNEL_FLOORS) for room in floor}
    own = [found for found in internal() if found.importer[1] == "kernels" and found.imported[1] == "kernels"]
    rooms = [(found, found.importer[2], found.imported[2]) for found in own if found.importer[2] != "__init__"]
    strays = [found.place for found, above, below in rooms if above != below and ranks[above] <= ranks[below]]
    assert {above for _, above, _ in rooms} | {below for *_, below in rooms} == set(ranks)
    assert not strays, f"these import a room that does not stand below theirs: {strays}"


def test_the_core_imports_at_the_top_of_files():
    """An import inside a function hides an arrow, or a circle. What is loaded at first use is an attribute of a
    namespace (`namespaces`)."""
    hidden = [
        f"{FILES[name].relative_to(ROOT)}:{node.lineno}"
        for name in FILES
        if len(name) > 1 and name[1] in CORE
        for function in ast.walk(ast.parse(FILES[name].read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert not hidden, f"these functions import: {hidden}"


def module_of(name: tuple[str, ...]) -> tuple[str, ...]:
    """The file that a name is imported from."""
    ends = (found for end in range(len(name), 0, -1) for found in (name[:end], (*name[:end], "__init__")))
    return next(found for found in ends if found in FILES)


def circles() -> Iterator[list[str]]:
    """The groups of modules that import each other, directly or not; Tarjan's algorithm (SIAM J. Comput. 1, 1972)."""
    arrows: dict[tuple[str, ...], set[tuple[str, ...]]] = {name: set() for name in FILES}
    for found in internal():
        arrows[found.importer].add(module_of(found.imported))
    order: dict[tuple[str, ...], int] = {}
    least: dict[tuple[str, ...], int] = {}
    open_names: list[tuple[str, ...]] = []

    def visit(name: tuple[str, ...]) -> Iterator[list[str]]:
        order[name] = least[name] = len(order)
        open_names.append(name)
        for other in arrows[name]:
            if other not in order:
                yield from visit(other)
            if other in open_names:
                least[name] = min(least[name], least[other])
        if least[name] == order[name]:
            group = open_names[open_names.index(name) :]
            del open_names[open_names.index(name) :]
            if len(group) > 1:
                yield sorted(".".join(each[1:]) for each in group)

    for name in FILES:
        if name not in order:
            yield from visit(name)


def test_no_imports_run_in_circles():
    """Modules that import each other, at the top or in functions, are one thing in several files."""
    found = list(circles())
    parts = [group[0].partition(".")[0] for group in found]
    over = [group for group, part in zip(found, parts, strict=True) if parts.count(part) > CIRCLES.get(part, 0)]
    assert not over, f"more circles than {CIRCLES}: {over}"


def test_kernels_know_arrays_only():
    """No flag, no tensor: precision, solver and thread count arrive as arguments. Relative, so that nothing imports
    the folder under its top-level name and gets a second copy of each module."""
    own = [found for found in internal() if found.importer[1] == "kernels"]
    strays = [found.place for found in own if found.part() != "kernels" or not found.relative]
    assert own, "no import was found in kernels/: the walk is broken"
    assert not strays, f"kernels/ imports only itself, and by relative imports, unlike: {strays}"


OPTIONAL = {
    "pytest_plugin": {"pytest"},
    "display": {"matplotlib"},
    "lab": {"matplotlib", "cloudpickle", "pandas", "rich", "torch"},  # runs of plain torch
    "compat": {"matplotlib", "PIL", "tensorboard"},  # event files
    "ops": {"matplotlib"},  # pictures of einsum plans
    "interop": {"autoray", "einops", "google", "onnx", "safetensors", "tensorly", "threadpoolctl", "torch"},
}
"""The packages of the extras that each part of the package may import."""


def test_third_parties_are_declared():
    allowed = {PACKAGE, "llvmlite", *sys.stdlib_module_names, *declared_dependencies()}  # llvmlite is Numba's own
    others = [found for found in imports() if not found.imported or found.imported[0] not in allowed]
    strays = [found.place for found in others if found.imported[0] not in OPTIONAL.get(found.importer[1], set())]
    assert not strays, f"these import what pyproject.toml does not name as a dependency: {strays}"


def test_one_module_loads_the_compiler():
    """Numba, which only what has to be compiled needs; llvmlite, which loads its code, is of few modules too."""
    emitters = {"compiler", "entry_point", "record_types", "translation"}  # which `jit` loads at a first compilation
    allowed = {"numba": emitters, "llvmlite": emitters | {"jit", "native", "store", "targets"}}
    for library, modules in allowed.items():
        found = [each for each in imports() if each.imported[:1] == (library,)]
        strays = [each.place for each in found if each.importer[1] != "kernels" or each.importer[-1] not in modules]
        assert len(found) > len(strays), "no import was found in kernels/: the walk is broken"
        assert not strays, f"take these names from kernels/runtime/jit.py: {strays}"


def test_no_interrupt_cuts_the_import_of_a_library_short():
    """A half imported library fails for the rest of the process."""
    libraries = declared_dependencies() - {"numpy", "numba"}
    strays = [found.place for found in imports() if found.imported and found.imported[0] in libraries]
    assert not strays, f"load these by kernels/runtime/first_use.py: {strays}"


def test_import_loads_nothing_heavy():
    heavy = sorted(declared_dependencies() - {"numpy"})
    script = f"import sys, {PACKAGE}; print(*(name for name in {heavy} if name in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not loaded, f"`import {PACKAGE}` loads {loaded}: import them inside the function that first needs them"


def test_every_public_name_loads_without_the_extras():
    """An install of the core has none of their packages."""
    packages = sorted(set().union(*OPTIONAL.values()))
    script = f"import sys, {PACKAGE} as mt; sys.modules.update(dict.fromkeys({packages})); names = dir(mt)\n"
    script += (
        "for of in (mt, *(getattr(mt, name) for name in names)):\n if hasattr(of, '__path__') or of is mt.special:\n"
    )
    script += "  print(of.__name__, *(getattr(of, name) for name in dir(of) if name[0] != '_'), sep='\\n')"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert {f"{PACKAGE}.explain", f"{PACKAGE}.lab"} <= {*found.stdout.split()}


def test_few_modules_load_before_the_first_product():
    """`python -m bench import` has their times. Names load their modules at first use (`namespaces`)."""
    script = f"import sys, {PACKAGE} as mt; mt.randn(3, 3) @ mt.randn(3, 3); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    own = sorted(name for name in loaded if name.partition(".")[0] == PACKAGE)
    assert len(own) <= MOST_MODULES, f"{len(own)} modules load before the first product: {own}"


def test_every_folder_is_a_package():
    """A folder without `__init__.py` works from the checkout and is missing from the wheel."""
    bare = sorted({str(path.parent) for path in FILES.values() if not (path.parent / "__init__.py").exists()})
    assert not bare, f"no __init__.py in {bare}"


def test_warnings_point_at_the_line_of_a_user():
    """A fixed number of frames points into this package as soon as one function more stands between."""
    wrong = [str(path) for path in FILES.values() if "warnings.warn(" in path.read_text(encoding="utf-8")]
    assert [Path(path).name for path in wrong] == ["context.py"], f"use kernels.runtime.context.warn_caller in {wrong}"


def length_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function without its docstring."""
    first = function.body[0]
    spoken = first.end_lineno - first.lineno + 1 if ast.get_docstring(function) is not None else 0
    return function.end_lineno - function.lineno + 1 - spoken


def test_functions_keep_to_one_thought():
    """Lower a budget when a function was divided."""
    found = [
        (part_of(name) if len(name) > 1 else "__init__", f"{path.relative_to(ROOT)}: {node.name} {length_of(node)}")
        for name, path in FILES.items()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and length_of(node) > LONGEST_FUNCTION
    ]
    over = [place for part, place in found if sum(other == part for other, _ in found) > LONG_FUNCTIONS.get(part, 0)]
    assert not over, f"more functions than {LONG_FUNCTIONS} are longer than {LONGEST_FUNCTION} lines: {over}"


def test_kernels_take_few_parameters():
    """Integers in a long row are swapped unnoticed: a kernel takes a `Record`, or a job."""
    counted: dict[str, int] = {}
    for name, path in FILES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if name[1:2] == ("kernels",) else ():
            if isinstance(node, ast.FunctionDef):
                found = len([*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs])
                if found > MOST_PARAMETERS:
                    counted[name[2]] = counted.get(name[2], 0) + 1
    assert counted == MORE_PARAMETERS, f"functions of kernels with more than {MOST_PARAMETERS} parameters: {counted}"
