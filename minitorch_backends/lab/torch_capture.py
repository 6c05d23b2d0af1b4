"""Runs of torch programs on any device, and the writer of run files. This file needs torch and NumPy alone.

Copy it to the machine with the GPU, and compare its run with one of the same program under `interop.torch.emulate`:

    python torch_capture.py gpu.run script.py arguments        # there; or in a program: with capture_torch("gpu.run"):
    minitorch-backends torch --profile h100 torch_capture.py cpu.run script.py arguments                        # here
    minitorch-backends compare gpu.run cpu.run

Both runs have, in order, an entry for the outputs of each module, and two for each product that torch's dispatcher or a
function such as attention computes, forward and backward: its operands ("mm operands") and its results ("mm"). The
first entry that differs while its operands agree is where two devices part. `lab.runs` describes the format.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import json
import os
import platform
import re
import sys
import threading
import time
import zipfile
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FORMAT, VERSION = "minitorch-backends run", 1
KINDS = ("hashes", "statistics", "values")
WIDTH = 128
"""Number of sums in a sketch. Seven bits choose the sum, one bit the sign."""


class Stored(NamedTuple):
    """An array to describe.

    Attributes:
        bits: the elements in C order; unsigned integers where NumPy lacks the type.
        dtype: the name of the type.
        reals: returns the elements as float64, flattened, with real and imaginary parts alternating.
    """

    bits: np.ndarray
    dtype: str
    reals: Callable[[], np.ndarray]


class RunWriter:
    """Writes entries, and what `kind` wants of their arrays, to an archive."""

    def __init__(self, archive: zipfile.ZipFile, kind: str) -> None:
        self._archive, self._kind = archive, kind
        self._entries: list[dict[str, Any]] = []
        self._sketches: list[np.ndarray] = []
        self._lock = threading.Lock()  # a context, and its observer, may be copied to other threads

    def add(self, entry: dict[str, Any], arrays: Sequence[Stored]) -> None:
        """Write an entry with the attributes of `explain.Record`. Nothing keeps a reference to the arrays."""
        described, sketches = [], []
        for each in arrays:
            about: dict[str, Any] = {"shape": each.bits.shape, "dtype": each.dtype, "hash": hash_of(each.bits)}
            if self._kind != "hashes":
                statistics, sketch = _statistics(each.reals())
                about |= statistics
                sketches.append(sketch)
            described.append(about)
        with self._lock:
            number = len(self._entries)
            self._entries.append({**entry, "results": described})
            self._sketches += sketches
            for place, each in enumerate(arrays if self._kind == "values" else ()):
                self._write(f"values/{number}.{place}.npy", each.bits)

    def _write(self, name: str, array: np.ndarray) -> None:
        entry = zipfile.ZipInfo(name)  # uncompressed, since floating-point bits do not compress
        with self._archive.open(entry, "w", force_zip64=True) as file:
            np.lib.format.write_array(file, array, allow_pickle=False)

    def finish(self, about: dict[str, Any]) -> None:
        """Write what describes the whole run."""
        self._archive.writestr("calls.jsonl", "".join(json.dumps(entry) + "\n" for entry in self._entries))
        if self._kind != "hashes":
            self._write("sketches.npy", np.array(self._sketches).reshape(-1, WIDTH))
        self._archive.writestr("run.json", json.dumps({**about, "calls": len(self._entries)}, indent=1))


def about_run(results: str, **more: Any) -> dict[str, Any]:
    """The object of run.json at the beginning of a run. Raises ValueError for unknown `results`."""
    if results not in KINDS:
        raise ValueError(f"capture(): results must be 'hashes', 'statistics' or 'values', got {results!r}")
    started = dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds")  # noqa: UP017  (older Pythons, elsewhere)
    return {"format": FORMAT, "version": VERSION, "results": results, "started": started, **more, "exception": None}


def as_plain(values: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Pairs of a flag and its value for JSON."""
    plain = (type(None), bool, int, float, str)
    return {name: value if isinstance(value, plain) else repr(value) for name, value in values}


def hash_of(bits: np.ndarray) -> str:
    return hashlib.blake2b(bits.reshape(-1).view(np.uint8).data, digest_size=16).hexdigest()


def _statistics(numbers: np.ndarray) -> tuple[dict[str, float | None], np.ndarray]:
    """Statistics of the finite elements, and their sketch. A complex element counts as two numbers."""
    nan, infinite = np.isnan(numbers), np.isinf(numbers)
    finite = np.where(nan | infinite, 0.0, numbers)
    with np.errstate(over="ignore"):
        found = {
            "norm": float(np.linalg.norm(finite)),
            "largest": float(np.abs(finite).max(initial=0.0)),
            "mean": float(finite.sum() / max(finite.size, 1)),
        }
        sketch = _sketch(finite)
    counts = {"nan": int(nan.sum()), "inf": int(infinite.sum())}
    return {**{name: value if np.isfinite(value) else None for name, value in found.items()}, **counts}, sketch


def _sketch(numbers: np.ndarray) -> np.ndarray:
    """Sums of the elements with random signs. Signs and places come from Philox with key 0, equal on every machine."""
    raw = np.random.Philox(key=0).random_raw(-(-numbers.size // 8))
    places = np.asarray(raw, "<u8").view(np.uint8)[: numbers.size]
    sums = np.bincount(places, weights=numbers, minlength=2 * WIDTH)
    return sums[:WIDTH] - sums[WIDTH:]


# Torch


def is_product(name: str) -> bool:
    """Whether an operator of torch multiplies matrices, judged by its name, since torch has no such list."""
    return _PRODUCT.search(name) is not None and _NO_PRODUCT.search(name) is None


_PRODUCT = re.compile(
    r"(^|_)((\w*mm|\w*mv|\w*dot|linear|matmul|trilinear|cdist|euclidean_dist)(_|$)"
    r"|q?conv|qlinear|attention|transformer_encoder|rnn|lstm|gru|linalg_|cholesky|triangular_solve|lu_solve|geqrf|ormqr"
    r"|spsolve|svd$)"
)
_NO_PRODUCT = re.compile(
    r"linalg_(_powsum|check_errors|cross|diagonal|vander|vector_norm)|convert|^addmm_is|pointwise_grad"
    r"|thnn_(fused|differentiable)_|reorder|flatten_weight|quantize_weight|fbgemm_pack"
    r"|_(pre|un)pack(_fp16|_legacy|_sizes)*$|conv\w*d_(dilation|groups|output_padding|padding|stride|transpose)$"
)

_OF_DEVICES = ((re.compile(r"_?scaled_dot_product_\w*attention\w*?(_backward)?$"), r"scaled_dot_product_attention\1"),)
"""Names that differ between devices, and the one for all."""


@contextlib.contextmanager
def capture_torch(path: str | os.PathLike[str], *, results: str = "statistics") -> Iterator[None]:
    """Write the outputs of each torch module, and the operands and results of each product that this thread computes on
    any device, to a file while the block runs.

    Arguments:
        path: the file. It appears complete at the end of the block, even if the block raises.
        results: "hashes", "statistics" (which estimate differences to about 6 %) or "values" (all elements), as for
            `capture`. Each tensor is copied to the CPU, which takes most of the time.

    Where torch's products run here, under `interop.torch.emulate`, enter this block inside. Raises ValueError for other
    `results`.
    """
    import torch

    described = about_run(results, **_machine(torch), grad=torch.is_grad_enabled())
    partial, start = f"{os.fspath(path)}.{os.getpid()}.partial", time.perf_counter()
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            writer = RunWriter(archive, results)
            try:
                with _recorder(torch, writer):
                    yield
            except BaseException as error:
                described["exception"] = f"{type(error).__name__}: {error}"
                raise
            finally:
                writer.finish({**described, "seconds": time.perf_counter() - start})
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.replace(partial, path)


def _machine(torch: Any) -> dict[str, Any]:
    """What run.json has of this machine and of torch's flags, and of those that are emulated."""
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor() or platform.machine()
    flags: dict[str, Any] = {"torch float32_matmul_precision": torch.get_float32_matmul_precision()}
    for name in ("cuda.matmul.fp32_precision", "cudnn.conv.fp32_precision", "cudnn.rnn.fp32_precision"):
        with contextlib.suppress(AttributeError, RuntimeError):  # older versions, or both interfaces in use
            value: Any = torch.backends
            for part in name.split("."):
                value = getattr(value, part)
            flags[f"torch {name}"] = value
    flags["torch deterministic"] = torch.are_deterministic_algorithms_enabled()
    emulation = sys.modules.get("minitorch_backends")
    modes = _get_current_dispatch_mode_stack()
    if emulation is not None and any(type(each).__module__.startswith(f"{emulation.__name__}.") for each in modes):
        flags.update(as_plain(emulation.backends.snapshot().values))  # elsewhere they act on nothing
    versions = f"torch {torch.__version__}, numpy {np.__version__}, python {platform.python_version()}"
    capability = torch.backends.cpu.get_cpu_capability()
    return {"host": platform.node(), "cpu": device, "capability": capability, "versions": versions,
            "threads": torch.get_num_threads(), "flags": flags}  # fmt: skip


class _Modules:
    """The names of the modules that run, and of those that made the nodes of torch's graph."""

    def __init__(self, number: Callable[[], int]) -> None:
        self._number, self._running = number, list[tuple[Any, str, dict[Any, str]]]()
        self._numbers, self._names = list[int](), list["str | None"]()

    @property
    def current(self) -> str | None:
        return self._running[-1][1] if self._running else None

    def at(self, number: int) -> str | None:
        place = bisect_right(self._numbers, number)
        return self._names[place - 1] if place else None

    def enter(self, module: Any) -> None:
        self._running.append((module, self._name_of(module), {}))
        self._note()

    def leave(self) -> None:
        self._running.pop()
        self._note()

    def _note(self) -> None:
        self._numbers.append(self._number())
        self._names.append(self.current)

    def _name_of(self, module: Any) -> str:
        """As `explain` has it: relative to the innermost module that contains it; the outermost one is ""."""
        for holder, name, names in reversed(self._running):
            if module not in names:
                names.update({held: held_name for held_name, held in holder.named_modules(prefix=name)})
            if module in names:
                return names[module]
        return f"{self.current}.{type(module).__name__}".lstrip(".") if self._running else ""


@contextlib.contextmanager
def _recorder(torch: Any, writer: RunWriter) -> Iterator[None]:
    """Record into the writer while the block runs, in this thread."""
    from torch.nn.modules import module as hooks

    modules, thread = _Modules(torch.autograd._get_sequence_nr), threading.get_ident()

    def record(kernel: str, tensors: Any, operands: Any = (), backward: Any = None) -> None:
        found = [each for each in _tensors(torch, tensors) if each.device.type != "meta"]
        described = list(_tensors(torch, operands or tensors))
        entry = {
            "kernel": kernel, "shapes": [list(each.shape) for each in described],
            "dtypes": [_dtype(each) for each in described], "precision": "", "options": [], "implementation": "",
            "refusals": [], "decided_by": None, "direction": "forward" if backward is None else "backward",
            "seconds": 0.0, "module": modules.current if backward is None else modules.at(backward),
        }  # fmt: skip
        writer.add(entry, [_description(torch, each) for each in found])

    def enter(module: Any, _: Any) -> None:
        if threading.get_ident() == thread:
            modules.enter(module)

    def leave(module: Any, _: Any, output: Any) -> None:
        if threading.get_ident() == thread:
            if output is not None:
                record(f"output of {type(module).__name__}", output)
            modules.leave()

    handles = [
        hooks.register_module_forward_pre_hook(enter),
        hooks.register_module_forward_hook(leave, always_call=True),
    ]
    products, functions = _modes(torch, record)
    try:
        with functions, products:
            yield
    finally:
        for each in handles:
            each.remove()


def _modes(torch: Any, record: Callable[..., None]) -> tuple[Any, Any]:
    """The modes that record products: of operators, and of functions that devices and strides decompose differently."""
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    names = ("einsum", "matmul", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
             "conv_transpose3d", "lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell",
             "rnn_relu_cell")  # fmt: skip
    whole = {getattr(torch, name): name for name in names}
    whole |= {getattr(torch.nn.functional, name): name for name in ("linear", "scaled_dot_product_attention")}
    whole |= dict.fromkeys((torch.Tensor.matmul, torch.Tensor.__matmul__), "matmul")

    class Products(TorchDispatchMode):
        inside = False

        def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
            kwargs = kwargs or {}
            name = _name(func)
            if name is None or self.inside:
                return func(*args, **kwargs)
            if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
                with self:
                    found = func.decompose(*args, **kwargs)
                if found is not NotImplemented:
                    return found
            node = torch._C._current_autograd_node()
            number = None if node is None else node._sequence_nr()
            operands = (*args, *kwargs.values())
            record(f"{name} operands", operands, backward=number)
            found = func(*args, **kwargs)
            record(name, found, operands, number)
            return found

    products = Products()

    class Functions(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
            kwargs, name = kwargs or {}, whole.get(func)
            if name is None or products.inside:
                return func(*args, **kwargs)
            operands = (*args, *kwargs.values())
            record(f"{name} operands", operands)
            products.inside = True
            try:
                found = func(*args, **kwargs)
            finally:
                products.inside = False
            record(name, found, operands)
            return found

    return products, Functions()


def _name(func: Any) -> str | None:
    """The name of an operator that multiplies, the same on each device; None for another one."""
    schema = getattr(func, "_schema", None)
    if schema is None:
        return None
    name = schema.name.split("::")[1] if schema.name.startswith("aten::") else schema.name
    for pattern, common in _OF_DEVICES:
        name = pattern.sub(common, name)
    return name if is_product(name) else None


def _tensors(torch: Any, value: Any) -> Iterator[Any]:
    """The tensors in arguments and outputs, those in sequences, dicts and dataclasses included."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _tensors(torch, each)
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _tensors(torch, each)
    elif hasattr(value, "__dataclass_fields__"):
        yield from _tensors(torch, [getattr(value, name) for name in value.__dataclass_fields__])


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _description(torch: Any, tensor: Any) -> Stored:
    """A tensor of any device and layout, copied to the CPU."""
    tensor = tensor.detach()
    tensor = (tensor.to_dense() if tensor.layout != torch.strided else tensor).cpu().resolve_conj().resolve_neg()
    tensor = tensor.contiguous()
    try:
        bits = tensor.numpy()
    except TypeError:  # NumPy lacks the type
        integers = {1: torch.uint8, 2: torch.int16}[tensor.element_size()]
        bits = tensor.view(integers).numpy().view(f"u{tensor.element_size()}")

    def reals() -> np.ndarray:
        if tensor.is_complex():
            return torch.view_as_real(tensor.to(torch.complex128)).numpy().ravel()
        return tensor.double().numpy().ravel()

    return Stored(bits, _dtype(tensor), reals)


def _main(arguments: list[str]) -> None:
    """Run a script in the way of `python script.py`, captured."""
    import argparse
    import runpy

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", choices=KINDS, default="statistics", help="what to store (%(default)s)")
    parser.add_argument("run", metavar="RUN", help="the file to write")
    parser.add_argument("script", nargs=argparse.REMAINDER, metavar="SCRIPT ...", help="a script and its arguments")
    options = parser.parse_args(arguments)
    if not options.script:
        parser.error("a script must follow the run")
    sys.argv, sys.path[0] = options.script, str(Path(options.script[0]).resolve().parent)
    with capture_torch(options.run, results=options.results):
        runpy.run_path(options.script[0], run_name="__main__")


if __name__ == "__main__":
    _main(sys.argv[1:])
