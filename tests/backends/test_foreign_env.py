"""Environment variables of other libraries: what each text sets, and what is refused."""

import json

import pytest

from minitorch_backends.backends.foreign_env import MEANINGS
from minitorch_backends.flags import rows
from minitorch_backends.kernels.runtime import cpu

from ..support.processes import python

READ = """
import json
from minitorch_backends import backends as b, explain
from minitorch_backends.flags import set_by
print(json.dumps([b.snapshot().as_dict(), set_by, explain.precision_of("matmul"), b.cpu.get_cpu_capability()]))
"""


def read(**environment: str) -> list:
    printed = python(READ, **environment)
    assert printed.out, printed.error
    return json.loads(printed.out)


def test_every_meaning_is_a_flag_and_a_legal_value() -> None:
    for texts in MEANINGS.values():
        for values in texts.values():
            for path, value in values.items():
                assert rows[path].validate(value) is not None


def test_torch_and_nvidia() -> None:
    stored, set_by, matmul, _ = read(
        TORCH_ALLOW_TF32_CUBLAS_OVERRIDE="1",
        NVIDIA_TF32_OVERRIDE="0",
        TORCH_LINALG_PREFER_HIPSOLVER="1",
        TORCH_BLAS_PREFER_CUBLASLT="1",
        TORCH_ROCM_FA_PREFER_CK="0",
    )
    assert stored == {
        "cuda.matmul.fp32_precision": "tf32",
        "cuda.tf32_veto": True,
        "cuda.linalg_library": "cusolver",
        "cuda.blas_library": "cublaslt",
    }
    assert set_by["cuda.matmul.fp32_precision"] == "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1"
    assert matmul[0] == "ieee"
    assert matmul[1].startswith("cuda.tf32_veto = True vetoes cuda.matmul.fp32_precision = 'tf32'; no other flag")


def test_a_veto_leaves_the_other_families_alone() -> None:
    _, _, matmul, _ = read(NVIDIA_TF32_OVERRIDE="0", MINITORCH_FP32_PRECISION="tf32")
    assert matmul == ["tf32", "fp32_precision = 'tf32', inherited by mkldnn.matmul.fp32_precision"]


@pytest.mark.parametrize(
    ("text", "precision"),
    [
        ("fastest", "bf16"),
        ("bfloat16_3x", "bf16x3"),
        ("tensorfloat32", "bf16x3"),
        ("highest", "bf16x6"),
        ("TF32_TF32_F32_X3", "tf32x3"),
        ("BF16_BF16_F32_X9", "bf16x9"),
        ("F32_F32_F32", "ieee"),
    ],
)
def test_jax(text: str, precision: str) -> None:
    assert read(JAX_DEFAULT_MATMUL_PRECISION=text)[2][0] == precision


def test_own_variables_win() -> None:
    stored, set_by, _, _ = read(
        TORCH_ALLOW_TF32_CUBLAS_OVERRIDE="1",
        MINITORCH_CUDA_MATMUL_FP32_PRECISION="ieee",
        MINITORCH_CUDNN_BENCHMARK_LIMIT="none",
        MINITORCH_CUDA_CUFFT_PLAN_CACHE_MAX_SIZE=" 12 ",
        MINITORCH_EMULATE="",
    )
    assert stored == {
        "cuda.matmul.fp32_precision": "ieee",
        "cudnn.benchmark_limit": None,
        "cuda.cufft_plan_cache.max_size": 12,
    }
    assert set_by["cuda.matmul.fp32_precision"] == "MINITORCH_CUDA_MATMUL_FP32_PRECISION=ieee"


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "true", "expected one of '1', '0'"),
        ("NVIDIA_TF32_OVERRIDE", "2", "expected one of '0', '1'"),
        ("JAX_DEFAULT_MATMUL_PRECISION", "highset", "did you mean 'highest'"),
        ("MINITORCH_CUDNN_ENABLED", "yes", "cudnn.enabled takes one of True, False, got 'yes'"),
        ("MINITORCH_CUDNN_BENCHMARK_LIMIT", "-1", "None or an integer >= 0"),
        ("MINITORCH_OPT_EINSUM_STRATEGY", "greedi", "did you mean 'greedy'"),
        ("MINITORCH_CUDA_SDP_PRIORITY", "flash", "flash, efficient, math, cudnn in any order"),
        ("MKL_VERBOSE", "on", "expected 0, 1 or 2"),
        ("ONEDNN_VERBOSE", "profile,exce", "expected some of"),
        ("DNNL_VERBOSE", "3", "expected some of"),
    ],
)
def test_a_text_that_is_not_understood_is_an_error_with_the_variable(variable: str, text: str, message: str) -> None:
    error = python("import minitorch_backends", **{variable: text}).error
    assert f"ValueError: the environment variable {variable}={text!r} is not understood" in error
    assert message in error


@pytest.mark.parametrize(("text", "level"), [("default", "portable"), ("avx2", "avx2"), ("avx512", "avx512")])
def test_torch_caps_the_cpu(text: str, level: str) -> None:
    names = {"portable": "DEFAULT", "avx2": "AVX2", "avx512": "AVX512"}
    assert read(ATEN_CPU_CAPABILITY=text)[3] == names[min(level, cpu.hardware(), key=cpu.LEVELS.index)]


def test_the_own_cap_wins() -> None:
    assert read(ATEN_CPU_CAPABILITY="avx512", MINITORCH_CPU_CAPABILITY="portable")[3] == "DEFAULT"


def test_an_unknown_cap_of_torchs_is_an_error() -> None:
    code = "from minitorch_backends import backends as b; b.cpu.get_cpu_capability()"
    assert "ATEN_CPU_CAPABILITY='avx3' is not a CPU capability" in python(code, ATEN_CPU_CAPABILITY="avx3").error


def test_importing_asks_for_no_instructions() -> None:
    """The capability is read by the first kernel, so that a program may set the variable after its imports."""
    code = (
        "import minitorch_backends\nfrom minitorch_backends.kernels.runtime import cpu\n"
        "print(cpu.capability.cache_info().currsize, cpu.hardware.cache_info().currsize)"
    )
    assert python(code).out.split() == ["0", "0"]
