"""Everything that `torch.backends` has, replayed from recordings of torch 2.13: names, defaults, values, exceptions.

Every difference must be a departure with a name (`departures.py`), and every departure named here must show.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import minitorch_backends as mt
from minitorch_backends import backends
from minitorch_backends.backends import libraries
from minitorch_backends.flags import Snapshot, rows
from minitorch_backends.kernels.registry import kernels
from minitorch_backends.kernels.runtime.plan_cache import fft_plans

from ..flags import test_flags
from ..support.departures import DEPARTURES

DATA = Path(__file__).parents[1] / "data"
SEQUENCES = json.loads((DATA / "torch_fp32_precision.json").read_text(encoding="utf-8"))
SURFACE = {entry["path"]: entry for entry in json.loads((DATA / "torch_surface.json").read_text(encoding="utf-8"))}


pytestmark = pytest.mark.usefixtures("default_flags")


def holder_of(path: str) -> tuple[Any, str]:
    *groups, name = path.split(".")
    found: Any = backends
    for group in groups:
        found = getattr(found, group)
    return found, name


# The precisions


def read(path: str) -> Any:
    return mt.get_float32_matmul_precision() if path == "float32_matmul_precision" else getattr(*holder_of(path))


def write(path: str, value: Any) -> None:
    if path == "float32_matmul_precision":
        mt.set_float32_matmul_precision(value)
    else:
        setattr(*holder_of(path), value)


def precision_departure(path: str, recorded: Any, value: Any) -> str | None:
    """The departure that explains why a flag reads otherwise than it did in torch."""
    if recorded == "RuntimeError" and rows[path].choices.has(value):
        return "reads_never_raise"
    if path == "float32_matmul_precision" and recorded != "RuntimeError":
        return "matmul_precision_follows_the_flags"
    return None


def test_every_recorded_state_of_the_precisions() -> None:
    """A step that assigns `mkldnn.fp32_precision` is replayed as what it does in torch: it assigns the generic flag."""
    steps, shown, unexplained = 0, set(), []
    for number, sequence in enumerate(SEQUENCES):
        backends.restore(Snapshot(()))
        for step in sequence:
            if step["set"] is not None:
                path, value = step["set"]
                raised = "ok"
                try:
                    write("fp32_precision" if path == "mkldnn.fp32_precision" else path, value)
                except (RuntimeError, TypeError) as error:
                    raised = type(error).__name__
                if raised != step["result"]:
                    unexplained.append((number, step["set"], step["result"], raised))
            for path, recorded in step["state"].items():
                value = read(path)
                if value != recorded or type(value) is not type(recorded):
                    departure = precision_departure(path, recorded, value)
                    shown.add(departure)
                    if departure is None:
                        unexplained.append((number, step["set"], path, recorded, value))
            steps += 1
    assert steps == 440
    assert not unexplained
    assert shown == {"reads_never_raise", "matmul_precision_follows_the_flags"}


def test_matmul_precision_follows_the_flags() -> None:
    mt.set_float32_matmul_precision("high")
    backends.cuda.matmul.fp32_precision = backends.mkldnn.matmul.fp32_precision = "ieee"
    assert mt.get_float32_matmul_precision() == "highest"


# The names

TORCH = SimpleNamespace(
    zeros=mt.zeros, _C=SimpleNamespace(_LinalgBackend=libraries.LinalgBackend, _BlasBackend=libraries.BlasBackend)
)
"""What the recorded arguments are made of."""

INTERNALS = {
    *(f"torch.backends.{name}" for name in ("ContextProp", "PropModule", "GenericModule")),
    *(f"torch.backends.cuda.{name}" for name in ("cuBLASModule", "cuFFTPlanCacheAttrContextProp")),
    *(f"torch.backends.cudnn.rnn.{name}" for name in ("get_cudnn_mode", "init_dropout_state", "Unserializable")),
    "torch.backends.cudnn.CUDNN_TENSOR_DTYPES",
}

MACHINE = {
    *(f"torch.backends.{name}.is_available" for name in ("mkl", "mkldnn", "nnpack", "openmp")),
    *(f"torch.backends.quantized.{name}" for name in ("engine", "supported_engines")),
    "torch.backends.cuda.is_flash_attention_available",
}

PARTED = {
    "internals_of_torch_are_absent": lambda path, what: path in INTERNALS and what == "absent",
    "availability_is_true_of_the_machine": lambda path, what: path in MACHINE,
    "libraries_are_all_there": lambda path, what: (
        "preferred_" in path and what in ("bad 'cusolver'", "bad 'magma'", "bad 'cublaslt'", "bad 'hipblaslt'")
    ),
    "the_plan_cache_is_real": lambda path, what: ".cufft_plan_cache." in path,
    "every_flag_validates": lambda path, what: (
        what == "accepts any" or "any object" in what or (path.endswith("matmul_precision") and what == "bad 'x'")
    ),
    "every_flag_freezes": lambda path, what: what == "honours_freeze",
    "every_strategy_can_be_set": lambda path, what: ".opt_einsum." in path and ("'dp'" in what or "'greedy'" in what),
    "mkldnn_allow_tf32_acts": lambda path, what: path == "torch.backends.mkldnn.allow_tf32" and what == "default",
    "missing_devices_raise_runtime_error": lambda path, what: what == "default_raises AttributeError",
}
"""For each departure that the recorded surface shows: whether it explains a difference."""


def find(path: str) -> Any:
    """The object that this project has under torch's name; AttributeError when there is nothing."""
    if path.startswith("torch.backends"):
        if path.startswith("torch.backends.xeon"):
            importlib.import_module("minitorch_backends.backends.xeon.run_cpu")
        return getattr(*holder_of(path.removeprefix("torch.backends.")))
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module("minitorch_backends" + module.removeprefix("torch")), name)


def call(function: Any, arguments: str) -> Any:
    """The result of a call whose arguments are Python source; a context is entered and left."""
    result = eval(f"function({arguments})", {"function": function, "torch": TORCH})
    if hasattr(result, "__enter__"):
        with result:
            pass
    return result


def raised_name(function: Any, *arguments: Any) -> str:
    """The name of what a call raises, or "nothing"."""
    try:
        function(*arguments)
    except Exception as error:
        return type(error).__name__
    return "nothing"


def bad_cases(entry: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if entry["bad_exc"] is not None:
        yield entry["bad_value"], entry["bad_exc"]
    for case in entry.get("more_bad", ()):
        yield case["value"], case["exc"]


def same(recorded: Any, value: Any) -> bool:
    """Whether a value is the recorded one; objects are recorded by a description."""
    if isinstance(recorded, str) and recorded.startswith("<"):
        return True
    if isinstance(recorded, str) and recorded.startswith("_"):
        return str(value) == recorded.removeprefix("_")
    return value == recorded and type(value) is type(recorded)


def flag_differences(entry: dict[str, Any], path: str) -> Iterator[str]:
    holder, name = holder_of(path.removeprefix("torch.backends."))
    if "default_raises" in entry:
        if raised_name(getattr, holder, name) != entry["default_raises"]:
            yield f"default_raises {entry['default_raises']}"
    elif not same(entry["default"], getattr(holder, name)):
        yield "default"
    for recorded in entry["accepts"]:
        value = eval(recorded) if isinstance(recorded, str) and recorded.startswith("(") else recorded
        if raised_name(setattr, holder, name, value) != "nothing":
            yield f"accepts {value}"
        elif getattr(holder, name) != (value[0] if isinstance(value, tuple) else value):
            yield f"reads {value}"
    before = getattr(holder, name)
    for value, exception in bad_cases(entry):
        if raised_name(setattr, holder, name, eval(value)) != exception:
            yield f"bad {value}"
        elif getattr(holder, name) != before:
            yield f"changed by {value}"
    if entry.get("honours_freeze") is False:
        yield "honours_freeze"  # test_flags freezes every row


def function_differences(entry: dict[str, Any], path: str) -> Iterator[str]:
    function = find(path)
    if "default_raises" in entry:
        if raised_name(function) != entry["default_raises"]:
            yield f"default_raises {entry['default_raises']}"
    elif entry["default"] is not None and not same(entry["default"], function()):
        yield "default"
    for arguments in entry["accepts"]:
        if raised_name(call, function, repr(arguments) if entry["module"] == "" else arguments) != "nothing":
            yield f"accepts {arguments}"
    for arguments, exception in bad_cases(entry):
        if raised_name(call, function, arguments) != exception:
            yield f"bad {arguments}"
    optional = entry.get("params", {})
    if "required" in optional.values():
        return
    for name, value in optional.items():
        if value is not None and raised_name(call, function, f"{name}={value!r}") != "nothing":
            yield f"parameter {name}"
    if "yields" in entry:
        with function() as entered:
            if entered != entry["yields"]:
                yield "yields"


def differences(path: str) -> Iterator[str]:
    """In what this project differs from a recorded entry."""
    entry = SURFACE[path]
    try:
        found = find(path)
    except AttributeError:
        yield "absent"
        return
    if entry["kind"] == "flag":
        yield from flag_differences(entry, path)
    elif entry["kind"] in ("function", "context", "class") and entry["name"] != "disable_global_flags":
        yield from function_differences(entry, path)
    elif entry["kind"] == "const" and not same(entry["default"], found):
        yield "default"
    for name, value in entry.get("members", {}).items():
        if getattr(found, name).value != value:
            yield f"member {name}"


def departures_of(path: str) -> set[str | None]:
    """The departures that explain an entry's differences; None for one that nothing explains."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of the deprecated sdp_kernel
        found = set(differences(path))
    explained = {what: {name for name, explains in PARTED.items() if explains(path, what)} for what in found}
    unexplained = {what for what, names in explained.items() if not names}
    assert not unexplained, f"{path}: {unexplained}"
    return set().union(*explained.values())


@pytest.mark.parametrize("path", list(SURFACE))
def test_every_recorded_name(path: str) -> None:
    assert departures_of(path) <= set(DEPARTURES)


def test_every_departure_of_the_surface_shows() -> None:
    shown = set()
    for path in SURFACE:
        backends.restore(Snapshot(()))
        shown |= departures_of(path)
    machine = "availability_is_true_of_the_machine"
    assert shown | {machine} == set(PARTED)


def test_every_departure_has_a_test() -> None:
    tests = {*globals(), *vars(test_flags)}
    assert not [name for name in DEPARTURES if f"test_{name}" not in tests]


def test_internals_of_torch_are_absent() -> None:
    for path in INTERNALS:
        with pytest.raises(AttributeError, match="has no attribute"):
            find(path)


def test_availability_is_true_of_the_machine() -> None:
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    loaded = {line.rsplit("/", 1)[-1] for line in maps.splitlines() if "/" in line}
    assert backends.mkl.is_available() == any(name.startswith("libmkl_rt") for name in loaded)
    assert not any("libdnnl" in name or "libnnpack" in name for name in loaded)
    assert (backends.mkldnn.is_available(), backends.nnpack.is_available()) == (False, False)
    assert backends.openmp.is_available() == (importlib.util.find_spec("numba.np.ufunc.omppool") is not None)
    assert backends.opt_einsum.get_opt_einsum().__name__ == "opt_einsum"
    assert backends.cuda.is_flash_attention_available() == ("flash" in kernels["attention"].implementations)
    assert not any(
        answer()
        for answer in (
            backends.cuda.is_built,
            backends.cudnn.is_available,
            backends.mps.is_available,
            backends.cusparselt.is_available,
            backends.kleidiai.is_available,
            backends.cuda.is_ck_sdpa_available,
        )
    )


def test_libraries_are_all_there() -> None:
    for function in (backends.cuda.preferred_linalg_library, backends.cuda.preferred_blas_library):
        for member in type(function()):
            assert function(member.name.lower()) is function(member) is function()
    assert backends.cuda.preferred_blas_library("hipblaslt") is libraries.BlasBackend.Cublaslt


def test_the_plan_cache_is_real() -> None:
    cache = backends.cuda.cufft_plan_cache
    cache.clear()
    assert (cache.size, cache.max_size) == (0, 4096)
    cache[0].max_size = 2
    assert cache.max_size == cache["cuda:0"].max_size == 2
    for key in "abca":
        fft_plans.get(key, lambda key=key: f"plan {key}", cache.max_size)
    assert (cache.size, fft_plans.hits, fft_plans.misses) == (2, 0, 4)
    assert fft_plans.get("c", str, cache.max_size) == "plan c"
    assert fft_plans.hits == 1
    fft_plans.get("d", lambda: "plan d", 0)
    assert cache.size == 0
    for key in "efg":
        fft_plans.get(key, str, 3)
    cache.max_size = 1
    assert cache.size == fft_plans.size == 1
    with pytest.raises(RuntimeError, match=r"size cannot be set"):
        cache.size = 1
    for kind, devices in ((RuntimeError, (1, -1, "bad")), (ValueError, (None, 1.5))):
        for device in devices:
            with pytest.raises(kind, match="cufft_plan_cache"):
                cache[device]
    fft_plans.get("e", lambda: "plan e", 1)
    cache.clear()
    assert (cache.size, fft_plans.misses) == (0, 0)


def test_every_flag_validates() -> None:
    for path in ("opt_einsum.strategy", "opt_einsum.enabled", "cudnn.benchmark_limit", "mha.fastpath"):
        with pytest.raises((RuntimeError, TypeError, ValueError)):
            setattr(*holder_of(path), "bogus")
    with pytest.raises(RuntimeError, match=r"mha.fastpath takes one of True, False, got 3"):
        backends.mha.set_fastpath_enabled(3)  # type: ignore[arg-type]


def test_every_strategy_can_be_set() -> None:
    from opt_einsum.paths import _PATH_OPTIONS

    backends.opt_einsum.enabled = False
    sources = {name: getattr(search, "func", search).__module__ for name, search in _PATH_OPTIONS.items()}
    names = [name for name, module in sources.items() if not module.startswith("cotengra")]  # which registers its own
    assert len(names) > 10
    for strategy in (None, *names):
        backends.opt_einsum.strategy = strategy
        assert backends.opt_einsum.strategy == strategy


def test_mkldnn_allow_tf32_acts() -> None:
    backends.mkldnn.allow_tf32 = True
    assert mt.explain.precision_of("matmul").precision == mt.explain.precision_of("conv").precision == "tf32"
    backends.mkldnn.allow_tf32 = False
    assert mt.explain.precision_of("matmul").precision == "ieee"
    assert backends.mkldnn.allow_tf32 is False


def test_missing_devices_raise_runtime_error() -> None:
    for function in (backends.mps.get_name, backends.mps.get_core_count, backends.cuda.cublas_workspace_size):
        with pytest.raises(RuntimeError, match=rf"{function.__name__}\(\).*not use"):
            function()
