"""`python -m tests.mutations [WORD ...]`: one fault at a time in a copy of the checkout, and tests that find it.

Each row of `MUTATIONS` puts a fault into one line and names tests, and at least one must fail. Together they reach all
parts of the package: a suite that was made smaller or quicker still finds them. All tests named must pass without a
fault. Words select rows by their file or text. Exits with 1 if a fault survives or a row does not apply.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = "minitorch_backends"

PATIENCE = 1200
"""Seconds until tests count as hanging."""


class Mutation(NamedTuple):
    """A fault: in a file of the package, the text `old`, which is there once, becomes `new`; `tests` are paths and node
    ids below tests/, separated by spaces."""

    file: str
    old: str
    new: str
    tests: str

    def __str__(self) -> str:
        return f"{self.file}: {self.old!r} -> {self.new!r}"


MUTATIONS = [Mutation(*row) for row in (
    # kernels
    ("kernels/block/ranges.py", "(bits >> 23) - 127", "(bits >> 23) - 126",
     "kernels/gemm/test_ranges.py::test_results_that_flushed_numbers_may_change_are_refused"),
    ("kernels/precisions/parts.py", "(bits >> shift) & odd)", "(bits >> shift) & 0)", "kernels/test_rounding.py"),
    ("kernels/precisions/scaling.py", "[..., :k], -1, axis)", "[..., :k], -1, -1)", "kernels/test_scaling.py"),
    ("kernels/conv/geometry.py", "(places < count) & (index >= 0)", "(places < count) & (index > 0)",
     "kernels/conv/test_direct.py::test_every_tap_is_a_shift"),
    ("kernels/attention/plain.py", "    if causal:", "    if not causal:", "kernels/test_attention.py::test_float64"),
    ("kernels/recurrence/cells.py", '"<", total, zero), zero, total)', '"<", total, zero), total, total)',
     "nn/test_recurrent.py::test_relu_is_a_nonlinearity"),
    ("kernels/fft/bluestein.py", "chirp[:0:-1].conj()", "chirp[:0:-1]", "kernels/test_fft.py::test_bluestein"),
    ("kernels/linalg/refine.py", "Refined(x, step, error, error <= enough)", "Refined(x, step, error, True)",
     "kernels/linalg/test_refined.py::test_refinement_that_stalls_far_from_float32_has_not_converged"),
    ("kernels/arrays/rows/functions.py", "row.minus(row.minus(x, largest), logarithm)", "row.minus(x, logarithm)",
     "kernels/test_rows.py::test_rows_that_lie_side_by_side_have_a_lane_each"),
    ("kernels/arrays/sums/loops.py", "min((chunk + 1) * steps, get(", "min(chunk * steps + 1, get(",
     "kernels/test_sums.py::test_every_layout"),
    ("kernels/arrays/selection_loops.py", "while at > 0 and _before", "while at > 1 and _before",
     "kernels/test_selection.py::test_the_first_few_are_those_of_a_stable_sort"),
    ("kernels/arrays/gathering_loops.py", "first + count * inner, wanted", "first + count * inner, wanted - 1",
     "kernels/test_gathering.py"),
    ("kernels/arrays/distances_loops.py", "(e * e + f * f) + (g * g + h * h)", "(e * e + f * f) + (g * g - h * h)",
     "kernels/test_distances.py"),
    ("kernels/arrays/sampling_loops.py", "if turns % 2 != 0:", "if turns % 2 == 0:", "kernels/test_sampling.py"),
    ("kernels/arrays/pooling_loops.py", "place if key > best else found", "place if key >= best else found",
     "kernels/test_pooling.py::test_loops_give_what_windows_give"),
    ("kernels/arrays/resampling.py", "np.ascontiguousarray(array), np.ascontiguousarray(places)", "array, places",
     "kernels/test_resampling.py"),
    ("kernels/matrix_units/rules.py", "return np.trunc(x / step) * step", "return np.rint(x / step) * step",
     "kernels/test_matrix_units.py::test_published_outputs kernels/test_matrix_units.py::test_what_units_drop"),
    ("kernels/arrays/update_formulas.py", "return p - c.lr * d, b", "return p - d * c.lr * c.lr, b",
     "optim/test_steps.py::test_steps_follow_the_formula"),
    ("kernels/runtime/threading.py", "return min(map(_quota, folders))", "return _quota(root)",
     "kernels/test_threads.py::test_quotas_of_the_control_groups_around"),
    ("kernels/runtime/store.py", 'refuse_what_others_can_write(_PREBUILT)', "_PREBUILT",
     "kernels/test_store.py::test_code_that_was_installed_is_loaded"),
    ("kernels/registry.py", "return missing if missing is not None or self.refuses is None", "return missing if True",
     "kernels/test_registry.py::test_the_first_that_does_not_refuse_runs"),
    ("kernels/runtime/cpu.py", "min(levels[wanted], detect(), key=LEVELS.index)", "levels[wanted]",
     "kernels/test_registry.py::test_the_capability_is_capped"),
    ("kernels/runtime/record.py", "place += _words(kind)", "place += 1", "kernels/test_record.py"),
    ("kernels/runtime/invariance.py", "if wanted.batch and not keeps.batch:", "if wanted.batch and keeps.isa:",
     "backends/test_invariance.py::test_explain_names_what_was_chosen"),
    # flags, backends, compat
    ("flags/state.py", "{**below.stored, **self.named}", "{**self.named, **below.stored}",
     "flags/test_flags.py::test_scopes_nest"),
    ("flags/writes.py", "        override.set(level.parent)", "        override.set(level)",
     "flags/test_flags.py::test_scopes_nest"),
    ("flags/writes.py", "if path in level.named:", "if path not in level.named:",
     "flags/test_flags.py::test_assignment_in_a_scope_lasts_as_long_as_the_override"),
    ("flags/snapshots.py", "store(saved.as_dict(), others_stay=False)", "store(saved.as_dict())",
     "flags/test_flags.py::test_set_and_read[fp32_precision]"),
    ("flags/scopes.py", "next(self.inner) if value is None else self.inner.send(value)", "next(self.inner)",
     "autograd/test_modes.py flags/test_flags.py::test_decorators_act_inside_calls_only"),
    ("flags/environment.py", "_set(meanings[text],", "_set({},", "backends/test_foreign_env.py"),
    ("backends/precision_policy.py", "decided_by is not None or of_device is None", "of_device is None",
     "backends/test_profiles.py"),
    ("backends/precision_policy.py", "choice if dtype in product.dtypes else _without_effect(choice, dtype)", "choice",
     "ops/test_products.py::test_float64_integers_and_halves_have_no_choice"),
    ("backends/table.py", '"medium": {"cuda": "tf32", "mkldnn": "bf16"}', '"medium": {"cuda": "tf32", "mkldnn": ""}',
     "flags/test_flags.py::test_set_float32_matmul_precision"),
    ("compat/verbose/onednn.py", '"" if precision == "ieee" else', '"" if precision == "tf32" else',
     "compat/test_verbose.py::test_columns_of_a_product"),
    ("backends/xeon/run_cpu.py", "cpu == runs[-1][-1] + 1", "cpu == runs[-1][-1] + 2",
     "compat/test_xeon.py::test_lists_of_cores"),
    # tensor, dispatch, autograd
    ("tensor/casting.py", 'array != 0 if dtype.kind == "b" else array.real', "array.real", "tensor/test_casting.py"),
    ("tensor/dtypes.py", "{complex64: float32, complex128: float64}", "{complex64: float32, complex128: float32}",
     "tensor/test_casting.py"),
    ("dispatch/promotion.py", "halves.pop() if len(halves) == 1 else None", "None",
     "ops/test_half_types.py::test_writes_to_inputs_whose_results_are_saved_are_allowed"),
    ("dispatch/out_argument.py", "if source.category > wanted.category:", "if source.category > wanted.category + 1:",
     "dispatch/test_errors.py::test_a_failed_draw_leaves_the_generator_alone"),
    ("dispatch/promotion.py", "if len(args) > self.most else []", "if len(args) > self.most + 1 else []",
     "dispatch/test_overloads.py"),
    ("tensor/call_errors.py", "if not isinstance(value, (bool, np.bool_)):", "if value is None:",
     "dispatch/test_errors.py::test_arguments_of_wrong_types_give_errors_that_torch_has[sort]"),
    ("autograd/engine.py", "heappush(self.heap, (-edge.sequence, edge))", "heappush(self.heap, (edge.sequence, edge))",
     "autograd/test_gradients.py::test_fan_out_and_diamonds"),
    ("autograd/accumulation.py", "state.grad = state.grad + g", "state.grad = g",
     "autograd/test_gradients.py::test_accumulation_with_create_graph_makes_a_new_tensor"),
    ("autograd/views.py", "(*state.steps, step) if", "(step,) if",
     "tensor/test_views.py::test_a_view_that_is_reshaped_in_place_follows_writes_to_its_base"),
    ("autograd/versions.py", "        cell_of(each)[0] += 1", "        cell_of(each)",
     "autograd/test_versions.py autograd/test_modes.py"),
    ("autograd/hooks.py", "g.clone() if state.grad is None else state.grad + g", "g.clone()",
     "autograd/test_hooks.py::test_a_results_hook_and_retain_grad"),
    ("autograd/function.py", "if cell[0] != version:", "if False:", "autograd/test_custom_functions.py"),
    # random, serialization, display
    ("display/html.py", "[*map(escape, row)]", "[*row]", "display/test_html.py"),
    ("random.py", "if len(data) != 56:", "if len(data) < 56:", "ops/test_factories.py::test_refusals"),
    ("serialization/saving.py", "start = _address(array) - _address(memory) if array.size else 0", "start = 0",
     "serialization/test_serialization.py"),
    ("serialization/copying.py", "places[0] - places[1]", "0",
     "ops/test_factories.py::test_deep_copies_share_memory_as_what_they_are_copies_of"),
    # ops
    ("ops/elementwise/trigonometric.py", "conjugate(-input.sin())", "conjugate(input.sin())",
     "ops/test_ops.py::test_gradients[cos]"),
    ("ops/reductions/variance.py", "axes_of(dim, len(shape))) - correction", "axes_of(dim, len(shape)))",
     "ops/test_ops.py::test_gradients[var]"),
    ("ops/einsum/slicing.py", "bodies + sum(self.plan_ahead(part).flops for part in self.ahead)", "bodies",
     "ops/einsum/test_slices.py"),
    ("ops/einsum/paths.py", "if left != 1:", "if left > 3:",
     "ops/einsum/test_einsum.py::test_paths_that_do_not_contract"),
    ("ops/conv/convolution.py", "return groups > 1 and channels == 1", "return groups > 1",
     "ops/test_conv.py::test_a_kernel_of_groups_that_are_not_depthwise_is_timed"),
    ("ops/images/pool.py", "if (count - 1) * stride >= size + padding else count", "if False else count",
     "nn/test_functional.py::test_no_window_begins_behind_the_input"),
    ("ops/softmax.py", "- grad_output * (g * result).sum", "- grad_output * (g + result).sum",
     "ops/test_ops.py::test_second_gradients[softmax]"),
    ("ops/losses/ctc.py", "states[:, 1::2]", "states[:, ::2][:, : labels.shape[1]]",
     "ops/test_ops.py::test_forward_agrees_with_the_reference[ctc_loss]"),
    ("ops/linalg/lu.py", "np.argsort(permutation(out[1]._array, m), axis=-1)", "permutation(out[1]._array, m)",
     "ops/test_linalg.py::test_gradients_of_factors_whose_rows_go_around"),
    ("ops/views/shape.py", "if unknown > 1:", "if unknown > 2:", "tensor/test_views.py::test_refusals"),
    # nn, optim, amp, func, utils, testing, profiles
    ("nn/init.py", '[mode == "fan_out"]', '[mode != "fan_out"]', "nn/test_init.py::test_starting_values"),
    ("nn/module_internals.py", "if strict and missing:", "if strict and missing and unexpected:",
     "dispatch/test_errors.py::test_a_failed_load_changes_no_parameter"),
    ("nn/utils/clip_grad.py", "max_norm / (total + 1e-6)", "max_norm / (total * total + 1e-6)",
     "nn/test_utils.py::test_norms_of_all_gradients"),
    ("optim/adaptive.py", "            scale=1 / (1 - beta2**step),", "            scale=1 / (1 - beta2),",
     "optim/test_steps.py::test_steps_follow_the_formula"),
    ("optim/lr_scheduler/factors.py", "milestone <= epoch", "milestone < epoch",
     "optim/test_lr_scheduler.py::test_rates_are_those_of_the_definition"),
    ("amp/autocast.py", "float32 in found or float64 in found else", "float64 in found else", "amp/test_amp.py"),
    ("func/vmap.py", "return leaf.movedim(dim, 0)", "return leaf.movedim(0, dim)",
     "func/test_vmap.py::test_dimensions_of_arguments_and_results"),
    ("utils/data/datasets.py", "bisect.bisect_right(self", "bisect.bisect_left(self",
     "utils/test_data.py::test_datasets"),
    ("testing.py", "_MARGIN * largest * size", "10 * _MARGIN * largest * size",
     "testing/test_comparisons.py::test_tolerances_of_products_hold_at_their_precision_and_refuse_the_next"),
    ("utils/printing.py", "if value is not None and value < 0:", "if value is not None and value < -1:",
     "tensor/test_printing.py::test_options"),
    # explain, lab, interop, cli, pytest_plugin
    ("explain/records.py", 'if name not in ("seconds", "compiled"))', 'if name not in ("compiled",))',
     "explain/test_explain.py::test_difference_of_two_runs"),
    ("explain/sensitivity.py", "(layer is None or current_module() == layer)", "True",
     "explain/test_layers.py::test_only_the_layer_in_question_is_compared_with_float64"),
    ("lab/search.py", "(middle, high) if holds(chain[middle]) else (low, middle)", "(low, middle)",
     "lab/test_audit.py"),
    ("lab/search.py", "for each in allowed.values()) >= least:", "for each in allowed.values()) > math.inf:",
     "lab/test_audit.py::test_search_asks_nothing_of_levels_that_cannot_be_cheaper"),
    ("lab/policy.py", "in reversed(self.rules.items())", "in self.rules.items()",
     "lab/test_policy.py::test_scopes_by_module"),
    ("lab/store.py", "if found is not None and not reuse:", "if False:",
     "lab/test_sweeps.py::test_a_changed_function_is_refused"),
    ("lab/comparison.py", "scores[:-1] + weights))", "scores[:-1] + weights * 0))",
     "lab/test_runs.py::test_alignments_are_the_longest"),
    ("interop/safetensors.py", "if array.nbytes > room and shards[-1]:", "if array.nbytes < room and shards[-1]:",
     "interop/test_safetensors.py::test_a_model_in_shards"),
    ("interop/onnx/quantization.py", "ops.round(ratio) + zero", "ops.round(ratio + zero)",
     "interop/test_onnx.py::test_quotients_are_rounded_before_the_zero_point_is_added"),
    ("interop/array_api/functions.py", "ops.stack(alike(*arrays), axis)", "ops.stack(alike(*arrays), 0)",
     "interop/test_array_api.py::test_functions_agree_with_numpy"),
    ("cli/common.py", "if name in found:", "if False:", "cli/test_cli.py::test_wrong_input_is_one_sentence"),
    ("pytest_plugin.py", "    if was == now:", "    if True:", "testing/test_plugin.py::test_leaks_are_errors"),
)]  # fmt: skip


def copy_tree(folder: Path) -> Path:
    """A copy of what git tracks or would add, with the links as links."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(lambda name: os.path.lexists(ROOT / name), listed.split("\0")[:-1]):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    return folder


def stale(mutation: Mutation) -> str | None:
    """Why a row does not apply to the checkout, or None."""
    path = ROOT / PACKAGE / mutation.file
    count = path.read_text(encoding="utf-8").count(mutation.old) if path.exists() else 0
    if count != 1:
        return f"stale: the text is there {count} times"
    missing = [each for each in mutation.tests.split() if not (ROOT / "tests" / each.partition("::")[0]).exists()]
    return f"stale: tests/ lacks {missing[0]}" if missing else None


def run_tests(folder: Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run tests of a copy up to the first that fails, with the examples of property tests that CI draws."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    environment = os.environ | {"CI": "true", "PYTHONPATH": str(folder)}
    paths = [f"tests/{each}" for each in tests]
    return subprocess.run(
        [*command, *paths], cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def verdict(mutation: Mutation, folder: Path) -> str:
    """The outcome of a fault in a copy: "caught" with the test that found it, "survives", or why it is unknown."""
    if (reason := stale(mutation)) is not None:
        return reason
    path = folder / PACKAGE / mutation.file
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    done = run_tests(folder, mutation.tests.split())
    path.write_text(text, encoding="utf-8")
    if done.returncode == pytest.ExitCode.OK:
        return "survives"
    found = [line.split(" - ")[0] for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if done.returncode != pytest.ExitCode.TESTS_FAILED or not found:
        return f"no verdict: pytest ended with exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return f"caught: {found[0]}"


def outcomes(chosen: Sequence[Mutation], folder: Path) -> Iterator[str]:
    """The verdict of each fault, in order; as many at a time as there are CPUs, each in a copy of its own."""
    copies: SimpleQueue[Path] = SimpleQueue()
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for number in range(workers):
        copies.put(copy_tree(folder / str(number)))

    def outcome(mutation: Mutation) -> str:
        copy = copies.get()
        try:
            return verdict(mutation, copy)
        finally:
            copies.put(copy)

    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(outcome, chosen)


def main() -> int:
    words = sys.argv[1:]
    chosen = [each for each in MUTATIONS if not words or any(word in str(each) for word in words)]
    tests = dict.fromkeys(test for each in chosen for test in each.tests.split())
    passed = run_tests(ROOT, [*tests])
    if passed.returncode:
        sys.stdout.write(f"{passed.stdout}\nwithout a fault the tests do not pass\n")
        return 1
    left = 0
    with tempfile.TemporaryDirectory() as folder:
        for each, result in zip(chosen, outcomes(chosen, Path(folder)), strict=True):
            left += not result.startswith("caught")
            sys.stdout.write(f"{each}\n    {result}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(chosen) - left} of {len(chosen)} faults are caught\n")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
