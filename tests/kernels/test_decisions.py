"""The implementation that takes a call, on simulated CPUs: every machine checks all of them."""

import functools

import pytest

from ..support.cpus import CPUS, decisions

NAMES = ("portable", "zen3", "skylake_x", "zen4", "sapphire_rapids")
CHOICES = [  # kernel, shapes, dtype, keywords; the first choice on each of NAMES, or one for all
    ("matmul", "8x8 8x8", "float32", {}, "blas"),
    ("matmul", "8x8 8x8", "float64", {}, "blas"),
    ("matmul", "32x32 32x32", "float64", {}, "blas small small blas small"),
    ("matmul", "8x8 8x8", "float16", {}, "blas small small small small"),
    ("matmul", "8x8 8x8", "bfloat16", {}, "portable small small small small"),
    ("matmul", "8x8 8x8", "complex64", {}, "blas"),
    ("matmul", "8x8 8x8", "int32", {}, "definition"),
    ("matmul", "8x8 8x8", "float32", "bf16", "portable small small small small"),
    ("matmul", "8x8 8x8", "float32", "bf16x3", "portable small small small amx_small"),
    ("matmul", "64x64 64x64", "float32", {}, "blas small small blas small"),
    ("matmul", "64x64 64x64", "float32", "tf32", "portable small small small amx_small"),
    ("matmul", "48x48 48x48", "float32", "bf16x6", "portable small small small small"),
    ("matmul", "16x32x32 16x32x32", "float32", {}, "blas small small small small"),
    ("matmul", "16x32x32 16x32x32", "float32", "bf16", "portable small small avx512_bf16 amx_small"),
    ("matmul", "1024x8x8 1024x8x8", "float32", "bf16", "portable small small small amx_small"),
    ("matmul", "99x16x16 99x16x16", "float32", "tf32x3", "portable small small small small"),
    ("matmul", "1024x32x32 1024x32x32", "float32", "tf32x3", "portable small small small amx_small"),
    ("matmul", "1x8 8x8", "float32", {}, "blas"),
    ("matmul", "1x128 128x128", "float32", {}, "blas"),
    ("matmul", "128x128 128x4", "float32", {}, "blas"),
    ("matmul", "512x512 512x512", "float32", {}, "blas avx2 avx512 avx512 amx"),
    ("matmul", "512x512 512x512", "float64", {}, "blas avx2 avx512 avx512 avx512"),
    ("matmul", "512x512 512x512", "float16", {}, "blas avx2 avx512 avx512 amx"),
    ("matmul", "512x512 512x512", "bfloat16", {}, "blas avx2 avx512 avx512_bf16 amx"),
    ("matmul", "512x512 512x512", "complex64", {}, "blas"),
    ("matmul", "512x512 512x512", "int32", {}, "integer"),
    ("matmul", "512x512 512x512", "float32", "tf32", "blas avx2 avx512 avx512 amx"),
    ("matmul", "512x512 512x512", "float32", "bf16", "blas avx2 avx512 avx512_bf16 amx"),
    ("matmul", "512x512 512x512", "float32", "bf16x3", "portable avx2 avx512 avx512_bf16 amx"),
    ("matmul", "512x512 512x512", "float32", "tf32x3", "portable avx2 avx512 avx512 amx"),
    ("matmul", "600x500 500x60", "float32", {}, "blas avx2 avx512 avx512 avx512"),
    ("matmul", "1x1024 1024x1024", "float32", {}, "blas rows rows rows rows"),
    ("matmul", "8x1024 1024x1024", "float32", "tf32", "portable rows rows rows rows"),
    ("matmul", "9x1024 1024x1024", "float32", "tf32", "portable rows rows rows amx"),
    ("matmul", "8x1024 1024x1024", "bfloat16", {}, "portable rows rows rows amx"),
    ("matmul", "8x1024 1024x1024", "float32", "bf16x3", "portable avx2 rows rows amx"),
    ("matmul", "1024x1024 1024x8", "float32", "bf16x3", "portable avx2 rows rows amx"),
    ("matmul", "16x8192 8192x16", "float32", "bf16", "portable split_k split_k split_k split_k"),
    ("matmul", "64x4096 4096x64", "float32", {}, "blas split_k split_k split_k split_k"),
    ("matmul", "64x4096 4096x64", "float32", "tf32", "blas split_k split_k split_k amx"),
    ("matmul", "64x4096 4096x64", "float32", "bf16", "blas split_k split_k split_k amx"),
    ("matmul", "64x4096 4096x64", "float32", "bf16x3", "portable split_k split_k split_k amx"),
    ("conv", "8x64x56x56 64x64x3x3", "float32", {"padding": [1, 1]}, "explicit implicit implicit implicit direct"),
    ("conv", "8x64x56x56 64x64x3x3", "float32", "bf16", "explicit implicit implicit implicit direct"),
    ("conv", "8x3x224x224 64x3x7x7", "float32", {"stride": [2, 2]}, "explicit implicit implicit implicit implicit"),
    ("conv", "8x3x224x224 64x3x7x7", "float32", "bf16", "explicit implicit implicit implicit direct"),
    ("conv", "8x96x28x28 96x1x3x3", "float32", {"groups": 96}, "explicit depthwise depthwise depthwise depthwise"),
    ("linear", "32x1024 1024x1024", "float32", "bf16", "packed"),
    ("attention", "2x8x256x64 2x8x256x64 2x8x256x64", "float32", {}, "flash"),
]  # fmt: skip
SPLIT_K = [  # shapes, dtype, precision; what the refusal says, None where the call is taken; beside bf16 parts
    ("64x4096 4096x64", "float32", "ieee", None),
    ("2x32x4096 4096x64", "float32", "bf16x3", None, "2,304 numbers"),
    ("12x257 257x8", "float32", "tf32", None, "24,672 products to tiles"),
    ("12x257 257x8", "float32", "ieee", "24,672 products to BLAS"),
    ("12x256 256x8", "float32", "tf32", "depth from 257 on"),
    ("8x4096 4096x64", "float32", "tf32", None),
    ("7x4096 4096x16", "float32", "tf32", "8 to 128 rows"),
    ("64x4096 4096x7", "float32", "tf32", "rows and columns"),
    ("8x4096 4096x65", "float32", "tf32", "8 columns for each row"),
    ("128x4096 4096x128", "float32", "tf32", "10,000 numbers", "2,304 numbers"),
    ("129x4096 4096x8", "float32", "tf32", "8 to 128 rows and columns"),
    ("2x64x4096 2x4096x64", "float32", "tf32", "no batches"),
    ("64x4096 4096x64", "complex64", "tf32", "no loops for complex64"),
    ("16x8192 8192x16", "float32", "bf16", None),
    ("32x4096 4096x32", "float32", "bf16", None, "256 numbers"),
]
SPLIT_K_CALLS = [
    (kernel, shapes, dtype, precision) for kernel in ("matmul", "addmm") for shapes, dtype, precision, *_ in SPLIT_K
]


def call(kernel, shapes, dtype, keywords):
    keywords = {"precision": keywords} if isinstance(keywords, str) else keywords
    return kernel, [[int(size) for size in shape.split("x")] for shape in shapes.split()], dtype, keywords


@functools.cache
def by_threads(name):
    """The decisions of the CPU `name` on all calls of this file, by the number of threads."""
    calls = [call(*row[:4]) for row in CHOICES] + [call(*row) for row in SPLIT_K_CALLS]
    return decisions(name, calls, (1, 2, 64))


def decide(name):
    return by_threads(name)[2]


def test_what_is_chosen():
    for place, name in enumerate(NAMES):
        for row, (candidates, _) in zip(CHOICES, decide(name)[: len(CHOICES)], strict=True):
            expected = row[4].split()
            assert candidates[0] == expected[place if len(expected) > 1 else 0], (name, *row[:4])


def test_zen5_chooses_as_zen4_but_for_parts_of_k_beside_pairs():
    calls = [*(row[1:4] for row in CHOICES), *(row[1:] for row in SPLIT_K_CALLS)]
    both = zip(calls, decide("zen5"), decide("zen4"), strict=True)
    differ = [row for row, (first, _), (second, _) in both if first[0] != second[0]]
    assert {row[0] for row in differ} == {"64x4096 4096x64", "2x32x4096 4096x64", "32x4096 4096x32"}
    assert {row[2] for row in differ} == {"bf16", "bf16x3"}


@pytest.mark.parametrize("name", ["zen4", "sapphire_rapids"])
def test_the_number_of_threads_changes_no_choice(name):
    """Another implementation might give other bits."""
    for threads in (1, 64):
        assert by_threads(name)[threads] == decide(name), threads


@pytest.mark.parametrize("name", [name for name in CPUS if name != "portable"])
def test_refusals_of_parts_of_k(name):
    rows = zip(2 * SPLIT_K, decide(name)[len(CHOICES) :], strict=True)
    parts = {"sapphire_rapids": ("tf32", "bf16", "bf16x3"), "zen5": ("bf16", "bf16x3")}
    for (shapes, dtype, precision, *reasons), (_, refusals) in rows:
        reason = reasons[-1 if precision in parts.get(name, ()) else 0]
        refusal = refusals.get("split_k")
        assert refusal is None if reason is None else reason in refusal, (shapes, dtype, precision)


def test_pairs_are_left_to_vectors_where_they_are_slow():
    """Intel's CPUs with AMX begin VDPBF16PS a quarter as often as a fused multiply-add."""
    place = [row[:4] for row in CHOICES].index(("matmul", "512x512 512x512", "float32", "bf16"))
    sentences = {name: decide(name)[place][1].get("avx512_bf16") for name in NAMES}
    assert "needs avx512_bf16, and the CPU capability in force is avx512" in sentences["skylake_x"]
    assert sentences["zen4"] is None
    assert "leaves products to" in sentences["sapphire_rapids"]


def test_a_small_row_is_left_to_blas():
    place = [row[:4] for row in CHOICES].index(("matmul", "1x128 128x128", "float32", {}))
    sentence = "leaves [1, 128] @ [128, 128] to BLAS, which need not pack"
    assert decide("zen3")[place][1]["small"] == sentence
    assert decide("zen4")[place][1]["small"] == "leaves one product of 16,384 products to BLAS; faster from 800,000"
