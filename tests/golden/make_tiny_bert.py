#!/usr/bin/env python3
"""Writes tiny_bert.json: losses, logits, gradients and AdamW steps of tiny BERTs in double.

Only needed to make the file anew: python3 make_tiny_bert.py > tiny_bert.json (made with PyTorch
2.15); the tests read the file. The model is Megatron's: layers with the norm in front, a final
norm, a head with its own dense layer, erf GeLU and norm, a pooler of row 0 and a two-class head.
The variant with the norms behind is Hugging Face's; --check-transformers compares it with the
transformers package (made with 5.23) instead of writing.
"""
import sys

import torch

import tiny_models as tiny
from tiny_models import linear, linear_shapes, norm, norm_shapes

TINY = {"layers": 2, "hidden": 16, "heads": 4, "ffn": 64, "vocabulary": 64, "positions": 16,
        "scale": 0.3}
# Of items of a word-piece corpus, below.
ITEMS = {"layers": 2, "hidden": 32, "heads": 4, "ffn": 128, "vocabulary": 42, "positions": 24,
         "scale": 0.1}

SEQUENCE = 16
TOKENS = [[2, 13, 23, 4, 49, 6, 24, 3, 7, 31, 4, 26, 56, 29, 63, 3],
          [2, 24, 34, 46, 3, 4, 35, 55, 18, 42, 3, 0, 0, 0, 0, 0]]
TYPES = [[0] * 8 + [1] * 8, [0] * 5 + [1] * 6 + [0] * 5]
LENGTHS = [16, 11]
MASKED = [(0, 3, 23), (0, 10, 17), (1, 5, 50)]  # sample, position, label
IS_RANDOM = [0, 1]


def blank_labels(masked, sample, sequence):
    labels = [-1] * sequence
    for owner, position, label in masked:
        if owner == sample:
            labels[position] = label
    return labels


def make_batch(tokens, types, lengths, labels, is_random):
    """Columns, everything but is_random [b][s]. Padding has the document -1."""
    sequence = len(tokens[0])
    return {"tokens": tokens, "types": types, "labels": labels, "is_random": is_random,
            "documents": [[0] * n + [-1] * (sequence - n) for n in lengths]}


def tiny_batch(step=0):
    """The batch of a step: its words move on from step to step, pads and marks stay."""
    def moved(token):
        return token if token < 5 else 5 + (token - 5 + 11 * step) % (TINY["vocabulary"] - 5)

    return make_batch([[moved(t) for t in row] for row in TOKENS], TYPES, LENGTHS,
                      [[moved(t) for t in blank_labels(MASKED, b, SEQUENCE)] for b in range(2)],
                      [(r + step) % 2 for r in IS_RANDOM])


NORMS_BEHIND = {"input_layernorm": "post_self_attn_layernorm",
                "pre_mlp_layernorm": "post_mlp_layernorm"}

# The first four items of a corpus of 40 word pieces, a third of their tokens masked.
ITEM_LENGTHS = [24, 22, 22, 15]
ITEM_TOKENS = [
    [2, 37, 7, 28, 26, 19, 32, 27, 5, 33, 32, 4, 4, 4, 3, 24, 9, 4, 4, 4, 21, 32, 17, 3],
    [2, 5, 17, 4, 4, 4, 4, 10, 39, 18, 32, 16, 16, 31, 35, 10, 3, 20, 35, 34, 24, 3, 0, 0],
    [2, 4, 17, 4, 17, 20, 27, 10, 39, 28, 32, 16, 16, 31, 35, 38, 3, 4, 4, 4, 24, 3, 0, 0],
    [2, 19, 21, 28, 4, 30, 3, 4, 4, 24, 12, 18, 30, 15, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0]]
ITEM_FIRST_OF_B = [15, 17, 17, 7]
ITEM_LABELS = [{11: 9, 12: 32, 13: 39, 17: 14, 18: 12, 19: 31},
               {2: 17, 3: 36, 4: 17, 5: 20, 6: 27, 15: 38},
               {1: 5, 3: 36, 9: 18, 17: 20, 18: 35, 19: 34},
               {4: 30, 7: 30, 8: 23, 10: 12}]


def item_batches(micro_batch):
    batches = []
    for first in range(0, 4, micro_batch):
        chosen = range(first, first + micro_batch)
        batches.append(make_batch(
            [ITEM_TOKENS[i] for i in chosen],
            [[int(ITEM_FIRST_OF_B[i] <= s < ITEM_LENGTHS[i]) for s in range(24)] for i in chosen],
            [ITEM_LENGTHS[i] for i in chosen],
            [[ITEM_LABELS[i].get(s, -1) for s in range(24)] for i in chosen],
            [0 for _ in chosen]))
    return batches


def norm_name(variant, name):
    """A norm behind has the name of what it follows, not of what it precedes."""
    if variant["norms"] == "behind":
        for before, behind in NORMS_BEHIND.items():
            name = name.replace(before, behind)
    return name


def parameter_shapes(size, variant):
    hidden, vocabulary = size["hidden"], size["vocabulary"]
    shapes = {"embedding.word_embeddings.weight": (vocabulary, hidden),
              "embedding.position_embeddings.weight": (size["positions"], hidden)}
    for i in range(size["layers"]):
        for name, shape in tiny.layer_shapes(f"encoder.layers.{i}.", hidden, size["ffn"]).items():
            shapes[norm_name(variant, name)] = shape
    if variant["norms"] == "behind":
        shapes |= norm_shapes("embedding.layernorm", hidden)
    else:
        shapes |= norm_shapes("encoder.final_layernorm", hidden)
    shapes |= {**linear_shapes("lm_head.dense", hidden, hidden),
               **norm_shapes("lm_head.layer_norm", hidden), "output_layer.bias": (vocabulary,)}
    if variant["binary_head"]:
        shapes |= {"embedding.tokentype_embeddings.weight": (2, hidden),
                   **linear_shapes("pooler.dense", hidden, hidden),
                   **linear_shapes("binary_head", 2, hidden)}
    return shapes


def encode(p, size, variant, batch, wrong):
    tokens = batch["tokens"]
    x = p["embedding.word_embeddings.weight"][tokens]
    x = x + p["embedding.position_embeddings.weight"][:tokens.shape[1]]
    if variant["binary_head"]:
        types = batch["types"] * (wrong != "types all 0")
        x = x + p["embedding.tokentype_embeddings.weight"][types]
    visible = (batch["documents"] >= 0)[:, None, None, :]
    if wrong == "padding mask ignored":
        visible = torch.ones_like(visible)
    is_behind = variant["norms"] == "behind"
    if is_behind:
        x = norm(x, p, "embedding.layernorm")
    for i in range(size["layers"]):
        layer = f"encoder.layers.{i}."
        bodies = (
            ("input_layernorm", lambda y, at=layer: tiny.self_attention(
                y, p, at + "self_attention", size["heads"], visible)),
            ("pre_mlp_layernorm", lambda y, at=layer: tiny.mlp(
                y, p, at + "mlp", variant["mlp_gelu"])))
        for name, body in bodies:
            if is_behind:
                x = norm(x + body(x), p, norm_name(variant, layer + name))
            else:
                x = x + body(norm(x, p, layer + name))
    if is_behind or wrong == "no final layer norm":
        return x
    return norm(x, p, "encoder.final_layernorm")


def forward(p, size, variant, batch, wrong=""):
    """(logits [b, s, V], binary logits [b, 2] or None)."""
    x = encode(p, size, variant, batch, wrong)
    kind = "tanh" if wrong == "head GeLU tanh" else "erf"
    u = tiny.gelu(linear(x, p, "lm_head.dense"), kind)
    if wrong != "no head layer norm":
        u = norm(u, p, "lm_head.layer_norm")
    logits = u @ p["embedding.word_embeddings.weight"].t()
    if wrong != "no logit bias":
        logits = logits + p["output_layer.bias"]
    if not variant["binary_head"]:
        return logits, None
    row = 1 if wrong == "pooled token 1" else 0
    pooled = torch.tanh(linear(x[:, row], p, "pooler.dense"))
    return logits, linear(pooled, p, "binary_head")


def loss_sums(p, size, variant, batch, wrong=""):
    """{loss: (sum of each sample, its rows that count)}."""
    logits, binary = forward(p, size, variant, batch, wrong)
    counts = (batch["labels"] >= 0).double()
    sums = {"lm loss": ((tiny.row_losses(logits, batch["labels"]) * counts).sum(1), counts.sum(1))}
    if binary is not None:
        sop = tiny.row_losses(binary, batch["is_random"])
        sums["sop loss"] = (sop, torch.ones_like(sop))
    return sums


def mean_losses(p, size, variant, batches, wrong=""):
    """Sums over sums, of each loss over all microbatches."""
    parts = [loss_sums(p, size, variant, batch, wrong) for batch in batches]
    return {name: sum(part[name][0].sum() for part in parts) /
                  sum(part[name][1].sum() for part in parts) for name in parts[0]}


def mean_of_means(p, size, variant, batches):
    means = [mean_losses(p, size, variant, [batch]) for batch in batches]
    return {name: sum(mean[name] for mean in means) / len(means) for name in means[0]}


def values_and_gradients(losses, p):
    gradients = tiny.gradients_of(sum(losses.values()), p)
    return {**{name: loss.item() for name, loss in losses.items()},
            "grad_norm": tiny.gradient_norm(gradients), "gradients": tiny.summaries(gradients)}


def run_case(variant):
    p = tiny.formula_parameters(parameter_shapes(TINY, variant), TINY["scale"])
    batch = tiny.tensors(tiny_batch())
    logits, binary = forward(p, TINY, variant, batch)
    sums = loss_sums(p, TINY, variant, batch)
    case = {**variant, "parameters": list(p),
            **values_and_gradients(mean_losses(p, TINY, variant, [batch]), p),
            "lm sum,count per sample": [[s.item(), int(n)] for s, n in zip(*sums["lm loss"])],
            "logits sample 0 position 1": logits[0, 1, :8].tolist()}
    if binary is not None:
        case["sop logits"] = binary.tolist()
    return case


def samples_of(batch):
    return [{name: column[b:b + 1] for name, column in batch.items()} for b in range(2)]


def run_steps(variant):
    p = tiny.formula_parameters(parameter_shapes(TINY, variant), TINY["scale"])
    steps = tiny.adam_steps(p, lambda step: samples_of(tiny_batch(step)),
                            lambda w, batches: mean_losses(w, TINY, variant, batches))
    return {**variant, "steps": steps}


def run_wrong(variant):
    p = tiny.formula_parameters(parameter_shapes(TINY, variant), TINY["scale"])
    batch = [tiny.tensors(tiny_batch())]
    names = ["padding mask ignored", "types all 0", "head GeLU tanh", "no head layer norm",
             "no logit bias", "no final layer norm", "pooled token 1"]
    return {name: {key: loss.item() for key, loss in
                   mean_losses(p, TINY, variant, batch, name).items()} for name in names}


def run_items(variant):
    p = tiny.formula_parameters(parameter_shapes(ITEMS, variant), ITEMS["scale"])
    batches = [tiny.tensors(batch) for batch in item_batches(2)]
    return {**variant, "batches": item_batches(2),
            "token": values_and_gradients(mean_losses(p, ITEMS, variant, batches), p),
            "microbatch": values_and_gradients(mean_of_means(p, ITEMS, variant, batches), p)}


HUGGING_FACE_NAMES = {  # ours to theirs, behind "encoder.layers.N." and "bert.encoder.layer.N."
    "self_attention.linear_proj": "attention.output.dense",
    "post_self_attn_layernorm": "attention.output.LayerNorm",
    "mlp.linear_fc1": "intermediate.dense",
    "mlp.linear_fc2": "output.dense",
    "post_mlp_layernorm": "output.LayerNorm"}
HUGGING_FACE_PREFIXES = {
    "embedding.word_embeddings": "bert.embeddings.word_embeddings",
    "embedding.position_embeddings": "bert.embeddings.position_embeddings",
    "embedding.tokentype_embeddings": "bert.embeddings.token_type_embeddings",
    "embedding.layernorm": "bert.embeddings.LayerNorm",
    "lm_head.dense": "cls.predictions.transform.dense",
    "lm_head.layer_norm": "cls.predictions.transform.LayerNorm",
    "output_layer": "cls.predictions",
    "pooler.dense": "bert.pooler.dense",
    "binary_head": "cls.seq_relationship"}


def hugging_face_parts(name, tensor):
    """Our parameter as theirs: [(name, tensor)]; the fused query, key, value are three."""
    stem, kind = name.rsplit(".", 1)
    if not stem.startswith("encoder.layers."):
        return [(f"{HUGGING_FACE_PREFIXES[stem]}.{kind}", tensor)]
    number, inner = stem.removeprefix("encoder.layers.").split(".", 1)
    layer = f"bert.encoder.layer.{number}."
    if inner != "self_attention.linear_qkv":
        return [(f"{layer}{HUGGING_FACE_NAMES[inner]}.{kind}", tensor)]
    heads, size = TINY["heads"], TINY["hidden"] // TINY["heads"]
    by_head = tensor.view(heads, 3, size, *tensor.shape[1:])
    return [(f"{layer}attention.self.{part}.{kind}", by_head[:, k].reshape(-1, *tensor.shape[1:]))
            for k, part in enumerate(("query", "key", "value"))]


def check_transformers(variant):
    """The same losses and gradients from transformers' BertForPreTraining."""
    import transformers

    config = transformers.BertConfig(
        vocab_size=TINY["vocabulary"], hidden_size=TINY["hidden"],
        num_hidden_layers=TINY["layers"], num_attention_heads=TINY["heads"],
        intermediate_size=TINY["ffn"], max_position_embeddings=TINY["positions"],
        hidden_act="gelu", layer_norm_eps=tiny.EPSILON, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, type_vocab_size=2)
    model = transformers.BertForPreTraining(config).double()
    p = tiny.formula_parameters(parameter_shapes(TINY, variant), TINY["scale"])
    theirs = dict(model.named_parameters())
    with torch.no_grad():
        for name, ours in p.items():
            for their_name, part in hugging_face_parts(name, ours):
                theirs.pop(their_name).copy_(part)
    assert not theirs, f"parameters that we lack: {list(theirs)}"
    batch = tiny.tensors(tiny_batch())
    labels = torch.where(batch["labels"] >= 0, batch["labels"], -100)
    output = model(input_ids=batch["tokens"], token_type_ids=batch["types"],
                   attention_mask=(batch["documents"] >= 0).long(), labels=labels,
                   next_sentence_label=batch["is_random"])
    output.loss.backward()
    ours = sum(mean_losses(p, TINY, variant, [batch]).values())
    gradients = tiny.gradients_of(ours, p)
    theirs = dict(model.named_parameters())
    worst = max((theirs[name].grad - part).abs().max().item() for ours_name, g in gradients.items()
                for name, part in hugging_face_parts(ours_name, g))
    print(f"transformers {transformers.__version__}: loss {output.loss.item():.15g}, "
          f"ours {ours.item():.15g}; largest difference of a gradient {worst:.1e}")


def main():
    base = {"mlp_gelu": "tanh", "binary_head": True, "norms": "in front"}
    behind = {**base, "mlp_gelu": "erf", "norms": "behind"}
    if "--check-transformers" in sys.argv[1:]:
        check_transformers(behind)
        return
    p = tiny.formula_parameters(parameter_shapes(TINY, base), TINY["scale"])
    two = [tiny.tensors(batch) for batch in samples_of(tiny_batch())]
    tiny.dump({
        "size": TINY, "sequence": SEQUENCE, "batch": tiny_batch(), "adam": tiny.ADAM,
        **{f"case {k}": run_case(variant) for k, variant in enumerate(
            [base, {**base, "binary_head": False}, {**base, "mlp_gelu": "erf"},
             {**base, "mlp_gelu": "erf", "binary_head": False}, behind])},
        "mean of two microbatches": {
            name: loss.item() for name, loss in mean_of_means(p, TINY, base, two).items()},
        "wrong": run_wrong(base),
        "steps 0": run_steps(base),
        "steps 1": run_steps({**base, "mlp_gelu": "erf", "binary_head": False}),
        "steps 2": run_steps(behind),
        "items size": ITEMS, "items": run_items(base),
    })


if __name__ == "__main__":
    main()
