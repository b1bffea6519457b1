#!/usr/bin/env python3
"""Writes tiny_t5.json: losses, logits, gradients and AdamW steps of tiny T5s in double.

Only needed to make the file anew: python3 make_tiny_t5.py > tiny_t5.json (made with PyTorch 2.15);
the tests read the file. The model is Megatron's: both stacks have layers with the norm in front and
a final norm, scaled scores and biases everywhere; the decoder's layers look at the encoder's
normalised output, the head has a logit bias where it shares the word table. Positions are learned,
one table for both stacks, or relative, a bias of scores by buckets of distances.
"""
import math

import torch

import tiny_models as tiny
from tiny_models import norm, norm_shapes

TINY = {"encoder_layers": 3, "decoder_layers": 2, "hidden": 16, "heads": 4, "ffn": 64,
        "vocabulary": 64, "positions": 16, "buckets": 32, "max_distance": 128, "scale": 0.3}
# Of items of a word-piece corpus, below.
ITEMS = {**TINY, "encoder_layers": 2, "hidden": 32, "ffn": 128, "vocabulary": 50, "positions": 24,
         "scale": 0.1}

TEXT_ENC = [[5, 13, 23, 35, 49, 6, 24, 44, 7, 31, 57, 26, 56, 29, 63, 40],
            [16, 24, 34, 46, 60, 17, 35, 55, 18, 42, 9, 37, 0, 0, 0, 0]]
TEXT_DEC = [[5, 11, 19, 29, 41, 55, 12, 30], [8, 14, 22, 32, 44, 0, 0, 0]]
LABELS = [[5, 9, 15, 23, 33, 45, 59, 16], [18, 22, 28, 36, 46, -1, -1, -1]]

# The first four items of a corpus of 40 word pieces, a third of their tokens in spans.
ITEM_ENC = [[26, 5, 23, 31, 15, 42, 28, 8, 26, 26, 9, 43, 44, 14],
            [19, 21, 28, 30, 42, 24, 12, 43, 30, 15], [42, 20, 43, 20, 11, 17],
            [19, 21, 28, 42, 43, 24, 12, 18, 30, 15]]
ITEM_DEC = [[40, 42, 38, 43, 33, 44, 37, 39], [40, 42, 30, 30, 23, 43, 18], [40, 42, 11, 43, 37],
            [40, 42, 30, 30, 43, 30, 23]]
ITEM_LABELS = [[42, 38, 43, 33, 44, 37, 39, 41], [42, 30, 30, 23, 43, 18, 41],
               [42, 11, 43, 37, 41], [42, 30, 30, 43, 30, 23, 41]]
ITEM_LENGTHS = (24, 16)  # of the encoder's and the decoder's sequences, padded


def tiny_batch(step=0):
    """Columns, all [b][s]. Its words move on from step to step, pads stay."""
    def moved(rows):
        last = TINY["vocabulary"] - 1
        return [[t if t < 1 else 1 + (t - 1 + 11 * step) % last for t in row] for row in rows]

    return {"tokens": moved(TEXT_ENC), "decoder_tokens": moved(TEXT_DEC), "labels": moved(LABELS)}


def item_batches(micro_batch):
    def padded(rows, length, pad):
        return [row + [pad] * (length - len(row)) for row in rows]

    columns = {"tokens": padded(ITEM_ENC, ITEM_LENGTHS[0], 0),
               "decoder_tokens": padded(ITEM_DEC, ITEM_LENGTHS[1], 0),
               "labels": padded(ITEM_LABELS, ITEM_LENGTHS[1], -1)}
    return [{name: column[first:first + micro_batch] for name, column in columns.items()}
            for first in range(0, 4, micro_batch)]


def parameter_shapes(size, variant):
    hidden, vocabulary, heads = size["hidden"], size["vocabulary"], size["heads"]
    shapes = {"embedding.word_embeddings.weight": (vocabulary, hidden)}
    for i in range(size["encoder_layers"]):
        shapes |= tiny.layer_shapes(f"encoder.layers.{i}.", hidden, size["ffn"])
    for i in range(size["decoder_layers"]):
        shapes |= tiny.layer_shapes(f"decoder.layers.{i}.", hidden, size["ffn"], True)
    shapes |= {**norm_shapes("encoder.final_layernorm", hidden),
               **norm_shapes("decoder.final_layernorm", hidden)}
    if variant["positions"] == "relative":
        for stack in ("encoder", "decoder"):
            name = stack + "_relative_pos_emb.relative_attention_bias.weight"
            shapes[name] = (size["buckets"], heads)
    else:
        shapes["embedding.position_embeddings.weight"] = (size["positions"], hidden)
    if variant["tied"]:
        shapes["lm_head.output_layer.bias"] = (vocabulary,)
    else:
        shapes["lm_head.output_layer.weight"] = (vocabulary, hidden)
    return shapes


def buckets_of(relative, size, bidirectional):
    """Of key - query; logarithms in fp32."""
    buckets, base = size["buckets"], torch.zeros_like(relative)
    if bidirectional:
        buckets //= 2
        base = (relative > 0) * buckets
        distance = relative.abs()
    else:
        distance = (-relative).clamp(min=0)
    exact = buckets // 2
    ratio = torch.log(distance.clamp(min=1).float() / exact) / math.log(
        size["max_distance"] / exact)
    far = (exact + (ratio * (buckets - exact)).long()).clamp(max=buckets - 1)
    return base + torch.where(distance < exact, distance, far)


def score_bias(p, size, variant, stack, sequence):
    if variant["positions"] != "relative":
        return None
    place = torch.arange(sequence)
    buckets = buckets_of(place[None, :] - place[:, None], size, stack == "encoder")
    table = p[stack + "_relative_pos_emb.relative_attention_bias.weight"]
    return table[buckets].permute(2, 0, 1)


def embed(p, variant, tokens):
    x = p["embedding.word_embeddings.weight"][tokens]
    if variant["positions"] == "relative":
        return x
    return x + p["embedding.position_embeddings.weight"][:tokens.shape[1]]


def encode(p, size, variant, tokens, wrong):
    x = embed(p, variant, tokens)
    real = tokens >= 1
    visible = (real[:, :, None] & real[:, None, :])[:, None]
    stack = "decoder" if wrong == "relative: decoder bias in encoder" else "encoder"
    bias = score_bias(p, size, variant, stack, tokens.shape[1])
    for i in range(size["encoder_layers"]):
        layer = f"encoder.layers.{i}."
        x = x + tiny.self_attention(norm(x, p, layer + "input_layernorm"), p,
                                    layer + "self_attention", size["heads"], visible, bias)
        x = x + tiny.mlp(norm(x, p, layer + "pre_mlp_layernorm"), p, layer + "mlp",
                         variant["mlp_gelu"])
    return x if wrong == "no encoder final norm" else norm(x, p, "encoder.final_layernorm")


def forward(p, size, variant, batch, wrong=""):
    """Logits [b, s, V]."""
    tokens, decoder_tokens = batch["tokens"], batch["decoder_tokens"]
    encoded = encode(p, size, variant, tokens, wrong)
    sequence = decoder_tokens.shape[1]
    x = embed(p, variant, decoder_tokens)
    visible = (decoder_tokens >= 1)[:, None, None, :]
    if wrong != "decoder not causal":
        visible = visible & torch.ones(sequence, sequence).tril().bool()
    seen = (tokens >= 1)[:, None, None, :]
    if wrong == "cross attention ignores encoder padding":
        seen = torch.ones_like(seen)
    bias = score_bias(p, size, variant, "decoder", sequence)
    for i in range(size["decoder_layers"]):
        layer = f"decoder.layers.{i}."
        x = x + tiny.self_attention(norm(x, p, layer + "input_layernorm"), p,
                                    layer + "self_attention", size["heads"], visible, bias)
        x = x + tiny.cross_attention(norm(x, p, layer + "pre_cross_attn_layernorm"), encoded, p,
                                     layer + "cross_attention", size["heads"], seen)
        x = x + tiny.mlp(norm(x, p, layer + "pre_mlp_layernorm"), p, layer + "mlp",
                         variant["mlp_gelu"])
    x = norm(x, p, "decoder.final_layernorm")
    if not variant["tied"]:
        return x @ p["lm_head.output_layer.weight"].t()
    logits = x @ p["embedding.word_embeddings.weight"].t()
    return logits if wrong == "no logit bias" else logits + p["lm_head.output_layer.bias"]


def loss_sums(p, size, variant, batch, wrong=""):
    """(The sum of each sample, its rows that count)."""
    logits = forward(p, size, variant, batch, wrong)
    counts = (batch["labels"] >= 0).double()
    return (tiny.row_losses(logits, batch["labels"]) * counts).sum(1), counts.sum(1)


def mean_losses(p, size, variant, batches, wrong=""):
    """Sum over sum, of all microbatches."""
    parts = [loss_sums(p, size, variant, batch, wrong) for batch in batches]
    return {"lm loss": sum(sums.sum() for sums, _ in parts) /
                       sum(counts.sum() for _, counts in parts)}


def mean_of_means(p, size, variant, batches):
    means = [mean_losses(p, size, variant, [batch])["lm loss"] for batch in batches]
    return {"lm loss": sum(means) / len(means)}


def values_and_gradients(losses, p):
    gradients = tiny.gradients_of(sum(losses.values()), p)
    return {**{name: loss.item() for name, loss in losses.items()},
            "grad_norm": tiny.gradient_norm(gradients), "gradients": tiny.summaries(gradients)}


def run_case(variant):
    p = tiny.formula_parameters(parameter_shapes(TINY, variant), TINY["scale"])
    batch = tiny.tensors(tiny_batch())
    sums = loss_sums(p, TINY, variant, batch)
    return {**variant, "parameters": list(p),
            **values_and_gradients(mean_losses(p, TINY, variant, [batch]), p),
            "lm sum,count per sample": [[s.item(), int(n)] for s, n in zip(*sums)],
            "logits sample 0 position 1": forward(p, TINY, variant, batch)[0, 1, :8].tolist()}


def run_steps(variant):
    def batches_of_step(step):
        batch = tiny_batch(step)
        return [{name: column[b:b + 1] for name, column in batch.items()} for b in range(2)]

    p = tiny.formula_parameters(parameter_shapes(TINY, variant), TINY["scale"])
    steps = tiny.adam_steps(p, batches_of_step,
                            lambda w, batches: mean_losses(w, TINY, variant, batches))
    return {**variant, "steps": steps}


def run_wrong(variant, names):
    p = tiny.formula_parameters(parameter_shapes(TINY, variant), TINY["scale"])
    batch = [tiny.tensors(tiny_batch())]
    return {name: mean_losses(p, TINY, variant, batch, name)["lm loss"].item() for name in names}


def run_items(variant):
    p = tiny.formula_parameters(parameter_shapes(ITEMS, variant), ITEMS["scale"])
    batches = [tiny.tensors(batch) for batch in item_batches(2)]
    return {**variant, "batches": item_batches(2),
            "token": values_and_gradients(mean_losses(p, ITEMS, variant, batches), p),
            "microbatch": values_and_gradients(mean_of_means(p, ITEMS, variant, batches), p)}


def main():
    base = {"mlp_gelu": "tanh", "positions": "learned_absolute", "tied": True}
    relative = {**base, "positions": "relative"}
    untied = {**base, "tied": False}
    cases = [base, {**base, "mlp_gelu": "erf"}, relative, untied, {**relative, "tied": False}]
    tiny.dump({
        "size": TINY, "batch": tiny_batch(), "adam": tiny.ADAM,
        **{f"case {k}": run_case(variant) for k, variant in enumerate(cases)},
        "wrong": {**run_wrong(base, ["cross attention ignores encoder padding",
                                     "decoder not causal", "no logit bias",
                                     "no encoder final norm"]),
                  **run_wrong(relative, ["relative: decoder bias in encoder"])},
        **{f"steps {k}": run_steps(variant) for k, variant in enumerate([base, relative, untied])},
        "items size": ITEMS, "items 0": run_items(base), "items 1": run_items(relative),
    })


if __name__ == "__main__":
    main()
