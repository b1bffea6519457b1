#!/usr/bin/env python3
"""Writes tiny_llama.json: losses, logits, gradients and AdamW steps of tiny Llamas in double.

Only needed to make the file anew: python3 make_tiny_llama.py > tiny_llama.json (made with PyTorch
2.15); the tests read the file. "whole" is a model with Hugging Face's tensors (its queries, keys,
values, gates and ups apart), whose weights are noise of their numbers; the tests put them together.
The variants are the parts that relatives of Llama have or have not, with weights by formula under
Phalanx's names. "wrong" are losses of mistakes that would show in no shape.
"""
import math

import numpy
import torch

import tiny_models as tiny

WHOLE = {"layers": 2, "hidden": 16, "ffn": 24, "heads": 4, "groups": 2, "head_size": 4,
         "vocabulary": 32}
# A head is not hidden / heads.
TINY = {"layers": 2, "hidden": 12, "ffn": 20, "heads": 4, "groups": 2, "head_size": 8,
        "vocabulary": 40, "scale": 0.3}
WHOLE_IDS = [[0, 10, 26, 16, 12, 14, 22, 4, 24], [5, 16, 1, 24, 21, 24, 1, 16, 5]]
SEQUENCE = 10

LLAMA = {"norm": "rms", "zero_centred": False, "epsilon": 1e-5, "activation": "silu",
         "gated": True, "linear_bias": False, "qkv_bias": False, "qk_norm": False, "groups": 2,
         "tied": False, "dimensions": 8, "base": 10000.0, "interleaved": False,
         "interpolation": 1.0, "scaling": "none", "factor": 1.0, "original": 0.0,
         "truncate": True, "attention_factor": 1.0, "window": 0, "window_layers": [True, True],
         "attention_scale": 0.0, "documents": False}
YARN = {"scaling": "yarn", "factor": 4.0, "original": 24.0,
        "attention_factor": 0.1 * math.log(4.0) + 1.0, "beta_fast": 2.0, "beta_slow": 0.25}
VARIANTS = {
    "llama": {},
    "biases": {"linear_bias": True, "qkv_bias": True},
    "qkv bias": {"qkv_bias": True},
    "query and key norms": {"qk_norm": True},
    "query and key layer norms": {"norm": "layer", "qk_norm": True},
    "interleaved": {"interleaved": True},
    "half of a head": {"dimensions": 4},
    "interleaved half of a head": {"dimensions": 4, "interleaved": True, "base": 100.5},
    "interpolated": {"interpolation": 2.5},
    # Wavelengths of 6.3, 167, 4443 and 118000 positions: kept, between, and divided.
    "llama 3's scaling": {"base": 500000.0, "scaling": "llama3", "factor": 8.0, "original": 250.0},
    "yarn": YARN,
    "yarn without rounding, interleaved": {**YARN, "truncate": False, "interleaved": True},
    "tied": {"tied": True},
    "one group": {"groups": 1},
    "no groups": {"groups": 4},
    "no positions": {"dimensions": 0},
    "squared relu": {"activation": "squared_relu", "gated": False, "norm": "layer",
                     "zero_centred": True, "dimensions": 4},
    "relu": {"activation": "relu", "gated": False},
    "gated gelu, 1 + w, own scale": {"activation": "gelu_tanh", "zero_centred": True,
                                     "attention_scale": 0.25, "tied": True, "epsilon": 1e-6},
    "gated exact gelu with biases": {"activation": "gelu_erf", "linear_bias": True,
                                     "qkv_bias": True, "norm": "layer"},
    "window": {"window": 3},
    "window of the second layer": {"window": 2, "window_layers": [False, True]},
    "documents": {"documents": True, "window": 4},
}


def mixed(numbers):
    """The hash of each, 32 bits."""
    mask, x = numpy.uint64(0xFFFFFFFF), numpy.asarray(numbers, dtype=numpy.uint64)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = (x ^ (x >> numpy.uint64(shift))) * numpy.uint64(factor) & mask
    return x ^ (x >> numpy.uint64(16))


def frequencies(variant):
    """theta_i of a rotation, in double."""
    d, base = variant["dimensions"], variant["base"]
    theta = base ** (-torch.arange(0, d, 2) / d)
    factor, original = variant["factor"], variant["original"]
    if variant["scaling"] == "llama3":
        low, high = 1.0, 4.0
        wavelength = 2.0 * math.pi / theta
        between = (original / wavelength - low) / (high - low)
        mixture = (1.0 - between) * theta / factor + between * theta
        return torch.where(wavelength < original / high, theta,
                           torch.where(wavelength > original / low, theta / factor, mixture))
    if variant["scaling"] == "yarn":
        def dimension(rotations):
            return d * math.log(original / (2.0 * math.pi * rotations)) / (2.0 * math.log(base))

        low, high = dimension(variant["beta_fast"]), dimension(variant["beta_slow"])
        if variant["truncate"]:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0.0), min(high, d - 1.0)
        ramp = ((torch.arange(d // 2) - low) / (high - low)).clamp(0.0, 1.0)
        return theta * (1.0 - ramp) + theta / factor * ramp
    return theta


def rotate(x, variant):
    """x [b, s, heads, head size], by its place in the sequence."""
    d = variant["dimensions"]
    if d == 0:
        return x
    place = torch.arange(x.shape[1]) / variant["interpolation"]
    angle = (place[:, None] * frequencies(variant))[:, None]
    cos, sin = (variant["attention_factor"] * f(angle) for f in (torch.cos, torch.sin))
    turned, kept = x[..., :d], x[..., d:]
    if variant["interleaved"]:
        one, two = turned[..., 0::2], turned[..., 1::2]
    else:
        one, two = turned[..., :d // 2], turned[..., d // 2:]
    pair = (one * cos - two * sin, two * cos + one * sin)
    turned = torch.stack(pair, -1).flatten(-2) if variant["interleaved"] else torch.cat(pair, -1)
    return torch.cat((turned, kept), -1)


def norm(x, p, name, variant):
    weight = p[name + ".weight"] + float(variant["zero_centred"])
    if variant["norm"] == "layer":
        return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, p[name + ".bias"],
                                              variant["epsilon"])
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + variant["epsilon"]) * weight


def linear(x, p, name):
    y = x @ p[name + ".weight"].t()
    return y + p[name + ".bias"] if name + ".bias" in p else y


def activation(x, kind):
    return {"silu": lambda: x * torch.sigmoid(x), "relu": lambda: x.clamp(min=0.0),
            "squared_relu": lambda: x.clamp(min=0.0).square(),
            "gelu_tanh": lambda: tiny.gelu(x, "tanh"), "gelu_erf": lambda: tiny.gelu(x, "erf")}[
                kind]()


def visible_keys(sequence, window, documents):
    """[b or 1, 1, query, key]"""
    place = torch.arange(sequence)
    visible = place[None, :] <= place[:, None]
    if window > 0:
        visible = visible & (place[:, None] - place[None, :] < window)
    if documents is None:
        return visible[None, None]
    return (visible & (documents[:, :, None] == documents[:, None, :]))[:, None]


def attention(x, p, name, size, variant, visible, wrong):
    b, s, _ = x.shape
    groups, heads, width = variant["groups"], size["heads"], size["head_size"]
    per_group = heads // groups
    qkv = linear(x, p, name + ".linear_qkv")
    if wrong == "blocks of queries, keys and values":
        q, k, v = (part.reshape(b, s, -1, width) for part in qkv.split(
            [heads * width, groups * width, groups * width], -1))
    else:
        qkv = qkv.view(b, s, groups, per_group + 2, width)
        q, k, v = qkv[:, :, :, :per_group].flatten(2, 3), qkv[:, :, :, -2], qkv[:, :, :, -1]
    if variant["qk_norm"]:
        q, k = norm(q, p, name + ".q_layernorm", variant), norm(k, p, name + ".k_layernorm", variant)
    q, k = rotate(q, variant), rotate(k, variant)
    k, v = (part.repeat_interleave(per_group, dim=2) for part in (k, v))
    scale = variant["attention_scale"] or 1.0 / math.sqrt(width)
    scores = (torch.einsum("bihd,bjhd->bhij", q, k) * scale).masked_fill(~visible, -math.inf)
    context = torch.einsum("bhij,bjhd->bihd", torch.softmax(scores, dim=-1), v)
    return linear(context.flatten(2), p, name + ".linear_proj")


def mlp(x, p, name, variant, wrong):
    y = linear(x, p, name + ".linear_fc1")
    if not variant["gated"]:
        return linear(activation(y, variant["activation"]), p, name + ".linear_fc2")
    gate, up = y.chunk(2, -1)
    if wrong == "up before gate":
        gate, up = up, gate
    return linear(activation(gate, variant["activation"]) * up, p, name + ".linear_fc2")


def logits_of(p, size, variant, batch, wrong=""):
    """[b, s, V]"""
    x = p["embedding.word_embeddings.weight"][batch["tokens"]]
    for i in range(size["layers"]):
        layer = f"decoder.layers.{i}."
        window = variant["window"] if variant["window_layers"][i] else 0
        visible = visible_keys(x.shape[1], window, batch.get("document"))
        x = x + attention(norm(x, p, layer + "input_layernorm", variant), p,
                          layer + "self_attention", size, variant, visible, wrong)
        x = x + mlp(norm(x, p, layer + "pre_mlp_layernorm", variant), p, layer + "mlp", variant,
                    wrong)
    x = norm(x, p, "decoder.final_layernorm", variant)
    table = "embedding.word_embeddings" if variant["tied"] else "output_layer"
    return x @ p[table + ".weight"].t()


def mean_loss(p, size, variant, batches, wrong=""):
    losses = [tiny.row_losses(logits_of(p, size, variant, batch, wrong), batch["labels"])
              for batch in batches]
    return {"lm loss": sum(rows.sum() for rows in losses) / sum(rows.numel() for rows in losses)}


def parameter_shapes(size, variant):
    hidden, ffn, width = size["hidden"], size["ffn"], size["head_size"]
    q, kv = size["heads"] * width, variant["groups"] * width
    shapes = {}

    def add_norm(name, length):
        shapes[name + ".weight"] = (length,)
        if variant["norm"] == "layer":
            shapes[name + ".bias"] = (length,)

    def add_linear(name, rows, columns, bias):
        shapes[name + ".weight"] = (rows, columns)
        if bias:
            shapes[name + ".bias"] = (rows,)

    shapes["embedding.word_embeddings.weight"] = (size["vocabulary"], hidden)
    for i in range(size["layers"]):
        layer = f"decoder.layers.{i}."
        add_norm(layer + "input_layernorm", hidden)
        add_linear(layer + "self_attention.linear_qkv", q + 2 * kv, hidden, variant["qkv_bias"])
        if variant["qk_norm"]:
            add_norm(layer + "self_attention.q_layernorm", width)
            add_norm(layer + "self_attention.k_layernorm", width)
        add_linear(layer + "self_attention.linear_proj", hidden, q, variant["linear_bias"])
        add_norm(layer + "pre_mlp_layernorm", hidden)
        rows = 2 * ffn if variant["gated"] else ffn
        add_linear(layer + "mlp.linear_fc1", rows, hidden, variant["linear_bias"])
        add_linear(layer + "mlp.linear_fc2", hidden, ffn, variant["linear_bias"])
    add_norm("decoder.final_layernorm", hidden)
    if not variant["tied"]:
        shapes["output_layer.weight"] = (size["vocabulary"], hidden)
    return shapes


def whole_parameters():
    """Under Phalanx's names, made of Hugging Face's tensors in their order."""
    h, f, width, v = (WHOLE[name] for name in ("hidden", "ffn", "head_size", "vocabulary"))
    q, kv = WHOLE["heads"] * width, WHOLE["groups"] * width
    made = []

    def tensor(shape, base, scale):
        count = math.prod(shape)
        noise = 2.0 * mixed(65536 * len(made) + numpy.arange(1, count + 1)) / 2.0**32 - 1.0
        made.append(shape)
        value = (base + scale * noise).astype(numpy.float32).astype(numpy.float64)
        return torch.tensor(value).reshape(shape)

    def fused(tensors):
        """Of each group its query heads, its key and its value."""
        by_group = [t.view(WHOLE["groups"], -1, width, h) for t in tensors]
        return torch.cat(by_group, 1).reshape(q + 2 * kv, h)

    p = {"embedding.word_embeddings.weight": tensor((v, h), 0.0, 1.0)}
    for i in range(WHOLE["layers"]):
        layer = f"decoder.layers.{i}."
        p[layer + "input_layernorm.weight"] = tensor((h,), 1.0, 0.1)
        qkv = [tensor((rows, h), 0.0, 0.5) for rows in (q, kv, kv)]
        p[layer + "self_attention.linear_qkv.weight"] = fused(qkv)
        p[layer + "self_attention.linear_proj.weight"] = tensor((h, q), 0.0, 0.5)
        p[layer + "pre_mlp_layernorm.weight"] = tensor((h,), 1.0, 0.1)
        p[layer + "mlp.linear_fc1.weight"] = torch.cat(
            [tensor((f, h), 0.0, 0.5) for _ in range(2)])
        p[layer + "mlp.linear_fc2.weight"] = tensor((h, f), 0.0, 0.5)
    p["decoder.final_layernorm.weight"] = tensor((h,), 1.0, 0.1)
    p["output_layer.weight"] = tensor((v, h), 0.0, 0.5)
    return {name: p[name].requires_grad_() for name in sorted(p, key=str.encode)}


def run_whole(changes):
    variant = {**LLAMA, "dimensions": WHOLE["head_size"], **changes}
    ids = torch.tensor(WHOLE_IDS)
    batch = {"tokens": ids[:, :-1], "labels": ids[:, 1:]}
    p = whole_parameters()
    losses = mean_loss(p, WHOLE, variant, [batch])
    gradients = tiny.gradients_of(losses["lm loss"], p)
    logits = logits_of(p, WHOLE, variant, batch)
    return {"variant": variant, "parameters": list(p), "lm loss": losses["lm loss"].item(),
            "grad_norm": tiny.gradient_norm(gradients), "gradients": tiny.summaries(gradients),
            "logits of the first row": logits[0, 0, :4].tolist(),
            "logits of the last row": logits[1, 7, 28:].tolist()}


def steps_batches(variant, step):
    """Two microbatches of one sample."""
    last = TINY["vocabulary"]
    text = [[int(w) % last for w in mixed(numpy.arange(SEQUENCE + 1) + 100 * (2 * step + b) + 1)]
            for b in range(2)]
    batches = [{"tokens": [row[:-1]], "labels": [row[1:]]} for row in text]
    if variant["documents"]:
        for batch in batches:
            batch["document"] = [[0] * 4 + [1] * (SEQUENCE - 4)]
    return batches


def run_steps(variant):
    p = tiny.formula_parameters(parameter_shapes(TINY, variant), TINY["scale"])
    steps = tiny.adam_steps(p, lambda step: steps_batches(variant, step),
                            lambda w, batches: mean_loss(w, TINY, variant, batches))
    return {"variant": variant, "parameters": list(p), "steps": steps}


def run_wrong():
    """Of the first step: the variant that is asked for, what is done instead, and its loss."""
    mistakes = [("llama", "up before gate", {}), ("llama", "blocks of queries, keys and values", {}),
                ("llama", "interleaved", {"interleaved": True}),
                ("llama", "mean subtracted", None),
                ("llama", "no positions", {"dimensions": 0}),
                ("half of a head", "exponent of the whole head", {"base": 10000.0**0.5}),
                ("interpolated", "not interpolated", {"interpolation": 1.0}),
                ("llama 3's scaling", "not scaled", {"scaling": "none"}),
                ("yarn", "no attention factor", {"attention_factor": 1.0}),
                ("yarn", "not rounded", {"truncate": False}),
                ("window", "one key more", {"window": 4}),
                ("window", "one key less", {"window": 2}),
                ("window of the second layer", "of both", {"window_layers": [True, True]}),
                ("gated gelu, 1 + w, own scale", "w", {"zero_centred": False}),
                ("gated gelu, 1 + w, own scale", "usual scale", {"attention_scale": 0.0}),
                ("gated gelu, 1 + w, own scale", "exact gelu", {"activation": "gelu_erf"})]
    losses = []
    for name, mistake, changes in mistakes:
        variant = {**LLAMA, **VARIANTS[name]}
        p = tiny.formula_parameters(parameter_shapes(TINY, variant), TINY["scale"])
        if changes is None:
            changes = {"norm": "layer"}
            p |= {name.replace(".weight", ".bias"): torch.zeros_like(w)
                  for name, w in p.items() if "layernorm" in name}
        batches = [tiny.tensors(batch) for batch in steps_batches(variant, 0)]
        loss = mean_loss(p, TINY, {**variant, **changes}, batches, mistake)["lm loss"]
        losses.append({"variant": name, "mistake": mistake, "lm loss": loss.item()})
    return losses


def main():
    tiny.dump({
        "whole size": WHOLE, "whole ids": WHOLE_IDS, "whole": run_whole({}),
        "whole with a window": run_whole({"window": 3}),
        "size": TINY, "adam": tiny.ADAM, "sequence": SEQUENCE,
        **{f"variant {name}": run_steps({**LLAMA, **changes}) for name, changes in VARIANTS.items()},
        "wrong": run_wrong(),
    })


if __name__ == "__main__":
    main()
