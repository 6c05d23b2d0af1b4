"""Functions and objects of torch's that stand in front of flags: what they return, refuse, and put back."""

import pickle
import threading
from typing import Any

import pytest

import minitorch_backends as mt
from minitorch_backends import backends, explain
from minitorch_backends.backends import libraries
from minitorch_backends.flags import rows
from minitorch_backends.kernels.runtime.plan_cache import PlanCache
from minitorch_backends.nn.attention import SDPBackend, sdpa_kernel

from ..support.counting import functions_called

cuda = backends.cuda


pytestmark = pytest.mark.usefixtures("default_flags")


# Setting several flags at once


def test_set_flags_returns_what_was() -> None:
    """The values of a fresh process, in torch's order, then ours; `mkldnn.allow_tf32` is a departure."""
    assert backends.cudnn.set_flags() == (True, False, None, False, True, "none", "auto")
    assert backends.mkldnn.set_flags() == (True, False, False, "none")
    assert backends.set_flags() == ("none",)
    assert backends.miopen.set_flags() == (False,)
    assert backends.nnpack.set_flags(False) == (True,)
    assert backends.opt_einsum.set_flags() == (True, "auto", None, 100)
    assert backends.nnpack.set_flags(True) == (False,)


def test_set_flags_sets_what_is_given_by_name_or_place() -> None:
    before = backends.cudnn.set_flags(False, None, 3, _depthwise_kernel="native")
    assert before == (True, False, None, False, True, "none", "auto")
    assert backends.cudnn.set_flags() == (False, False, 3, False, True, "none", "native")
    backends.cudnn.set_flags(*before)
    assert backends.cudnn.set_flags()[:2] == (True, False)
    assert backends.set_flags("tf32") == ("none",)
    assert backends.set_flags(None) == ("tf32",)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: backends.cudnn.set_flags(enabled=True), "leading underscore, _enabled"),
        (lambda: backends.cudnn.set_flags(_bogus=True), r"set_flags\(\): unexpected name 'bogus'"),
        (lambda: backends.cudnn.set_flags(True, _enabled=True), "two values for 'enabled'"),
        (lambda: backends.miopen.set_flags(True, True), "at most 1 values, for immediate, got 2"),
        (lambda: backends.cudnn.flags(False, enabled=True), "two values for 'enabled'"),
        (backends.nnpack.set_flags, "_enabled"),
    ],
)
def test_set_flags_refuses_other_names(call: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()


def test_set_flags_sets_all_or_nothing() -> None:
    with pytest.raises(RuntimeError, match=r"cudnn\.benchmark"):
        backends.cudnn.set_flags(_enabled=False, _benchmark=1)
    assert backends.cudnn.enabled is True


def test_flags_take_values_by_place() -> None:
    with backends.flags("tf32"), backends.cudnn.flags(False, True):
        assert (backends.fp32_precision, backends.cudnn.enabled, backends.cudnn.benchmark) == ("tf32", False, True)
    assert backends.cudnn.enabled is True


# Reductions of half products


@pytest.mark.parametrize("kind", ["fp16", "bf16"])
def test_reduced_precision_reduction_is_a_pair(kind: str) -> None:
    name = f"allow_{kind}_reduced_precision_reduction"
    for given, expected in (
        (False, (False, True)),
        ((False, False), (False, False)),
        (True, (True, True)),
        ([False, True], (False, True)),
        ((True,), (True, True)),
    ):
        setattr(cuda.matmul, name, given)
        assert (getattr(cuda.matmul, name), getattr(cuda.matmul, f"{name}_split_k")) == expected
    with pytest.raises(AttributeError, match="split_k cannot be set"):
        setattr(cuda.matmul, f"{name}_split_k", True)


# Precisions of convolutions


def test_conv_defaults_permit_nothing_until_a_gpu_is_emulated() -> None:
    assert (backends.cudnn.conv.fp32_precision, backends.cudnn.allow_tf32) == ("tf32", True)
    assert explain.precision_of("conv").precision == "ieee"
    found = {}
    for family in ("cuda", "mkldnn", "xla"):
        with backends.flags(emulate=family):
            found[family] = [explain.precision_of(kind).precision for kind in ("matmul", "conv", "rnn")]
    assert found == {"cuda": ["ieee", "tf32", "tf32"], "mkldnn": ["ieee"] * 3, "xla": ["bf16"] * 3}
    with backends.flags(emulate="cuda"), backends.cudnn.flags(allow_tf32=False):
        assert explain.precision_of("conv").precision == "ieee"
    with backends.cudnn.flags(allow_tf32=True):
        assert explain.precision_of("conv") == ("tf32", "cudnn.conv.fp32_precision = 'tf32'")
        assert explain.precision_of("matmul").precision == "ieee"


def test_a_disabled_family_has_no_say_and_it_is_told() -> None:
    backends.mkldnn.conv.fp32_precision = "bf16"
    assert explain.precision_of("conv").precision == "bf16"
    backends.mkldnn.enabled = False
    choice = explain.precision_of("conv")
    assert choice.precision == "ieee"
    assert choice.decided_by.startswith("mkldnn.enabled = False vetoes mkldnn.conv.fp32_precision = 'bf16'; no other")


# Attention

ENABLED = (cuda.flash_sdp_enabled, cuda.mem_efficient_sdp_enabled, cuda.math_sdp_enabled, cuda.cudnn_sdp_enabled)
ENABLE = (cuda.enable_flash_sdp, cuda.enable_mem_efficient_sdp, cuda.enable_math_sdp, cuda.enable_cudnn_sdp)


def is_enabled() -> tuple[bool, ...]:
    return tuple(function() for function in ENABLED)


def test_kernels_of_attention_are_switched() -> None:
    for index, function in enumerate(ENABLE):
        function(False)
        assert is_enabled() == tuple(each != index for each in range(4))
        with pytest.raises(RuntimeError, match="takes one of True, False, got 1"):
            function(1)  # type: ignore[arg-type]
        function(enabled=True)
    assert cuda.fp16_bf16_reduction_math_sdp_allowed() is False
    cuda.allow_fp16_bf16_reduction_math_sdp(True)
    assert cuda.fp16_bf16_reduction_math_sdp_allowed() is True


def test_sdp_kernel_is_a_deprecated_scope() -> None:
    with pytest.warns(FutureWarning, match="sdp_kernel"):
        scope = cuda.sdp_kernel(enable_math=False, enable_cudnn=0)  # type: ignore[arg-type]
    assert is_enabled() == (True,) * 4
    with pytest.raises(KeyError), scope:
        _fail_where(is_enabled() == (True, True, False, False))
    assert is_enabled() == (True,) * 4
    with pytest.raises(TypeError, match="enable_bogus"):
        cuda.sdp_kernel(enable_bogus=False)  # type: ignore[call-arg]


def _fail_where(expected: bool) -> None:
    if expected:
        raise KeyError


def test_sdpa_kernel_allows_the_ones_that_are_named() -> None:
    flash, math = SDPBackend.FLASH_ATTENTION, SDPBackend.MATH
    for backends_, expected in (
        (flash, (True, False, False, False)),
        ([math, flash, math], (True, False, True, False)),
        ([], (False,) * 4),
        ([SDPBackend.OVERRIDEABLE], (False,) * 4),
        ([SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION], (False, True, False, True)),
    ):
        with sdpa_kernel(backends_) as entered:  # type: ignore[arg-type]
            assert entered == {}
            assert is_enabled() == expected
            with sdpa_kernel(math):
                assert is_enabled() == (False, False, True, False)
            assert is_enabled() == expected
        assert is_enabled() == (True,) * 4
    for bad in ((flash, math), "math", None, 1):
        with pytest.raises(AssertionError, match="must be an SDPBackend or a list of them"):
            sdpa_kernel(bad)  # type: ignore[arg-type]


def test_sdpa_kernel_decorates_and_orders() -> None:
    @sdpa_kernel([SDPBackend.MATH, SDPBackend.CUDNN_ATTENTION], set_priority=True)
    def inside() -> tuple[Any, str]:
        return is_enabled(), cuda.sdp_priority

    for _ in range(2):
        assert inside() == ((False, False, True, True), "math,cudnn,flash,efficient")
    assert (is_enabled(), cuda.sdp_priority) == ((True,) * 4, "flash,efficient,math,cudnn")


def test_questions_about_attention() -> None:
    q = mt.ones(1, 2, 3, 4)
    params = cuda.SDPAParams(q, q, q, None, 0.0, False, False)
    assert params.query is q
    with pytest.raises(AttributeError):
        params.dropout = 1.0  # type: ignore[misc]
    with pytest.raises(TypeError):
        cuda.SDPAParams(q, q, q)  # type: ignore[call-arg]
    for question in (cuda.can_use_flash_attention, cuda.can_use_efficient_attention, cuda.can_use_cudnn_attention):
        for bad in (None, "x", (q, q, q, None, 0.0, False, False)):
            with pytest.raises(TypeError, match="must be SDPAParams"):
                question(bad)
    assert cuda.can_use_cudnn_attention(params) is False
    with pytest.warns(UserWarning, match="cudnn attention is not used: this engine does not have the kernel"):
        assert cuda.can_use_cudnn_attention(params, debug=True) is False
    refused = cuda.SDPAParams(q, q, q, q, 0.0, False, False)
    with pytest.warns(UserWarning, match="flash attention is not used: .* non-null attn_mask"):
        assert cuda.can_use_flash_attention(refused, debug=True) is False


def test_sdp_backends_are_torchs() -> None:
    assert {member.name: member.value for member in SDPBackend} == {
        "ERROR": -1,
        "MATH": 0,
        "FLASH_ATTENTION": 1,
        "EFFICIENT_ATTENTION": 2,
        "CUDNN_ATTENTION": 3,
        "OVERRIDEABLE": 4,
    }
    assert SDPBackend is cuda.SDPBackend
    assert SDPBackend(1) is SDPBackend.FLASH_ATTENTION
    assert int(SDPBackend.CUDNN_ATTENTION) == 3
    assert SDPBackend.MATH != 0
    assert hash(SDPBackend(7)) == hash(SDPBackend(7))
    assert SDPBackend(7) == SDPBackend(7) != SDPBackend(8)
    for bad in ("MATH", None, 1.5):
        with pytest.raises(TypeError, match="must be an int, got"):
            SDPBackend(bad)
    with pytest.raises(TypeError):
        sorted(SDPBackend)  # type: ignore[type-var]
    assert pickle.loads(pickle.dumps(SDPBackend.MATH)) is SDPBackend.MATH


# Libraries


def test_preferences_answer_with_enumerations() -> None:
    for function, enumeration in (
        (cuda.preferred_linalg_library, libraries.LinalgBackend),
        (cuda.preferred_rocm_fa_library, libraries.ROCmFABackend),
    ):
        assert function() is enumeration.Default
        for member in enumeration:
            assert function(member) is function(member.name.lower()) is function() is member
    assert cuda.preferred_blas_library() is libraries.BlasBackend.Cublas
    assert cuda.preferred_blas_library("hipblaslt") is libraries.BlasBackend.Cublaslt
    assert cuda.preferred_blas_library("default") is libraries.BlasBackend.Cublas


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (cuda.preferred_linalg_library, RuntimeError),
        (cuda.preferred_blas_library, RuntimeError),
        (cuda.preferred_rocm_fa_library, ValueError),
    ],
)
def test_preferences_refuse_and_keep(function: Any, kind: type[Exception]) -> None:
    before = function()
    with pytest.raises(RuntimeError, match="'bogus' is unknown; expected one of 'default'"):
        function("bogus")
    with pytest.raises(RuntimeError, match="unknown"):
        function("Default")
    with pytest.raises(kind, match="got 1 of type int"):
        function(1)
    assert function() is before


# Determinism, multi-head attention, dialects


def test_deterministic_algorithms() -> None:
    assert (mt.are_deterministic_algorithms_enabled(), mt.get_deterministic_debug_mode()) == (False, 0)
    mt.use_deterministic_algorithms(True)
    assert mt.are_deterministic_algorithms_enabled()
    assert (mt.is_deterministic_algorithms_warn_only_enabled(), mt.get_deterministic_debug_mode()) == (False, 2)
    mt.use_deterministic_algorithms(True, warn_only=True)
    assert (mt.is_deterministic_algorithms_warn_only_enabled(), mt.get_deterministic_debug_mode()) == (True, 1)
    for mode, number in (("default", 0), ("warn", 1), ("error", 2), (0, 0), (1, 1), (2, 2)):
        mt.set_deterministic_debug_mode(mode)
        assert mt.get_deterministic_debug_mode() == number
    refused: list[tuple[Any, type[Exception]]] = [("bogus", RuntimeError), (3, RuntimeError)]
    refused += [(value, TypeError) for value in (1.0, True, None)]
    for bad, kind in refused:
        with pytest.raises(kind, match="debug_mode must be"):
            mt.set_deterministic_debug_mode(bad)
    for bad in (1, None, "x"):
        with pytest.raises(TypeError, match="must be True or False"):
            mt.use_deterministic_algorithms(bad)  # type: ignore[arg-type]


def test_fast_path_of_multi_head_attention() -> None:
    assert backends.mha.get_fastpath_enabled() is True
    backends.mha.set_fastpath_enabled(False)
    assert backends.mha.get_fastpath_enabled() is False


def test_dialects_are_switched_and_named() -> None:
    native = backends.python_native
    assert (native.available_dsls, native.all_dsls) == ([], ["cutedsl", "triton"])
    triton = native.triton
    assert (triton.name, triton.available, triton.version, triton.enabled) == ("triton", False, None, True)
    triton.disable()
    assert (triton.enabled, native.is_dsl_disabled("triton"), native.is_dsl_disabled("cutedsl")) == (False, True, False)
    triton.enable()
    with triton.disabled() as entered:
        assert (entered, triton.enabled) == (None, False)
    assert triton.enabled is True
    for name in ("name", "available", "bogus"):
        with pytest.raises(AttributeError, match=name):
            setattr(triton, name, 1)
    assert native.is_dsl_disabled("bogus") is False
    assert native.get_dsl_operations("bogus") == []


def test_operations_of_dialects_are_noted() -> None:
    native = backends.python_native
    native.disable_operations("a")
    with native.operations_disabled("a", "b"):
        assert native.is_operation_disabled("a")
        assert native.is_operation_disabled("b")
    assert (native.is_operation_disabled("a"), native.is_operation_disabled("b")) == (True, False)
    native.enable_operations("a", "bogus")
    assert not native.is_operation_disabled("a")
    native.disable_dispatch_keys("CPU")
    native.enable_dispatch_keys("CPU")


# The environment, plans, time


@pytest.mark.parametrize("path", list(rows))
def test_every_value_can_be_written_in_an_environment_variable(path: str) -> None:
    for value in rows[path].choices.examples:
        assert rows[path].parse(f" {value} ") == value


def test_plans_are_kept_under_threads() -> None:
    cache, wrong = PlanCache(), []

    def work(seed: int) -> None:
        for step in range(300):
            key = (seed * 7 + step * 3) % 11
            if cache.get(key, lambda key=key: f"plan {key}", 5) != f"plan {key}":
                wrong.append(key)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert cache.size == 5
    assert cache.hits + cache.misses == 1800


def test_flags_cost_little() -> None:
    """Resolved flags are only looked up; entering and leaving a scope takes some twenty calls."""

    def scope() -> None:
        with backends.flags(fp32_precision="tf32"):
            pass

    def scope_of_a_family() -> None:
        with backends.cudnn.flags(enabled=True):
            pass

    for work in (scope, scope_of_a_family):
        work()
        assert 0 < len(functions_called(work)) <= 24
    assert cuda.matmul.fp32_precision == "none"
    again = functions_called(lambda: cuda.matmul.fp32_precision)
    assert "ContextVar.get" in again
    assert len(again) <= 3
