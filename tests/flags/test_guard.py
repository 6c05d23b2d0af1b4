"""Code that must not change flags: `guard()`, and the line that the errors name."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import minitorch_backends as mt
from minitorch_backends import backends

from ..support.processes import python

pytestmark = pytest.mark.usefixtures("default_flags")


@pytest.fixture
def library(tmp_path: Path) -> ModuleType:
    """Third-party code that sets flags in every way that there is, each in a function of its own."""
    source = """
from minitorch_backends import backends
import minitorch_backends as mt

def assign(): backends.cuda.matmul.allow_tf32 = True
def set_flags(): backends.cudnn.set_flags(_benchmark=True)
def set_generic(): backends.set_flags("tf32")
def set_precision(): mt.set_float32_matmul_precision("high")
def set_xla(): backends.xla.set_mat_mul_precision("high")
def prefer(): backends.cuda.preferred_blas_library("cublaslt")
def enable(): backends.cuda.enable_flash_sdp(False)
def nnpack(): backends.nnpack.set_flags(False)
def mha(): backends.mha.set_fastpath_enabled(False)
def deterministic(): mt.use_deterministic_algorithms(True)
def restore(): backends.restore(backends.snapshot())
def freeze(): backends.disable_global_flags()
"""
    file = tmp_path / "library.py"
    file.write_text(source)
    module = ModuleType("library")
    exec(compile(source, str(file), "exec"), vars(module))
    return module


WAYS = [
    "assign", "set_flags", "set_generic", "set_precision", "set_xla", "prefer", "enable", "nnpack", "mha",
    "deterministic", "restore", "freeze",
]  # fmt: skip


def line_of(module: ModuleType, name: str) -> str:
    code = getattr(module, name).__code__
    return f"{code.co_filename}:{code.co_firstlineno}"


@pytest.mark.parametrize("way", WAYS)
def test_a_write_raises_with_the_line_that_tried(library: ModuleType, way: str) -> None:
    before = backends.snapshot()
    with backends.guard(), pytest.raises(RuntimeError, match=r"inside backends.guard\(\).*use flags\(\)") as caught:
        getattr(library, way)()
    assert str(caught.value).startswith(line_of(library, way) + " tried to ")
    assert backends.snapshot() == before
    assert not backends.flags_frozen()
    if way != "freeze":
        getattr(library, way)()


def test_an_error_names_the_flag_and_the_value(library: ModuleType) -> None:
    with backends.guard(), pytest.raises(RuntimeError, match=r"tried to set cuda.matmul.fp32_precision = 'tf32'"):
        library.assign()


def test_scopes_inside_a_guard_work(library: ModuleType) -> None:
    with backends.guard():
        with backends.flags(fp32_precision="tf32"), backends.cuda.matmul.flags(allow_tf32=False):
            assert backends.fp32_precision == "tf32"
            library.assign()
            assert backends.cuda.matmul.allow_tf32 is True
            backends.fp32_precision = "bf16"
            with pytest.raises(RuntimeError, match="guard"):
                backends.emulate = "cuda"
        assert (backends.fp32_precision, backends.cuda.matmul.allow_tf32) == ("none", False)
        with backends.snapshot():
            library.assign()
            backends.emulate = "cuda"


def test_an_override_around_a_guard_is_guarded_too() -> None:
    with backends.flags(fp32_precision="ieee"), backends.guard():
        with pytest.raises(RuntimeError, match="guard"):
            backends.fp32_precision = "tf32"
        with backends.flags(emulate="cuda"), pytest.raises(RuntimeError, match="guard"):
            backends.fp32_precision = "tf32"
        assert backends.fp32_precision == "ieee"


def test_a_refused_write_sets_nothing_of_what_it_names() -> None:
    with backends.guard(), backends.cudnn.flags(enabled=False):
        with pytest.raises(RuntimeError, match=r"cudnn\.benchmark = True"):
            backends.cudnn.set_flags(_enabled=True, _benchmark=True)
        assert backends.cudnn.enabled is False


def test_guards_nest_and_end() -> None:
    scope = backends.guard()
    with scope, scope:
        pass
    with pytest.raises(KeyError), scope:
        raise KeyError
    backends.fp32_precision = "tf32"
    assert backends.fp32_precision == "tf32"


def test_a_guard_belongs_to_a_thread_or_task() -> None:
    def set_precision() -> None:
        backends.fp32_precision = "tf32"

    with backends.guard():
        thread = threading.Thread(target=set_precision)
        thread.start()
        thread.join()
        assert backends.fp32_precision == "tf32"

    async def run_guarded(ready: asyncio.Event) -> bool:
        with backends.guard():
            ready.set()
            await asyncio.sleep(0)
            with pytest.raises(RuntimeError, match="guard"):
                backends.emulate = "xla"
        return True

    async def free(ready: asyncio.Event) -> None:
        await ready.wait()
        backends.emulate = "cuda"

    async def main() -> bool:
        ready = asyncio.Event()
        return (await asyncio.gather(run_guarded(ready), free(ready)))[0]

    assert asyncio.run(main())
    assert backends.emulate == "cuda"


def decorate() -> list[Callable[[], Any]]:
    @backends.guard()
    def function() -> None:
        backends.fp32_precision = "tf32"

    @backends.guard()
    def generator() -> Iterator[None]:
        yield
        backends.fp32_precision = "tf32"

    @backends.guard()
    async def coroutine() -> None:
        await asyncio.sleep(0)
        backends.fp32_precision = "tf32"

    return [function, lambda: list(generator()), lambda: asyncio.run(coroutine())]


@pytest.mark.parametrize("call", decorate(), ids=["function", "generator", "coroutine"])
def test_a_guard_decorates(call: Callable[[], Any]) -> None:
    with pytest.raises(RuntimeError, match="guard"):
        call()
    backends.fp32_precision = "tf32"


def test_reads_and_products_go_on_inside_a_guard() -> None:
    with backends.guard():
        assert backends.fp32_precision == "none"
        assert (mt.ones(2, 3) @ mt.ones(3, 2)).sum().item() == 12


def test_the_error_after_a_freeze_names_the_line_that_froze() -> None:
    printed = python(
        "from minitorch_backends import backends as b\n"
        "b.disable_global_flags()\n"
        "b.disable_global_flags()\n"
        "try: b.cudnn.enabled = False\n"
        "except RuntimeError as error: print(error)\n"
    )
    assert printed.out == (
        "not allowed to set minitorch_backends.backends.cudnn flags after disable_global_flags (called at <string>:2); "
        "use minitorch_backends.backends.cudnn.flags() as a context manager instead\n"
    ), printed.error
