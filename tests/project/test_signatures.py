"""Every public name that torch 2.13 has too takes its arguments: all keywords and defaults, by position in its order.

What is missing is in two tables: names, by patterns, and arguments. A row that no longer holds fails the tests.
"""

import ast
import fnmatch
import inspect
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import minitorch_backends as mt
from minitorch_backends.autograd import functional, graph
from minitorch_backends.tensor.call_errors import expected_types
from minitorch_backends.tensor.registry import registry

DATA = Path(__file__).parents[1] / "data" / "torch_signatures.txt"
FACTORY = "dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False"

MISSING_NAMES = {
    "functions that torch has for its own kernels: use those of nn.functional, and modules": """
        torch.batch_norm_* torch.conv_tbc torch.convolution torch.embedding_bag torch.embedding_renorm_
        torch.grid_sampler_* torch.gru* torch.lstm* torch.rnn_* torch.norm_except_dim torch.native_*
        torch.segment_reduce torch.miopen_* torch.mkldnn_* torch.*_copy torch.cudnn_*
        torch.frobenius_norm nn.*Base nn.CrossMapLRN2d torch.adaptive_max_pool1d torch.avg_pool1d torch.batch_norm
        torch.group_norm torch.instance_norm torch.layer_norm torch.*_loss torch.kl_div torch.*_with_logits
        torch.constant_pad_nd torch.*dropout torch.embedding torch.grid_sampler
    """,
    "functions that write into their input: use the methods of these names": """
        torch.*_
    """,
    "products and losses of new kernels, which no script uses yet": """
        nn.*LinearCross* nn.functional.linear_cross_entropy nn.functional.*grouped_mm torch.lobpcg
    """,
    "storages and other devices, which NumPy's arrays have not": """
        Tensor.*storage Tensor.storage_type Tensor.record_stream Tensor.xpu torch.from_file torch.empty_quantized
        torch.get_file_path torch.is_vulkan_available torch.compiled_with_cxx11_abi
        nn.utils.convert_conv*_weight_memory_format
    """,
    "subclasses of Tensor, modules that exchange tensors, and complex32": """
        Tensor.as_subclass Tensor.module_load Tensor.chalf Tensor.is_distributed
    """,
    "data pipes, which torch has deprecated, and names that its modules only import": """
        utils.data.* optim.lr_scheduler.Optimizer optim.swap_in_optimizer_params_and_state func.debug_unwrap
        func.functionalize Tensor.index nn.Container
    """,
    "weights that are computed from others, which the README's people have in torch": """
        nn.Lazy* nn.Uninitialized* nn.AdaptiveLogSoftmaxWithLoss
    """,
    "settings of torch's own process, compilation, several devices": """
        torch.compile torch.cond torch.*_default_device torch.*_num_interop_threads torch.is_storage torch.*warn_always*
        torch.set_flush_denormal torch.typename torch.is_distributed nn.DataParallel nn.SyncBatchNorm
    """,
    "deprecated or removed in torch": """
        torch.range torch.set_default_tensor_type nn.Upsampling* nn.utils.clip_grad_norm nn.utils.skip_init
        nn.init.*[!_]
        Tensor.eig Tensor.lstsq Tensor.solve Tensor.symeig Tensor.reinforce Tensor.resize Tensor.resize_as
        torch.*nuclear_* torch.eig torch.lstsq torch.matrix_rank torch.solve torch.symeig
    """,
    "sparse and nested tensors, which NumPy has not": """
        Tensor.*indices Tensor.is_coalesced optim.SparseAdam
        Tensor.*sparse* Tensor.ccol* Tensor.coalesce Tensor.dense_dim Tensor.smm Tensor.sspaddmm
        Tensor.to_dense Tensor.to_padded_tensor Tensor.values torch.*sparse* torch.ds* torch.hs* torch.s*mm torch.smm
        torch.spmm
    """,
    "quantized tensors": """
        Tensor.dequantize Tensor.int_repr Tensor.q_* Tensor.qscheme torch.*qparams* torch.*quantize* torch.fake_*
        torch.fbgemm_* torch.fused_moving* torch.int_repr torch.q_*
    """,
    "parts of torch's own machinery": """
        Tensor.hash_tensor Tensor.slice_inverse Tensor.to_mkldnn autograd.* torch.*cudnn* torch.*generator
        torch.*mkldnn* torch.hash_tensor torch.init_num_threads torch.miopen_* torch.native_* torch.prepare_*
        torch.profiler_* torch.slice_inverse torch.sym_* torch.thread_safe_generator torch.while_loop
    """,
}
"""What brings the names that are missing, or why none does -> patterns of them."""

MISSING_ARGUMENTS = {
    "*.resize_* memory_format": "the elements are in row-major order",
    "torch.load pickle_module": "one unpickler, which with weights_only=True interprets the pickle itself",
    "torch.save pickle_module": "one pickler, which writes torch's names without torch",
    "torch.save pickle_protocol": "the one protocol that torch reads with weights_only=True",
    "torch.save _*": "private in torch",
    "torch.full names": "named tensors, which torch has deprecated",
    "*add*mm out_dtype": "given by keyword: torch's old order, `addmm(beta, input, mat1, mat2)`, has four places too",
    "torch.norm *": "`out` is given by keyword, since the method takes `dtype` in its place",
    "*stft align_to_window": "issue O",
    "Tensor.set_ *": "other shapes of the same memory: as_strided",
    "*.expand* implicit": "no effect in torch",
    "nn.Hardtanh m*_value": "deprecated: min_val and max_val",
    "torch.result_type *": "the names depend on which of the two is a number; they are given by position",
    "*cumulative_trapezoid dx": "None stands for 1, to tell that x was not given",
    "torch.trap* dx": "None stands for 1, to tell that x was not given",
    "*.std* unbiased": "None stands for True, to tell that correction was not given",
    "*.var* unbiased": "None stands for True, to tell that correction was not given",
    "torch.meshgrid indexing": "'ij' by default, without torch's warning that it will be so",
    "torch.*space steps": "in the stubs alone: torch refuses a call without steps",
    "torch.tensor *": "in the stubs alone: torch takes them by keyword",
    "Tensor.new_* *": "in the stubs alone: torch takes them by keyword",
    "Tensor.requires_grad_ mode": "in the stubs alone: torch calls it requires_grad",
    "Tensor.to other": "in the stubs alone: torch takes it by position",
    "torch.set_num_*threads num": "by position only",
    "torch.max_pool* stride": "None stands for (), which is taken as well",
    "torch.rrelu* generator": "drawn from the default generator, as by nn.functional.rrelu",
    "*.rsub alpha": "in the stubs alone: torch takes it by keyword beside a tensor",
    "*.subtract* alpha": "in the stubs alone: torch takes it by keyword beside a tensor",
    "linalg.vander N": "in the stubs alone: torch takes it by keyword",
    "linalg.lu_factor *": "a slip of the documentation: pivot",
    "Tensor.squeeze* dim": "pass several dimensions as a tuple",
    "Tensor.count_nonzero dim": "pass several dimensions as a tuple",
}
"""Patterns of "name argument" that differ, and why, or what brings them."""

BY_TYPE: dict[str, Callable[[], bool]] = {
    "torch.arange end": lambda: mt.arange(3).tolist() == [0, 1, 2],
    "*.max other": lambda: mt.ones(2).max(mt.zeros(2)).tolist() == [1.0, 1.0],
    "*.min other": lambda: mt.min(mt.ones(2), mt.zeros(2)).tolist() == [0.0, 0.0],
    "torch.randint *": lambda: mt.randint(2, (3,)).max().item() < 2,
    "torch.randint_like high": lambda: mt.randint_like(mt.ones(3), 2).max().item() < 2,
    "Tensor.random_ to": lambda: mt.ones(3).random_(2).max().item() < 2,
    "*.scatter* value": lambda: mt.zeros(2).scatter(0, mt.tensor([1]), 3.0).tolist() == [0.0, 3.0],
}
"""Arguments whose place another one has, from which their types tell them: a call that shows it."""


class Function(NamedTuple):
    """One of torch's names, and what stands under it here."""

    name: str
    overloads: list[list[str]]
    own: Any


def parts_of(overload: str) -> list[str]:
    """The parameters of an overload: commas inside brackets part none."""
    parts, depth = [""], 0
    for character in overload:
        depth += (character in "([") - (character in ")]")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def find(namespace: str, name: str) -> Any:
    home: Any = mt
    for part in namespace.split(".") if namespace != "torch" else ():
        home = getattr(home, part, None)
    return getattr(home, name, None)


def read() -> Iterator[Function]:
    namespace, functions = "", dict[str, list[list[str]]]()
    for line in DATA.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            namespace = line[1:-1]
            continue
        name, _, text = line.partition(":")
        overloads = [parts_of(each) for each in text[1:].replace("FACTORY", FACTORY).split(" | ")]
        if overloads == [["="]]:
            overloads = [[part for part in each[1:] if part != "out=None"] for each in functions[name]]
        if namespace == "torch":
            functions[name] = overloads
        yield Function(f"{namespace}.{name}", overloads, find(namespace, name))


FUNCTIONS = list(read())


class Taken:
    """The arguments that a callable takes here."""

    def __init__(self, name: str, own: Any) -> None:
        parameters = list(inspect.signature(own).parameters.values())
        if name.startswith("Tensor."):
            parameters = parameters[1:]
        self.by_name = {each.name: each for each in parameters}
        self.order = [
            each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
        ]
        self.rest = next((each.name for each in parameters if each.kind is each.VAR_POSITIONAL), None)
        self.aliases: dict[str, str] = {}
        self.deprecated: list[list[str]] = []
        self.takes_out = False
        while own is not None:
            if overloads := getattr(own, "overloads", None):
                self.aliases, self.takes_out = overloads.aliases, True
                self.deprecated += overloads._deprecated.values()
            if op := getattr(own, "op", None):
                self.rest = self.rest or op.variadic
            own = getattr(own, "__wrapped__", None)

    def differences(self, overload: list[str], method: bool) -> Iterator[str]:
        """The arguments of an overload that are not taken as torch takes them."""
        names = [
            each.partition("=")[0].replace("self", "input") for each in overload if each not in ("*", "out", "out=None")
        ]
        if any(names == [each for each in order if not method or each != "input"] for order in self.deprecated):
            return
        keyword_only = False
        for place, part in enumerate(overload):
            name, _, default = part.partition("=")
            if name == "*" or name.startswith("**"):
                keyword_only = True
            elif name.startswith("*"):
                keyword_only = True
                if self.rest is None:
                    yield name[1:]
            elif not (name == "out" and self.takes_out):
                own = self.aliases.get(name.lstrip("/"), name.lstrip("/"))
                in_place = keyword_only or self.rest is not None or self.order[place : place + 1] == [own]
                if own not in self.by_name or not in_place or not self.has_default(own, default):
                    yield name

    def has_default(self, name: str, default: str) -> bool:
        own = self.by_name[name].default
        if not default or default in ("...", "strided", "torch.strided"):
            return True
        if own is inspect.Parameter.empty:
            return False
        if self.by_name[name].name == "padding" and own == 0:  # in torch that of one overload of convolutions
            return True
        return own == eval(default, {"torch": mt})


def reason_of(table: dict[str, Any], name: str, argument: str) -> str | None:
    return next((pattern for pattern in table if fnmatch.fnmatchcase(f"{name} {argument}", pattern)), None)


def differing() -> Iterator[tuple[str, str]]:
    """Names and arguments that torch takes in another way."""
    for name, overloads, own in FUNCTIONS:
        if own is None or any(overload[:1] == ["*args"] for overload in overloads):
            continue
        taken = Taken(name, own)
        for overload in overloads:
            first = [each for each in taken.order[:1] if name.startswith("torch.") and each == "input"]
            given = first + overload if first and not {"input", "/input", "self"} & {*overload} else overload
            yield from ((name, each) for each in taken.differences(given, name.startswith("Tensor.")))


DIFFERING = list(differing())


def test_every_argument_is_taken_or_has_a_row() -> None:
    unexplained = [each for each in DIFFERING if not reason_of(MISSING_ARGUMENTS | BY_TYPE, *each)]
    assert not unexplained
    used = {reason_of(MISSING_ARGUMENTS | BY_TYPE, *each) for each in DIFFERING}
    taken = {*MISSING_ARGUMENTS, *BY_TYPE} - used
    assert not taken, "rows for arguments that are taken"


@pytest.mark.parametrize("name", BY_TYPE)
def test_arguments_are_told_apart_by_their_types(name: str) -> None:
    assert BY_TYPE[name]()


def test_every_name_is_there_or_has_a_row() -> None:
    patterns = [pattern for rows in MISSING_NAMES.values() for pattern in rows.split()]
    missing = [each.name for each in FUNCTIONS if each.own is None]
    unexplained = [name for name in missing if not any(fnmatch.fnmatchcase(name, each) for each in patterns)]
    assert not unexplained
    assert not [each for each in patterns if not fnmatch.filter(missing, each)], "rows for names that are there"


def test_the_types_of_all_inputs_are_known():
    """Errors name the argument that is of another type: an annotation that does not resolve would hide them all."""
    for name, declared in registry.items():
        types, parameters = expected_types(declared.public), inspect.signature(declared.public).parameters
        tensors = [each.name for each in parameters.values() if "Tensor" in str(each.annotation)]
        unknown = [each for each in tensors if each not in types]
        assert not unknown, f"{name}: {unknown}"


def functions_and_methods(namespace: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions of a public namespace of ours, and the methods that its classes define for users, but for the forms
    in place, which are derived."""
    for name in dir(namespace):
        value = getattr(namespace, name)
        if name.startswith("_") or not getattr(value, "__module__", "").startswith(mt.__name__):
            continue
        if inspect.isclass(value):
            own = {key: each for key, each in vars(value).items() if inspect.isfunction(each) and key != "forward"}
            yield from ((f"{name}.{key}", each) for key, each in own.items() if key == key.strip("_"))
        elif inspect.isfunction(inspect.unwrap(value)):
            yield name, inspect.unwrap(value)


NAMESPACES = (
    mt, mt.linalg, mt.fft, mt.special, mt.nn, mt.nn.functional, mt.nn.init, mt.nn.utils, mt.func, mt.lab, mt.optim,
    mt.optim.lr_scheduler, mt.optim.swa_utils,
)  # fmt: skip


@pytest.mark.parametrize("namespace", NAMESPACES, ids=lambda each: each.__name__)
def test_docstrings_name_what_a_function_raises(namespace: Any) -> None:
    wrong = []
    for name, function in functions_and_methods(namespace):
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        calls = [
            each.exc.func for each in ast.walk(tree) if isinstance(each, ast.Raise) and isinstance(each.exc, ast.Call)
        ]
        raised = {each.id for each in calls if isinstance(each, ast.Name) and each.id.endswith("Error")}
        wrong += [f"{name}: {each}" for each in raised if each not in (function.__doc__ or "")]
    assert wrong == []


UNRECORDED: dict[Callable[..., Any], str] = {
    graph.saved_tensors_hooks: "(pack_hook, unpack_hook)",
    graph.save_on_cpu: "(pin_memory=False, device_type='cuda')",
    graph.disable_saved_tensors_hooks: "(error_message)",
    graph.register_multi_grad_hook: "(tensors, fn, *, mode='all')",
    graph.allow_mutation_on_saved_tensors: "()",
    functional.jacobian: ("(func, inputs, create_graph=False, strict=False, vectorize=False, strategy='reverse-mode')"),
    functional.hessian: (
        "(func, inputs, create_graph=False, strict=False, vectorize=False, outer_jacobian_strategy='reverse-mode')"
    ),
    functional.vjp: "(func, inputs, v=None, create_graph=False, strict=False)",
    functional.jvp: "(func, inputs, v=None, create_graph=False, strict=False)",
    functional.hvp: "(func, inputs, v=None, create_graph=False, strict=False)",
    functional.vhp: "(func, inputs, v=None, create_graph=False, strict=False)",
}


@pytest.mark.parametrize("function", UNRECORDED, ids=lambda each: each.__name__)
def test_signatures_of_namespaces_that_are_not_recorded(function: Callable[..., Any]) -> None:
    signature = inspect.signature(function)
    bare = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
    assert str(inspect.Signature(bare)) == UNRECORDED[function]
