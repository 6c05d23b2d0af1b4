"""The pages of the reference that are made of docstrings and of `--help`, written before Sphinx reads its sources."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import os
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import name_index
from docstrings import markdown, signature
from sphinx.application import Sphinx
from sphinx.ext.autodoc.mock import mock

import minitorch_backends as mt
from minitorch_backends import cli

PACKAGE = "minitorch_backends"


class Page(NamedTuple):
    """A page of the reference: the public names of namespaces, or the functions of the package from some folders."""

    file: str
    title: str
    namespaces: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


PAGES = [
    Page("general", "Types, modes, threads, files"),
    Page("creation", "Making tensors, random numbers", folders=("ops.creation", "random")),
    Page("elementwise", "Elementwise operations", folders=("ops.elementwise",)),
    Page("reductions", "Reductions and scans", folders=("ops.reductions", "ops.normalization", "ops.softmax")),
    Page("views", "Shapes and views", folders=("ops.views",)),
    Page("indexing", "Indexing, gathering, sorting", folders=("ops.indexing",)),
    Page(
        "products",
        "Products, contractions, convolutions",
        folders=("ops.matmul", "ops.einsum", "ops.conv", "ops.linalg", "ops.distances", "ops.fft", "ops.images"),
    ),
    Page("tensor", "Tensor"),
    Page(
        "backends",
        "backends",
        (
            "backends",
            *(f"backends.{family}" for family in ("cpu", "cuda", "cudnn", "mkldnn", "opt_einsum", "xla", "mkl")),
        ),
    ),
    Page("explain", "explain", ("explain",)),
    Page("lab", "lab", ("lab",)),
    Page("profiles", "profiles and testing", ("profiles", "testing")),
    Page(
        "autograd",
        "autograd and func",
        ("autograd", "autograd.forward_ad", "autograd.functional", "autograd.graph", "func"),
    ),
    Page("nn", "nn", ("nn",)),
    Page("functional", "nn.functional", ("nn.functional", "nn.attention", "nn.init")),
    Page("nn_utils", "nn.utils", ("nn.utils", "nn.utils.rnn")),
    Page("optim", "optim", ("optim", "optim.lr_scheduler", "optim.swa_utils")),
    Page("linalg", "linalg", ("linalg",)),
    Page("fft", "fft", ("fft",)),
    Page("special", "special", ("special",)),
    Page("utils", "utils and amp", ("utils.data", "utils.checkpoint", "amp")),
    Page(
        "interop",
        "interop and compat",
        ("interop", "interop.gguf", "interop.onnx", "interop.safetensors", "interop.torch"),
    ),
]


# The names of a page


def _module(namespace: str) -> Any:
    """A namespace; torch, which is too large to install for the site, need not be there for that of the bridge."""
    name = f"{PACKAGE}.{namespace}".rstrip(".")
    if namespace != "interop.torch":
        return importlib.import_module(name)
    with mock([] if importlib.util.find_spec("torch") else ["torch"]):
        return importlib.import_module(name)


def _public(namespace: str) -> dict[str, Any]:
    """The public names of a namespace with what they are, modules left out."""
    module = _module(namespace)
    names = getattr(module, "__all__", None) or [name for name in dir(module) if not name.startswith("_")]
    found = {}
    for name in names:
        with contextlib.suppress(ImportError):  # a module that needs another library
            found[name] = getattr(module, name)
    return {
        name: each for name, each in found.items() if not isinstance(each, types.ModuleType) and name != "annotations"
    }


def _page_of(found: Any) -> Page:
    """The page of a function of the package itself, by the folder that defines it."""
    home = getattr(inspect.unwrap(found) if callable(found) else found, "__module__", "") or ""
    for page in PAGES:
        if any(home.startswith(f"{PACKAGE}.{folder}") for folder in page.folders):
            return page
    return PAGES[0]


def _sections(page: Page) -> Iterator[tuple[str, dict[str, Any]]]:
    """The namespaces of a page, with the names of each."""
    if page.namespaces:
        for namespace in page.namespaces:
            yield f"mt.{namespace}", _public(namespace)
    elif page.file == "tensor":
        yield "mt.Tensor", {name: getattr(mt.Tensor, name) for name in dir(mt.Tensor) if not name.startswith("_")}
    else:
        found = _public("")
        del found["Tensor"]
        yield "mt", {name: each for name, each in found.items() if _page_of(_base(name, found)) is page}


def _base(name: str, found: dict[str, Any]) -> Any:
    """What decides on the page of a name: an in-place form stands with its function."""
    return found.get(name.removesuffix("_"), found[name])


# One page


def _text(page: Page) -> str:
    lines = [f"# {page.title}", ""]
    for prefix, names in _sections(page):
        if len(page.namespaces) > 1:
            lines += [f"## {prefix}", ""]
        if page.namespaces:
            lines += [_introduction(page, prefix), ""]
        lines += _entries(prefix, names)
    return "\n".join(lines)


def _introduction(page: Page, prefix: str) -> str:
    module = _module(prefix.removeprefix("mt").removeprefix("."))
    return markdown(inspect.getdoc(module) or "") if isinstance(module, types.ModuleType) else ""


def _entries(prefix: str, names: dict[str, Any]) -> list[str]:
    """All names, aliases with what they stand for, in-place forms and twins of functions in one list each."""
    lines: list[str] = []
    twins, inplace, aliases = [], [], {}
    for name, found in names.items():
        aliases.setdefault(id(found), []).append(name)
    for name, found in sorted(names.items(), key=lambda item: item[0].lower()):
        same = sorted(aliases[id(found)], key=lambda each: (each != getattr(found, "__name__", ""), each.lower()))
        if callable(found) and same[0] != name:
            continue
        if prefix == "mt.Tensor" and _is_twin(name, found):
            twins.append(name)
        elif name.endswith("_") and name[:-1] in names and prefix in ("mt", "mt.Tensor"):
            inplace.append(name)
        else:
            shown = same if callable(found) else [name]
            lines += _entry([f"{prefix}.{each}" for each in shown], found, ":::")
    if inplace:
        lines += _group(prefix, inplace, "Each writes its result into its first argument and returns that.")
    if twins:
        lines += ["## Methods that are functions of the package", "", "The tensor is their first argument.", ""]
        lines += [", ".join(f"{{py:func}}`{name} <mt.{name}>`" for name in twins), ""]
    return lines


def _is_twin(name: str, found: Any) -> bool:
    function = getattr(mt, name, None)
    return callable(found) and function is not None and inspect.getdoc(function) == inspect.getdoc(found)


def _group(prefix: str, names: list[str], sentence: str) -> list[str]:
    title = "## Methods in place" if prefix == "mt.Tensor" else "## In-place forms"
    return [title, "", sentence, "", ", ".join(f"`{name}`" for name in names), ""]


def _entry(names: list[str], found: Any, fence: str) -> list[str]:
    """The directive of an object with its docstring, and of a class with its own methods and properties."""
    if isinstance(found, type) or (callable(found) and not hasattr(type(found), "flags")):
        kind = "class" if isinstance(found, type) else "function"
        heads = [f"{name}{signature(found)}" for name in names]
        text = markdown(inspect.getdoc(found) or "")
    elif isinstance(found, property) or inspect.isdatadescriptor(found):
        kind, heads, text = "attribute", names, markdown(inspect.getdoc(found) or "")
    else:
        kind, heads, text = "data", names, _data(found)
    lines = [f"{fence}::{{py:{kind}}} {heads[0]}", *heads[1:], "", text, ""]
    if kind == "class":
        for name, member in _members(found):
            lines += _member(name, member, fence)
    return [*lines, f"{fence}::", ""]


def _data(found: Any) -> str:
    """A sentence about a value that has no docstring of its own."""
    own = getattr(type(found), "__doc__", None)
    if isinstance(found, (int, float, str, bool)):
        return f"`{found!r}`"
    if type(found).__module__.startswith(PACKAGE) and own and type(found).__name__ != type(found).__module__:
        return markdown(inspect.cleandoc(own).split("\n\n")[0])
    return f"`{found!r}`"


def _members(found: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties that a class defines itself and describes.

    A function from elsewhere, such as the one that a module of `nn` runs, has its own entry.
    """
    for name, member in vars(found).items():
        plain = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
        is_own = inspect.isfunction(plain) and plain.__qualname__.startswith(f"{found.__qualname__}.")
        is_member = is_own or isinstance(plain, property)
        if not name.startswith("_") and is_member and getattr(plain, "__doc__", None):
            yield name, member


def _member(name: str, member: Any, fence: str) -> list[str]:
    kind, head = "attribute", name
    if not isinstance(member, property):
        kind, plain = "method", getattr(member, "__func__", member)
        head = name + signature(plain, skip_first=not isinstance(member, staticmethod))
    return [f"{fence}:{{py:{kind}}} {head}", "", markdown(inspect.getdoc(member) or ""), f"{fence}:", ""]


# The command line


def _command_line() -> str:
    """The help of the command and of each of its commands."""
    os.environ["COLUMNS"] = "100"
    whole, commands = cli.parser()
    lines = ["# Command line", "", "`minitorch-backends` and `python -m minitorch_backends` are the same command.", ""]
    for name, parser in {"minitorch-backends": whole, **commands}.items():
        lines += [f"## {name}", "", "```text", parser.format_help().rstrip(), "```", ""]
    return "\n".join(lines)


# Writing


def write(folder: Path) -> None:
    """Write all pages into the folder of the reference; those that are as they should be keep their time."""
    texts = {folder / "api" / f"{page.file}.md": _text(page) for page in PAGES}
    texts[folder / "api" / "files.md"] = name_index.text(each for page in PAGES for each in _sections(page))
    texts[folder / "command_line.md"] = _command_line()
    (folder / "api").mkdir(exist_ok=True)
    for path in set((folder / "api").glob("*.md")) - texts.keys():
        path.unlink()
    for path, text in texts.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages when the builder starts."""
    app.connect("builder-inited", lambda app: write(Path(app.srcdir) / "reference"))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
