"""Audits as language models need them: half types, formats by role, tokens, batches, and trials on executors."""

import math
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import backends, explain, lab, nn
from minitorch_backends.lab.metrics import combine, measures_of

F = nn.functional
WORDS, WIDTH = 40, 32


@dataclass
class Output:
    logits: mt.Tensor
    cache: object
    note: str = "greedy"
    loss: object = None


class Cache:
    """A cache as models return it: no tensor, and no container."""

    def __init__(self, keys):
        self.keys = keys


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (each.unflatten(-1, (2, -1)).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2)), k


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.attention, self.head = nn.Embedding(WORDS, WIDTH), Attention(), nn.Linear(WIDTH, WORDS)

    def forward(self, input_ids):
        x = self.embed(input_ids)
        y, keys = self.attention(x)
        return Output(self.head(x + y), Cache(keys))


LAYERS = ["attention.qkv", "attention.out", "head"]


@pytest.fixture(scope="module")
def model():
    mt.manual_seed(0)
    return Model().to(mt.bfloat16).eval()


@pytest.fixture(scope="module")
def batches():
    mt.manual_seed(1)
    return [{"input_ids": mt.randint(0, WORDS, (2, 12))} for _ in range(3)]


@pytest.fixture(autouse=True)
def no_graph():
    with mt.no_grad():
        yield


def test_formats_of_weights_layer_by_layer(model, batches):
    found = lab.audit(model, batches[0], ("mxfp4", "mxfp8"), "language", {"kl": 2e-3}, roles="weight")
    assert found.precisions == ("mxfp4", "mxfp8")
    assert {row["module"] for row in found.rows} == {None, *LAYERS}
    assert all(row["error"] > 0 and row["calls"] == 1 for row in found.layers())
    assert found.whole("mxfp4")["error"] > found.whole("mxfp8")["error"]
    with backends.operands.flags(weight="mxfp4"):
        low = model(**batches[0]).logits.double().numpy()
    truth = model(**batches[0]).logits.double().numpy()
    assert found.whole("mxfp4")["error"] == pytest.approx(np.linalg.norm(low - truth) / np.linalg.norm(truth))
    assert found.is_met
    assert found.measured["kl"] <= 2e-3
    with found.policy, explain.record() as log:
        model(**batches[0])
    acted = {each.module: each.decided_by for each in log if "operands.weight" in each.decided_by}
    assert acted == {
        name: f"operands.weight = {level!r}" for name, level in found.levels["forward"].items() if level != "no format"
    }
    assert sum(found.shares.values()) == pytest.approx(1)


def test_groups_of_layers_are_tried_and_set_as_one(model, batches, tmp_path):
    options = {"metric": "language", "roles": "weight", "groups": "attention"}
    found = lab.audit(model, batches[0], ("mxfp4", "mxfp8"), **options, budget={"kl": 2e-3}, store=tmp_path)
    assert found.parts == {"attention": LAYERS[:2], "head": ["head"]}
    assert [row["module"] for row in found.rows] == [None, "attention", "head"] * 2
    with nn.utils.run_under(model, backends.flags(**{"operands.weight": "mxfp4"}), *LAYERS[:2]):
        low = model(**batches[0]).logits.double().numpy()
    truth = model(**batches[0]).logits.double().numpy()
    row = next(row for row in found.rows if row["module"] == "attention")
    assert row["error"] == pytest.approx(np.linalg.norm(low - truth) / np.linalg.norm(truth))
    assert (row["calls"], row["flops"]) == (2, 2 * 24 * WIDTH * 4 * WIDTH)
    assert found.levels["forward"].keys() == found.parts.keys()
    assert f"{len(found.kept)} of 2 groups of 3 layers keep a higher precision" in found.summary()
    assert found.policy.rule_of("attention.qkv") == found.policy.rule_of("attention.out")
    again = lab.audit(model, batches[0], ("mxfp4", "mxfp8"), **options, executor=2)
    assert again.rows == found.rows
    with pytest.raises(ValueError, match=r"store .* of another run \(.*groups changed"):
        lab.audit(model, batches[0], ("mxfp4", "mxfp8"), **{**options, "groups": ()}, store=tmp_path)
    with pytest.raises(ValueError, match=r"groups must match modules that hold layers \('attention.qkv', .*got 'attn'"):
        lab.audit(model, batches[0], "mxfp4", roles="weight", groups=["attention", "attn"])
    with pytest.raises(TypeError, match=r"audit\(\): groups must be a glob of modules or several, got 3"):
        lab.audit(model, batches[0], "mxfp4", roles="weight", groups=3)


def test_a_budget_counts_from_the_unchanged_model(model, batches):
    """Perplexity is not 0 where nothing changes: shares and margin are of what the bound leaves above it."""
    measures = lab.audit(model, batches[0], "mxfp4", "language", roles="weight").whole("mxfp4")
    unchanged = lab.audit(model, batches[0], "mxfp4", "language", {"kl": 0.0}, roles="weight").measured["perplexity"]
    bound = unchanged + 0.5 * abs(measures["perplexity"] - unchanged)
    found = lab.audit(model, batches[0], "mxfp4", "language", {"perplexity": bound}, roles="weight", margin=0.1)
    assert found.is_met
    assert found.measured["perplexity"] <= unchanged + 0.9 * (bound - unchanged)
    tight = lab.audit(model, batches[0], "mxfp4", "language", {"perplexity": unchanged * (1 + 1e-9)}, roles="weight")
    assert tight.is_met
    assert tight.measured["perplexity"] <= unchanged * (1 + 1e-9)
    below = lab.audit(model, batches[0], "mxfp4", "language", {"perplexity": 1.0}, roles="weight")
    assert not below.is_met
    assert below.measured["perplexity"] == unchanged


def test_layers_are_given_back_by_what_they_add_to_perplexity():
    """One layer does the damage, another of as many operations none: a bound in between spares the first alone."""
    mt.manual_seed(3)
    body = nn.Sequential(nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH))
    exact = mt.randint(-1, 2, (WIDTH, WIDTH)).float()  # as in mxfp4
    body[1].weight.data, body[2].weight.data = mt.randn(WIDTH, WIDTH), exact
    model = nn.Sequential(body, nn.Linear(WIDTH, WORDS)).eval()
    model[1].weight.data = mt.randn(WORDS, WIDTH) / 200
    tokens = mt.randint(0, WORDS, (1, 16))
    free = lab.audit(model, tokens, "mxfp4", "language", {"kl": 1.0}, roles="weight")
    assert {row["module"]: row["error"] > 0 for row in free.layers()} == {"0.1": True, "0.2": False, "1": True}
    costs = {row["module"]: row["perplexity"] for row in free.layers()}
    unchanged = costs["0.2"]
    assert costs["0.1"] > unchanged
    found = lab.audit(
        model, tokens, "mxfp4", "language", {"perplexity": (costs["0.1"] + unchanged) / 2}, roles="weight"
    )
    assert "0.1" in found.kept
    assert "0.2" not in found.kept


def test_the_cache_apart(model, batches):
    found = lab.audit(model, batches[0], "e4m3", roles=("key", "value"))
    assert [row["module"] for row in found.layers()] == ["attention"]
    assert found.layers()[0]["error"] == found.whole("e4m3")["error"] > 0
    assert str(found.policy) == "*  operands.key='e4m3', operands.value='e4m3'"


def test_activations_that_stay_under_their_own_flags(model, batches):
    with backends.operands.flags(activation="mxfp8", weight="mxfp8"):
        found = lab.audit(model, batches[0], "mxfp4", roles="weight", budget=0.0)
        assert set(found.levels["forward"].values()) == {"mxfp8"}
        with found.policy, explain.record() as log:
            model(**batches[0])
    assert all("operands.weight = 'mxfp8'" in each.decided_by for each in log if each.kernel == "matmul")


def test_recipes_are_levels(model, batches):
    found = lab.audit(model, batches[0], ("te-mxfp8", "torchao-rowwise"), budget=0.05)
    assert found.whole("te-mxfp8")["error"] > 0
    assert found.policy.rules["*"].forward["operands.recipe"] in ("te-mxfp8", "torchao-rowwise", "none")
    rows = explain.sensitivity(model, **batches[0], precisions="te-mxfp8")
    assert [each.module for each in rows] == [*LAYERS, None]
    assert rows[-1].error == pytest.approx(found.whole("te-mxfp8")["error"])
    assert math.isnan(rows[0].local)
    assert "nan" not in str(rows)


@pytest.mark.parametrize("dtype", [mt.bfloat16, mt.float16])
def test_precisions_of_float32_change_nothing_in_half_types(dtype, batches):
    model = Model().to(dtype).eval()
    said = r"no product obeyed precision flags, 4 did not: .*name formats and roles, such as roles='weight'"
    with pytest.raises(ValueError, match=said):
        lab.audit(model, batches[0], ("tf32", "bf16"))
    with backends.flags(fp32_precision="tf32"), explain.record() as log:
        model(**batches[0])
    assert log.product_counts.obeyed == 0
    assert all("changes no product of" in each.decided_by for each in log)


def test_autocast(batches):
    model = Model().eval()
    with mt.autocast("cpu", dtype=mt.bfloat16):
        found = lab.audit(model, batches[0], "mxfp4", "language", roles="weight")
        with backends.operands.flags(weight="mxfp4"):
            low = model(**batches[0]).logits
        truth = model(**batches[0]).logits
    assert truth.dtype == mt.bfloat16
    off = (low.double() - truth.double()).norm() / truth.double().norm()
    assert found.whole("mxfp4")["error"] == pytest.approx(off.item())
    assert found.measure_on(batches[0]) == found.measured  # autocast included


def test_what_is_not_compared_is_named(model, batches):
    found = lab.audit(model, batches[0], "mxfp4", roles="weight")
    assert found.ignored == {"cache": "Cache", "note": "str"}
    assert "Not compared: cache (Cache), note (str)." in found.summary()


def test_a_metric_gets_what_the_model_returned(model, batches):
    seen = []

    def metric(answer, truth):
        seen.append((type(answer), type(answer.logits), answer.note, answer.loss))
        change = (answer.logits - truth.logits).abs()
        return {"largest": change.max(), "mean": change.float().mean().item()}

    found = lab.audit(model, batches, "mxfp4", metric, {"mean": 1.0}, roles="weight")
    assert set(seen) == {(Output, mt.Tensor, "greedy", None)}
    assert found.measured["mean"] > 0
    x = mt.randn(3, WIDTH).bfloat16()
    single = lab.audit(model.head, x, "mxfp4", lambda a, b: (a - b).abs().max(), roles="weight")
    assert single.measured["metric"] > 0
    with pytest.raises(ValueError, match=r"metric must take what the model returns \(Output\).*got AttributeError"):
        lab.audit(model, batches[0], "mxfp4", lambda a, b: a.values(), roles="weight")


def language_by_hand(x, y, tokens):
    """The measures of one sequence, by their definitions in float64."""
    p, q = (np.exp(z - z.max(-1, keepdims=True)) for z in (x, y))
    p, q = p / p.sum(-1, keepdims=True), q / q.sum(-1, keepdims=True)
    rows = range(len(tokens) - 1)
    own, true = (np.array([each[row, tokens[row + 1]] for row in rows]) for each in (p, q))
    kl = [(q[row] * np.log(q[row] / p[row])).sum() for row in rows]
    return {
        "perplexity": np.prod(1 / own) ** (1 / len(own)),
        "kl": np.mean(kl),
        "worst_kl": np.max(kl),
        "flips": np.mean([p[row].argmax() != q[row].argmax() for row in rows]),
        "log_ratio": np.mean(np.abs(np.log(own / true))),
        "ratio_off_1_percent": np.mean(np.abs(own / true - 1) > 0.01),
        "ratio_off_20_percent": np.mean(np.abs(own / true - 1) > 0.2),
        "largest_ratio": np.max(np.maximum(own / true, true / own)),
    }


def test_measures_of_language():
    random = np.random.default_rng(0)
    truth = random.standard_normal((1, 9, 12))
    answer, tokens = truth + 0.3 * random.standard_normal(truth.shape), random.integers(0, 12, (1, 9))
    wanted = language_by_hand(answer[0], truth[0], tokens[0])
    sides = {"logits": answer, "hidden": truth}, {"logits": truth, "hidden": truth}
    assert measures_of("language", *sides, tokens) == pytest.approx(wanted)
    assert 0 < wanted["ratio_off_20_percent"] < 1
    padded = np.concatenate([tokens, np.full((1, 3), -100)], 1)
    longer = [{"logits": np.concatenate([each, np.ones((1, 3, 12))], 1)} for each in (answer, truth)]
    assert measures_of("language", *longer, padded) == pytest.approx(wanted)


def test_batches_are_measured_as_one(model, batches):
    several = lab.audit(model, batches, "mxfp4", "language", roles="weight")
    together = {"input_ids": mt.cat([each["input_ids"] for each in batches])}
    one = lab.audit(model, together, "mxfp4", "language", roles="weight")
    assert several.measured == pytest.approx(one.measured)
    assert several.runs == 3 * (one.runs - 2) + 2  # the search for layers, and the repeated call, take one batch
    assert several.measure_on(batches[:1]) == pytest.approx(several.measure_on(batches[0]))
    with pytest.raises(ValueError, match="with as many labels, got 3 and labels of 1"):
        lab.audit(model, batches, "mxfp4", "language", roles="weight", labels=[1])
    with pytest.raises(ValueError, match="or a list of batches with as many labels, got none"):
        lab.audit(model, [], "mxfp4", roles="weight")


def test_large_truths_are_computed_again(model, batches, monkeypatch):
    kept = lab.audit(model, batches, "mxfp4", "language", roles="weight")
    monkeypatch.setattr("minitorch_backends.lab.trials._MOST_BYTES", 0)
    again = lab.audit(model, batches, "mxfp4", "language", roles="weight")
    assert (again.rows, again.measured) == (kept.rows, kept.measured)
    assert again.runs > kept.runs


def test_means_over_batches():
    found = combine(
        [{"perplexity": 2.0, "kl": 1.0, "worst_kl": 3.0}, {"perplexity": 8.0, "kl": 4.0, "worst_kl": 9.0}], [2, 1]
    )
    assert found == pytest.approx({"perplexity": 2 ** (5 / 3), "kl": 2.0, "worst_kl": 9.0})


def test_classes_are_labels(batches):
    mt.manual_seed(2)
    model, x = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)).eval(), mt.randn(20, 8)
    labels = mt.randint(0, 3, (20,))
    found = lab.audit(model, x, "bf16", "logits", {"wrong": 1.0}, labels=labels)
    with backends.flags(fp32_precision="bf16"):
        logits = model(x)
    assert found.measured["wrong"] == pytest.approx((logits.argmax(-1) != labels).float().mean().item())
    assert found.measured["loss"] == pytest.approx(F.cross_entropy(logits, labels).item(), rel=1e-5)
    with pytest.raises(ValueError, match="labels must have one class for each of 20 rows, got 3"):
        lab.audit(model, x, "bf16", "logits", labels=labels[:3])
    with pytest.raises(ValueError, match="labels go with the metrics 'logits' and 'language', got metric None"):
        lab.audit(model, x, "bf16", labels=labels)
    with pytest.raises(ValueError, match="metric 'language' must have token ids"):
        lab.audit(model, x, "bf16", "language")


@pytest.mark.parametrize("executor", ["processes", "threads", "pool"])
def test_rows_do_not_depend_on_the_executor(executor, model, batches, tmp_path, monkeypatch):
    monkeypatch.setattr("minitorch_backends.lab.trial_runner._INLINE_BYTES", 0 if executor == "processes" else 1 << 20)
    options = {"metric": "language", "budget": {"kl": 2e-3}, "roles": "weight"}
    here = lab.audit(model, batches[:2], ("mxfp4", "nvfp4"), **options)
    if executor == "processes":
        found = lab.audit(model, batches[:2], ("mxfp4", "nvfp4"), **options, executor=2)
    else:
        context = {"mp_context": get_context("spawn")} if executor == "pool" else {}
        kind = ProcessPoolExecutor if executor == "pool" else ThreadPoolExecutor
        with kind(2, **context) as pool:
            found = lab.audit(model, batches[:2], ("mxfp4", "nvfp4"), **options, executor=pool)
    assert found.rows == here.rows
    assert found.policy == here.policy
    assert found.measured == here.measured


def test_audits_resume_from_a_store(model, batches, tmp_path):
    options = {"metric": "language", "roles": "weight"}
    first = lab.audit(model, batches[0], "mxfp4", **options, store=tmp_path)
    again = lab.audit(model, batches[0], "mxfp4", **options, store=tmp_path)
    assert again.rows == first.rows
    assert again.runs == first.runs - len(first.rows)
    file = next(tmp_path.glob("rows-*.jsonl"))
    lines = file.read_text().splitlines()
    file.write_text("\n".join(lines[:-2]))
    resumed = lab.audit(model, batches[0], "mxfp4", **options, store=tmp_path)
    assert resumed.rows == first.rows
    assert resumed.runs == again.runs + 2
    for other, changed in (
        ({"inputs": batches[1]}, "inputs changed"),
        ({"precisions": "mxfp8"}, "levels changed"),
        ({"model": Model().to(mt.bfloat16).eval()}, "model changed"),
    ):
        given = {"model": model, "inputs": batches[0], "precisions": "mxfp4"} | other
        with pytest.raises(ValueError, match=rf"audit\(\): store .* of another run \(.*{changed}"):
            lab.audit(**given, **options, store=tmp_path)


def test_roles_and_formats_have_names(model, batches):
    with pytest.raises(ValueError, match=r"roles must be among weight, activation, .*, got 'weights'"):
        lab.audit(model, batches[0], "mxfp4", roles="weights")
    with pytest.raises(ValueError, match="'fp7' is not a format of operands"):
        lab.audit(model, batches[0], "fp7", roles="weight")
    with pytest.raises(ValueError, match="precisions must name at least one, got none"):
        lab.audit(model, batches[0], ())


def test_formats_without_effect_are_not_counted(batches):
    x = mt.randn(4, 4)
    with backends.operands.flags(weight="mxfp4"), explain.record() as log:
        x @ x
        x.double() @ x.double()
    assert all("nothing in a product" in each.decided_by for each in log)
    assert (log.product_counts.obeyed, log.product_counts.others.total()) == (1, 1)  # the first one obeys precisions
    with pytest.raises(ValueError, match=r"\['mxfp4'\] of weight affect nothing in this Identity"):
        lab.audit(nn.Identity(), x, "mxfp4", roles="weight")
