"""Profiles measured from products: of NumPy and of this engine, saved, loaded by name, and by the command."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import cli
from minitorch_backends.backends.precision_policy import resolve
from minitorch_backends.kernels.matrix_units import definition, multiply, probes
from minitorch_backends.profiles import PROFILES, Aligned, Chain, Format, Halves, Lanes, Profile, load, measure, save


@pytest.fixture(autouse=True)
def _no_profile_stays() -> Any:
    before = dict(PROFILES)
    yield
    PROFILES.clear()
    PROFILES.update(before)


def unit(rule: Any, format: str) -> Any:
    """A device as a function of matrices."""

    def product(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Any:
        if c.dtype == np.float16 and format == "bf16":
            raise NotImplementedError
        row = Profile("unit", {format: (Format(rule),)})
        return np.diag(mt.profiles.mma(a, b.T, np.diag(c), profile=row, format=format, result=c.dtype.name).numpy())

    return product


def test_products_are_what_their_measured_rule_says() -> None:
    """On 10,000 dot products, of sums that start anew, in the order that is the same on every CPU."""
    with mt.backends.flags(invariant="isa"):
        way = measure(lambda a, b, c: mt.from_numpy(a) @ mt.from_numpy(b) + mt.from_numpy(c), ["fp32"]).format("fp32")
        random = np.random.default_rng(0)
        a, b = random.standard_normal((100, 700), np.float32), random.standard_normal((700, 100), np.float32)
        wanted = (mt.from_numpy(a) @ mt.from_numpy(b)).numpy()
    assert way.rule == Chain(fused=False)
    assert way.evidence == "measured"
    assert way.findings[0].startswith("all answers are the rule's (order 560, ")
    assert np.array_equal(multiply(way.rule, "fp32", a, b, promote=way.promote_every), wanted)


def test_a_loaded_profile_computes_as_what_was_measured(tmp_path: Path) -> None:
    rule = Halves(Aligned(22, 8, (-133, -21)))
    found = measure(unit(rule, "e4m3"), ["e4m3"], "mine")
    assert found.format("e4m3").rule == rule
    save(found, tmp_path / "mine.json")
    assert load(tmp_path / "mine.json") == found
    assert load(tmp_path / "mine.json", "other").name == "other"
    x, w = mt.randn(30, 80), mt.randn(80, 20)
    results = []
    for profile in ("mine", "other", "h100"):
        with mt.backends.flags(profile=profile, fp32_precision="e4m3"):
            results.append((x @ w).numpy().tobytes())
    assert results[0] == results[1] != results[2]


@pytest.mark.parametrize(
    ("restart", "depths", "inside", "outside"),
    [
        (lambda k: -(-k // 2) if k > 200 else 0, (1, 193, 1), (192, 3), 208),  # one large block, or two equal ones
        (lambda k: k - k % 16 if k % 16 else 0, (16, 2065, 16), (768,), 100),  # a tail
        (lambda k: 8 if k < 40 else 0, (48, 2065, 1), (100, 2000), 32),
        (lambda k: 256, (1, 2065, 1), (1, 777), 4096),
    ],
)
def test_a_rule_holds_for_its_depths(restart: Any, depths: tuple, inside: tuple, outside: int, tmp_path: Path) -> None:
    """Libraries choose blocks by K. A profile warns where its rule was not shown, after saving and loading too."""

    def product(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        return multiply(Chain(), "fp32", a, b, promote=restart(a.shape[1])) + c

    way = measure(product, ["fp32"]).format("fp32")
    assert way.rule == Chain()
    assert way.depths == depths
    save(Profile("mine", {"tf32": (way,)}), tmp_path / "mine.json")
    assert load(tmp_path / "mine.json").format("tf32").depths == depths
    with mt.backends.flags(profile="mine", fp32_precision="tf32"), warnings.catch_warnings():
        warnings.simplefilter("error")
        for k in inside:
            mt.ones(2, k) @ mt.ones(k, 2)
        unit = resolve("matmul", np.dtype(np.float32)).keywords["unit"]
        assert f"by measured for K of {range(*depths)!r}" in repr(unit)
        message = rf"'mine': .*measured for K = {depths[0]} to .*, not {outside};"
        with pytest.warns(UserWarning, match=message) as found:
            mt.ones(2, outside) @ mt.ones(outside, 2)
        assert found[0].filename == __file__


@pytest.mark.parametrize(("rule", "halve_to"), [(Chain(), 8), (Chain(), -1), (Lanes(2, unroll=4), 1)])
def test_halves_of_k_are_found_and_act_on_float32(rule: Any, halve_to: int, tmp_path: Path) -> None:
    """As OpenBLAS and MKL cut K: to its bits in products of float32 at ieee, as no other profile has them."""

    def product(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        return multiply(rule, "fp32", a, b, promote=192, halve_to=halve_to) + c

    found = measure(product, ["fp32"], "mine")
    way = found.format("fp32")
    assert (way.rule, way.promote_every, way.halve_to, way.depths) == (rule, 192, halve_to, (1, 2065, 1))
    save(found, tmp_path / "mine.json")
    assert load(tmp_path / "mine.json") == found
    random = np.random.default_rng(0)
    for k in (243, 383, 829):
        a, b = random.standard_normal((30, k), np.float32), random.standard_normal((k, 20), np.float32)
        wanted = product(a, b, np.float32(0))
        with mt.backends.flags(profile="mine"):
            np.testing.assert_array_equal(mt.from_numpy(a) @ mt.from_numpy(b), wanted)
            assert (mt.from_numpy(a).double() @ mt.from_numpy(b).double()).dtype == mt.float64
        rows = np.repeat(a, 20, 0), np.tile(b.T, (30, 1)), np.zeros(600)
        exact = definition(rule, "fp32", *rows, promote=192, halve_to=halve_to)
        np.testing.assert_array_equal(exact, wanted.ravel())


def test_orders_that_depend_on_the_place_are_found_by_place() -> None:
    """OpenBLAS by AVX2 is such a product: it adds some rows and columns in two lanes, and the others in one."""

    def product(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        parts = multiply(Lanes(2), "fp32", a[:40], b), multiply(Chain(), "fp32", a[40:], b)
        return np.concatenate(parts) + c

    with pytest.raises(ValueError, match=r"one order, got other bits at 40 than at 0 .*; pass places=range\(0, 40\)"):
        measure(product, ["fp32"])
    found = [measure(product, ["fp32"], places=places).format("fp32") for places in (range(40), [*range(40, 64)])]
    assert [(way.rule, way.depths) for way in found] == [(Lanes(2), (1, 2065, 1)), (Chain(), (1, 2065, 1))]


def test_a_profile_that_replaces_another_one_acts() -> None:
    x, w = mt.randn(30, 64), mt.randn(64, 20)
    results = []
    for device in ("a100", "h100"):
        mt.profiles.add(PROFILES[device]._replace(name="mine"))
        with mt.backends.flags(fp32_precision="bf16"):
            for name in ("mine", device):
                with mt.backends.flags(profile=name):
                    results.append((x @ w).numpy().tobytes())
    assert results[0] == results[1] != results[2] == results[3]


def test_results_in_bfloat16_show_the_rule_too() -> None:
    def product(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Any:
        return unit(Chain((1, 0), flushes=True), "bf16")(a, b, np.zeros_like(c)).astype(a.dtype)

    assert measure(product, ["bf16"]).format("bf16").rule == Chain((1, 0), flushes=True)


def test_products_that_take_and_return_float16(tmp_path: Path) -> None:
    """NumPy adds them in float32, in order, on every CPU; the profile is saved and loaded with its rule."""
    found = measure(lambda a, b, c: a @ b, ["fp16"], "mine")
    way = found.format("fp16")
    assert way.rule == Chain()
    assert "sums are made in float32" in way.findings
    save(found._replace(formats={"fp16": (way._replace(rule=Lanes(4)),)}), tmp_path / "mine.json")
    assert load(tmp_path / "mine.json").format("fp16").rule == Lanes(4)
    save(found._replace(formats={"fp16": (way._replace(rule=Lanes(4, unroll=0)),)}), tmp_path / "mine.json")
    with pytest.raises(ValueError, match="got a block of 0 places"):
        load(tmp_path / "mine.json")


def test_a_device_of_torch_by_its_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The script writes answers, from which the command makes a profile; formats without a known rule are named."""
    rule = Aligned(24, 8, (-132, -20))

    def product(a: list, b: list, c: list) -> list[float]:
        row = Profile("unit", {"bf16": (Format(rule),)})
        return mt.profiles.mma(a, b, c, profile=row, format="bf16").double().tolist()

    right = probes.ask(product, "bf16")
    wrong = right | {"check": "3f800000" * 400}
    content = {"probes": probes.VERSION, "device": "unit", "software": "a test", "refused": {"e4m3 float32": "no"}}
    file, out = tmp_path / "answers.json", tmp_path / "found.json"
    file.write_text(json.dumps(content | {"answers": {"bf16 float32": right, "tf32 float32": wrong}}))
    assert cli.main(["measure", "--answers", str(file), "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "found: measured by a test on unit" in text
    assert "bf16: Aligned(fraction=24, length=8, least=(-133, -21), kept='rz32')" in text
    assert "least is undetermined" in text
    assert "tf32: left out: identify(): answers for tf32 must be" in text
    assert "e4m3 float32: left out: no" in text
    assert load(out).name == "found"
    with pytest.raises(ValueError, match=r"answers.json must be a profile or answers to probes, got identify"):
        load(file)
    file.write_text(json.dumps(content | {"answers": {"bf16 float32": right}, "probes": 0}))
    assert cli.main(["measure", "--answers", str(file)]) == 2
    assert cli.main(["measure"]) == 2
    capsys.readouterr()
    assert cli.main(["measure", "--script"]) == 0
    script = capsys.readouterr().out
    compile(script, "script", "exec")
    assert "from .." not in script


def test_files_of_other_content_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    save(Profile("mine", {"bf16": (Format(Chain((1, 0)), "measured"),)}), file)
    good = json.loads(file.read_text(encoding="utf-8"))
    for change in ({"kind": "Loop"}, {"order": [0, 2]}, {"order": list(range(2000))}, {"fused": "yes"}, {"more": 1}):
        content = json.loads(json.dumps(good))
        content["formats"]["bf16"][0]["rule"].update(change)
        file.write_text(json.dumps(content))
        with pytest.raises(ValueError, match=r"load\(\): .*profile.json must be a profile or answers to probes, got"):
            load(file)
    good["formats"]["bf16"][0]["depths"] = [1, 65, 0]
    file.write_text(json.dumps(good))
    with pytest.raises(ValueError, match=r"must be a profile or answers to probes, got depths \[1, 65, 0\]"):
        load(file)
    for text in ("", "[]", "{}", '{"formats": 3}', "[" * 100_000):
        file.write_text(text)
        with pytest.raises(ValueError, match=r"load\(\): .*profile.json must be a profile or answers to probes, got"):
            load(file)


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match=r"measure\(\): formats must be of fp32, tf32, .*, got fp4"):
        measure(lambda a, b, c: c, ["fp4"])
    with pytest.raises(ValueError, match=r"product must return float32, float16 or bfloat16, got float64"):
        measure(lambda a, b, c: c.astype(np.float64), ["bf16"])
    with pytest.raises(ValueError, match=r"product must return \[4, 4\] numbers, got \[4\]"):
        measure(lambda a, b, c: c[0], ["bf16"])
