"""Traces in the formats of oneDNN and MKL: read back by parsers of the formats, and silent outside regions."""

import asyncio
import logging
import os
import re
import threading
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import backends, explain
from minitorch_backends.backends import mkl, mkldnn
from minitorch_backends.compat.verbose.mkl import _ROUTINES, mkl_lines
from minitorch_backends.compat.verbose.onednn import onednn_lines
from minitorch_backends.kernels import linalg as kernels
from minitorch_backends.kernels.gemm import matmul as kernel
from minitorch_backends.kernels.registry import Call, Kernel

from ..support.processes import python

pytestmark = pytest.mark.usefixtures("default_flags")


# Parsers

TEMPLATE = (
    "operation,engine,primitive,implementation,prop_kind,memory_descriptors,attributes,auxiliary,problem_desc,exec_time"
)


class Descriptor(NamedTuple):
    """A memory descriptor of version 1: seven fields between colons."""

    name: str
    dtype: str
    properties: str
    format_kind: str
    tag: str
    strides: str
    flags: str


def parse(text: str) -> list[dict[str, Any]]:
    """The primitives of a log in oneDNN's format, each with the columns that the log's own template names."""
    columns, found = None, []
    for line in text.splitlines():
        marker, version, *fields = line.split(",")
        assert (marker, version) == ("onednn_verbose", "v1"), line
        if fields[0] == "info":
            continue
        component, operation, *_ = fields
        assert component == "primitive", line
        if operation == "info":
            assert fields[2].startswith("template:")
            columns = [fields[2].removeprefix("template:"), *fields[3:]]
            continue
        assert columns is not None, "the template comes first"
        assert len(fields) == len(columns) + 1, line
        entry: dict[str, Any] = dict(zip(columns, fields[1:], strict=True))
        entry["memory_descriptors"] = [Descriptor(*each.split(":")) for each in entry["memory_descriptors"].split(" ")]
        entry["exec_time"] = float(entry["exec_time"])
        found.append(entry)
    return found


MKL_LINE = re.compile(
    r"MKL_VERBOSE (?P<routine>[A-Z0-9_]+)\((?P<arguments>(?:\(nil\)|[^()])*)\) (?P<time>\d+\.\d\d)(?P<unit>ns|us|ms|s) "
    r"CNR:(?P<cnr>OFF|\w+) Dyn:(?P<dyn>[01]) FastMM:(?P<fast>[01]) TID:(?P<tid>\d+)  NThr:(?P<threads>\d+)"
)


def mkl_calls(text: str) -> list[tuple[str, list[str]]]:
    """Routines and arguments of a log in MKL's style, whose first line is a banner."""
    banner, *lines = text.splitlines()
    assert banner.startswith("MKL_VERBOSE ")
    assert not MKL_LINE.fullmatch(banner)
    found = []
    for line in lines:
        match = MKL_LINE.fullmatch(line)
        assert match is not None, line
        found.append((match["routine"], match["arguments"].split(",")))
    return found


# oneDNN


def test_columns_of_a_product(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = mt.ones(3, 4), mt.ones(4, 5)
    with mkldnn.verbose(mkldnn.VERBOSE_ON) as region, explain.record() as log:
        a @ b
        mt.matmul(a, b, precision="bf16")
    assert region is not None
    text = capsys.readouterr().out
    assert f"onednn_verbose,v1,primitive,info,template:{TEMPLATE}\n" in text
    first, second = parse(text)
    assert first == {
        "operation": "exec",
        "engine": "cpu",
        "primitive": "matmul",
        "implementation": f"minitorch:{log[0].implementation}",
        "prop_kind": "undef",
        "memory_descriptors": [
            Descriptor("src", "f32", "", "blocked", "ab", "", "f0"),
            Descriptor("wei", "f32", "", "blocked", "ab", "", "f0"),
            Descriptor("dst", "f32", "", "blocked", "ab", "", "f0"),
        ],
        "attributes": "",
        "auxiliary": "",
        "problem_desc": "3x4:4x5",
        "exec_time": pytest.approx(log[0].seconds * 1e3, rel=1e-5),
    }
    assert second["attributes"] == "attr-fpmath:bf16"
    assert second["implementation"] == f"minitorch:{log[1].implementation}"


@pytest.mark.parametrize(
    ("a", "b", "sources", "problem"),
    [
        (np.ones((6, 8))[::2], np.ones((8, 5)), "src:f64::blocked:ab:16x1:f0 wei:f64::blocked:ab::f0", "3x8:8x5"),
        (np.ones((8, 6)).T, np.ones((8, 5)), "src:f64::blocked:ba::f0 wei:f64::blocked:ab::f0", "6x8:8x5"),
        (np.ones((2, 3, 8)), np.ones((8, 5)), "src:f64::blocked:abc::f0 wei:f64::blocked:abc::f0", "2x3x8:1x8x5"),
        (
            np.ones((8, 3, 2), np.float32).transpose(2, 1, 0),
            np.ones((2, 8, 5), np.float32),
            "src:f32::blocked:cba::f0 wei:f32::blocked:abc::f0",
            "2x3x8:2x8x5",
        ),
        (np.ones((2, 0)), np.ones((0, 3)), "src:f64::blocked:ab::f0 wei:f64::blocked:ab::f0", "2x0:0x3"),
        (np.ones((2, 3), int), np.ones((3, 2), int), "src:s64::blocked:ab::f0 wei:s64::blocked:ab::f0", "2x3:3x2"),
    ],
)
def test_layouts(a: Any, b: Any, sources: str, problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    with mkldnn.verbose(1):
        kernel(a, b)
    (entry,) = parse(capsys.readouterr().out)
    assert " ".join(":".join(each) for each in entry["memory_descriptors"][:2]) == sources
    assert entry["problem_desc"] == problem


def test_other_products_are_matmul_too(capsys: pytest.CaptureFixture[str]) -> None:
    x, w, bias = mt.ones(3, 200).half(), mt.ones(200, 100).half(), mt.ones(100).half()
    with mkldnn.verbose(1), explain.record() as log:
        mt.addmm(bias, x, w)
        with backends.cuda.matmul.flags(allow_fp16_accumulation=True):
            x @ w
    assert [entry.kernel for entry in log] == ["addmm", "half_matmul"]
    added, summed = parse(capsys.readouterr().out)
    assert added["primitive"] == summed["primitive"] == "matmul"
    assert added["problem_desc"] == summed["problem_desc"] == "3x200:200x100"
    assert [each.name for each in added["memory_descriptors"]] == ["src", "wei", "bia", "dst"]
    assert (added["attributes"], summed["attributes"]) == ("", "attr-acc-mode:f16")


def test_a_packed_operand_is_opaque() -> None:
    x, packed = np.ones((3, 4), np.float32), SimpleNamespace(shape=(4, 5), dtype=np.dtype(np.float32))
    call = Call(
        "linear", ((3, 4), (4, 5)), ("float32",) * 2, {}, "amx", (), None, 1e-3, 0.0, (x, packed), np.ones((3, 5)), None
    )
    (entry,) = parse("\n".join(onednn_lines(call, True, frozenset({"exec"}))))
    assert entry["memory_descriptors"][1] == Descriptor("wei", "f32", "", "opaque", "", "", "f0")
    assert (entry["exec_time"], entry["problem_desc"]) == (1.0, "3x4:4x5")
    assert not list(mkl_lines(call, True))


@pytest.mark.parametrize(
    ("kernel", "arrays", "result", "keywords", "columns"),
    [
        (
            "conv",
            (
                np.ones((2, 8, 8, 64), np.float32).transpose(0, 3, 1, 2),
                np.ones((64, 64, 3, 3), np.float32),
                np.ones(64),
            ),
            np.ones((2, 64, 4, 4), np.float32),
            {"stride": (2, 2), "padding": (1, 1), "dilation": (1, 1), "groups": 1, "precision": "bf16", "relu": True},
            (
                "convolution,minitorch:direct,forward_training,src:f32::blocked:acdb::f0 wei:f32::blocked:abcd::f0 "
                "bia:f64::blocked:a::f0 dst:f32::blocked:abcd::f0,attr-fpmath:bf16 attr-post-ops:eltwise_relu,"
                "alg:convolution_direct,mb2_ic64oc64_ih8oh4kh3sh2dh0ph1_iw8ow4kw3sw2dw0pw1"
            ),
        ),
        (
            "conv_input_gradient",
            (np.ones((2, 64, 4, 4)), np.ones((64, 32, 3, 3))),
            np.ones((2, 64, 8, 8)),
            {"stride": (1, 1), "padding": (0, 0), "dilation": (2, 2), "groups": 2},
            (
                "convolution,minitorch:direct,backward_data,src:f64::blocked:abcd::f0 wei:f64::blocked:abcde::f0 "
                "bia:undef::undef::: dst:f64::blocked:abcd::f0,,"
                "alg:convolution_direct,g2mb2_ic64oc64_ih8oh4kh3sh1dh1ph0_iw8ow4kw3sw1dw1pw0"
            ),
        ),
        (
            "conv_weight_gradient",
            (np.ones((2, 64, 80)), np.ones((2, 32, 78))),
            np.ones((32, 64, 3)),
            {"stride": (1,), "padding": (0,), "dilation": (1,), "groups": 1},
            (
                "convolution,minitorch:direct,backward_weights,src:f64::blocked:abc::f0 wei:f64::blocked:abc::f0 "
                "bia:undef::undef::: dst:f64::blocked:abc::f0,,"
                "alg:convolution_direct,mb2_ic64oc32_iw80ow78kw3sw1dw0pw0"
            ),
        ),
    ],
)
def test_columns_of_a_convolution(
    kernel: str, arrays: tuple, result: np.ndarray, keywords: dict[str, Any], columns: str
) -> None:
    shapes, dtypes = tuple(a.shape for a in arrays), tuple(a.dtype.name for a in arrays)
    call = Call(kernel, shapes, dtypes, keywords, "direct", (), None, 1e-3, 0.0, arrays, result, None)
    *_, line = onednn_lines(call, False, frozenset({"exec"}))
    assert line == f"onednn_verbose,v1,primitive,exec,cpu,{columns},1"


def test_off_is_silent_and_on_again_afterwards(capsys: pytest.CaptureFixture[str]) -> None:
    a = mt.ones(2, 2)
    with mkldnn.verbose(mkldnn.VERBOSE_OFF) as region:
        assert region is None
        a @ a
    assert capsys.readouterr().out == ""
    with mkldnn.verbose(1):
        a @ a
        with mkldnn.verbose(0):
            mt.ones(7, 7) @ mt.ones(7, 7)
        with mkldnn.verbose(1):
            mt.ones(8, 8) @ mt.ones(8, 8)
        mt.ones(9, 9) @ mt.ones(9, 9)
    a @ a
    problems = [entry["problem_desc"] for entry in parse(capsys.readouterr().out)]
    assert problems == ["2x2:2x2", "8x8:8x8", "9x9:9x9"]


def test_a_region_ends_with_an_exception(capsys: pytest.CaptureFixture[str]) -> None:
    for region in (mkldnn.verbose(1), mkl.verbose(1)):
        with pytest.raises(KeyError), region:
            raise KeyError
    mt.ones(2, 2) @ mt.ones(2, 2)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("verbose", "good", "bad"),
    [
        (mkl.verbose, (0, 1, 2, True), ((-1, AssertionError), ("x", TypeError), (None, TypeError))),
        (mkldnn.verbose, (0, 1, 2, True), ((3, AssertionError), (-1, AssertionError), ("x", TypeError))),
    ],
)
def test_levels_are_checked_when_a_region_is_entered(verbose: Any, good: tuple, bad: tuple) -> None:
    for level in good:
        region = verbose(level)
        with region as entered:
            assert entered is (region if level else None)
    for level, kind in bad:
        region = verbose(level)
        with pytest.raises(kind, match=r"verbose takes one of \(0, 1, 2\), got"):
            region.__enter__()


def test_keywords_are_torchs() -> None:
    with mkl.verbose(enable=0), mkldnn.verbose(level=0):
        pass
    for verbose, name in ((mkl.verbose, "level"), (mkldnn.verbose, "enable")):
        with pytest.raises(TypeError, match=name):
            verbose(**{name: 1})  # type: ignore[arg-type]


def test_a_logger_takes_the_lines(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("traces")
    a = mt.ones(3, 3)
    with caplog.at_level(logging.INFO, "traces"), mkldnn.verbose(1, logger=logger), mkl.verbose(1, logger=logger):
        a @ a
    assert capsys.readouterr().out == ""
    lines = [record.getMessage() for record in caplog.records if record.name == "traces"]
    assert [entry["problem_desc"] for entry in parse("\n".join(x for x in lines if x.startswith("onednn")))] == [
        "3x3:3x3"
    ]
    assert mkl_calls("\n".join(x for x in lines if x.startswith("MKL")))[0][0] == "SGEMM"


def test_a_region_belongs_to_a_thread_or_task(capsys: pytest.CaptureFixture[str]) -> None:
    a = mt.ones(2, 2)
    with mkldnn.verbose(1):
        thread = threading.Thread(target=lambda: a @ a)
        thread.start()
        thread.join()
    assert capsys.readouterr().out == ""

    async def trace(size: int) -> None:
        with mkldnn.verbose(1):
            await asyncio.sleep(0)
            mt.ones(size, size) @ mt.ones(size, size)
            await asyncio.sleep(0)

    async def quiet() -> None:
        for _ in range(4):
            a @ a
            await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(trace(3), quiet(), trace(4))

    asyncio.run(main())
    assert sorted(e["problem_desc"] for e in parse(capsys.readouterr().out)) == ["3x3:3x3", "4x4:4x4"]


@pytest.mark.parametrize("level", ["VERBOSE_ON", "VERBOSE_ON_CREATION"])
def test_a_first_call_says_how_long_it_compiled(level: str) -> None:
    """In a process with an empty cache, the first product by a compiled kernel compiles it, and the second does not."""
    printed = python(
        "import tempfile, os\n"
        "os.environ['MINITORCH_CACHE_DIR'] = tempfile.mkdtemp()\n"
        "import minitorch_backends as mt\n"
        "a = mt.ones(20, 20)\n"
        f"with mt.backends.mkldnn.verbose(mt.backends.mkldnn.{level}), mt.explain.record() as log:\n"
        "    mt.matmul(a, a, precision='bf16'); mt.matmul(a, a, precision='bf16')\n"
        "print(log[0].implementation, log[0].seconds, log[0].compiled)\n"
    )
    *lines, last = printed.out.splitlines()
    implementation, *seconds = last.split()
    said = re.compile(
        rf"onednn_verbose,v1,info,minitorch:{implementation} was compiled or loaded in (\S+) s for this call"
    )
    notes = [float(found[1]) for line in lines if (found := said.fullmatch(line))]
    entries = parse("\n".join(lines))
    created = [entry["exec_time"] / 1e3 for entry in entries if entry["operation"] == "create:cache_miss"]
    executed = [entry["exec_time"] / 1e3 for entry in entries if entry["operation"] == "exec"]
    assert len(executed) == 2
    assert {entry["implementation"] for entry in entries} == {f"minitorch:{implementation}"}
    if implementation in ("blas", "definition"):
        assert (notes, created) == ([], [])
        return
    (compiled,) = notes if level == "VERBOSE_ON" else created
    assert (len(notes), len(created)) == ((1, 0) if level == "VERBOSE_ON" else (0, 1))
    assert compiled > 0.01
    assert [executed[0], compiled] == pytest.approx([float(each) for each in seconds], rel=1e-2)


# MKL


@pytest.mark.parametrize(
    ("a", "b", "routine", "arguments"),
    [
        (np.ones((3, 4), "f4"), np.ones((4, 5), "f4"), "SGEMM", "N,N,5,3,4,@,@,5,@,4,@,@,5"),
        (np.ones((4, 3)).T, np.ones((4, 5)), "DGEMM", "N,T,5,3,4,@,@,5,@,3,@,@,5"),
        (np.ones((3, 4), "c8"), np.ones((5, 4), "c8").T, "CGEMM", "T,N,5,3,4,@,@,4,@,4,@,@,5"),
        (np.ones((3, 9), "c16")[:, :4], np.ones((4, 5), "c16"), "ZGEMM", "N,N,5,3,4,@,@,5,@,9,@,@,5"),
        (np.ones((6, 8))[::2, ::2], np.ones((4, 5)), "DGEMM", "N,N,5,3,4,@,@,5,@,4,@,@,5"),
        (np.ones((2, 3, 4)), np.ones((4, 5)), "DGEMM_BATCH_STRIDED", "N,N,5,3,4,@,@,5,0,@,4,12,@,@,5,15,2"),
    ],
)
def test_arguments_are_those_of_blas(
    a: Any, b: Any, routine: str, arguments: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with mkl.verbose(mkl.VERBOSE_ON):
        kernel(a, b)
    ((found, given),) = mkl_calls(capsys.readouterr().out)
    assert found == routine
    assert re.sub(r"0x[0-9a-f]+", "@", ",".join(given)) == arguments
    addresses = [int(each, 16) for each in given if each.startswith("0x")]
    assert addresses[1:3] == [b.ctypes.data, a.ctypes.data]


def test_products_that_blas_has_no_routine_for_are_not_traced(capsys: pytest.CaptureFixture[str]) -> None:
    with mkl.verbose(1):
        mt.ones(2, 2, dtype=mt.int64) @ mt.ones(2, 2, dtype=mt.int64)
        mt.ones(2, 2, dtype=mt.float16) @ mt.ones(2, 2, dtype=mt.float16)
    assert capsys.readouterr().out == ""


SQUARE = np.array([[4.0, 1.0, 0.0], [1.0, 5.0, 2.0], [0.0, 2.0, 6.0]])
TWO = np.ones((3, 2))
PIVOTS = np.array([1, 2, 3], np.int32)


@pytest.mark.parametrize(
    ("kernel", "arrays", "keywords", "routine", "head"),
    [
        (kernels.cholesky, (SQUARE,), {}, "DPOTRF", ["L", "3"]),
        (kernels.cholesky, (-SQUARE,), {}, "DPOTRF", ["L", "3"]),
        (kernels.cholesky, (np.stack([SQUARE] * 4),), {}, "DPOTRF_BATCH_STRIDED", ["L", "3"]),
        (kernels.cholesky_solve, (SQUARE, TWO), {}, "DPOTRS", ["L", "3", "2"]),
        (kernels.cholesky_inverse, (SQUARE,), {}, "DPOTRI", ["L", "3"]),
        (kernels.lu_factor, (SQUARE[:2],), {}, "DGETRF", ["2", "3"]),
        (kernels.lu_solve, (SQUARE, PIVOTS, TWO), {"transpose": True}, "DGETRS", ["T", "3", "2"]),
        (kernels.solve, (SQUARE.astype("f"), TWO.astype("f")), {}, "SGESV", ["3", "2"]),
        (kernels.inv, (SQUARE.astype("F"),), {}, "CGETRI", ["3"]),
        (kernels.triangular_solve, (SQUARE, TWO), {"upper": True}, "DTRSM", ["L", "U", "N", "N", "3", "2"]),
        (kernels.qr, (SQUARE[:, :2],), {}, "DGEQRF", ["3", "2"]),
        (kernels.householder_product, (SQUARE, np.ones(3)), {}, "DORGQR", ["3", "3", "3"]),
        (kernels.eigh, (SQUARE.astype("D"),), {}, "ZHEEVD", ["V", "L", "3"]),
        (kernels.eigh, (SQUARE,), {"vectors": False}, "DSYEVD", ["N", "L", "3"]),
        (kernels.svd, (SQUARE[:2],), {"full": True}, "DGESDD", ["A", "2", "3"]),
        (kernels.eig, (SQUARE,), {}, "DGEEV", ["N", "V", "3"]),
        (kernels.lstsq, (SQUARE, TWO), {"rcond": 1e-9, "driver": "gelsd"}, "DGELSD", ["3", "3", "2"]),
        (kernels.ldl_factor, (SQUARE,), {}, "DSYTRF", ["L", "3"]),
        (kernels.ldl_solve, (SQUARE, PIVOTS, TWO), {}, "DSYTRS", ["L", "3", "2"]),
    ],
)
def test_lines_of_linear_algebra(
    kernel: Any,
    arrays: tuple,
    keywords: dict[str, Any],
    routine: str,
    head: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    with mkl.verbose(mkl.VERBOSE_ON):
        result = kernel(*arrays, prefer="lapack", **keywords)
    ((named, arguments),) = mkl_calls(capsys.readouterr().out)
    assert named == routine
    assert arguments[: len(head)] == head
    if routine != "DTRSM":
        assert int(arguments[-1]) == np.max(getattr(result, "info", 0))


def test_every_kernel_of_linear_algebra_has_a_line() -> None:
    kept = {name for name in kernels.__all__ if isinstance(getattr(kernels, name), Kernel)}
    assert kept == set(_ROUTINES)


def test_mkl_line_of_a_gradient(capsys: pytest.CaptureFixture[str]) -> None:
    w = mt.ones(4, 5, requires_grad=True)
    loss = (mt.ones(3, 4) @ w).sum()
    with mkl.verbose(1):
        loss.backward()
    assert [routine for routine, _ in mkl_calls(capsys.readouterr().out)] == ["SGEMM"]


# The environment

PRODUCT = """
import threading
import minitorch_backends as mt
a = mt.ones(3, 3)
a @ a
thread = threading.Thread(target=lambda: mt.ones(4, 4) @ mt.ones(4, 4))
thread.start(); thread.join()
with mt.backends.mkldnn.verbose(0), mt.backends.mkl.verbose(0):
    a @ a
a @ a
"""


@pytest.mark.parametrize("variable", ["ONEDNN_VERBOSE", "DNNL_VERBOSE"])
def test_onednn_variable_traces_every_thread(variable: str) -> None:
    entries = parse(python(PRODUCT, **{variable: "1"}).out)
    assert [entry["problem_desc"] for entry in entries] == ["3x3:3x3", "4x4:4x4", "3x3:3x3"]


def test_mkl_variable_traces_every_thread() -> None:
    assert [given[2:5] for _, given in mkl_calls(python(PRODUCT, MKL_VERBOSE="1").out)] == [
        ["3"] * 3,
        ["4"] * 3,
        ["3"] * 3,
    ]


@pytest.mark.parametrize("text", ["0", "none", "error,check"])
def test_variables_that_ask_for_nothing(text: str) -> None:
    assert python(PRODUCT, ONEDNN_VERBOSE=text, MKL_VERBOSE="0").out == ""


def test_dispatch_lines_have_the_sentence_of_each_refusal() -> None:
    names = ("MINITORCH_CPU_CAPABILITY", "MINITORCH_EMULATE_AMX")  # of a capped suite: both take its kernels
    capped = {name: os.environ[name] for name in names if name in os.environ}
    code = "import minitorch_backends as mt\nmt.ones(3, 3) @ mt.ones(3, 3)"
    printed = python(code, ONEDNN_VERBOSE="dispatch", **capped)
    refusals = kernel.decide(np.ones((3, 3), "f4"), np.ones((3, 3), "f4")).refusals
    lines = [line for line in printed.out.splitlines() if ",info," not in line]
    assert len(lines) == len(refusals)
    for line, (name, sentence) in zip(lines, refusals, strict=True):
        assert line.startswith("onednn_verbose,v1,primitive,create:dispatch,cpu,matmul,")
        assert line.split(",")[6] == f"minitorch:{name}"
        assert line.endswith(f",3x3:3x3,{sentence.replace(',', ';')},registry")
