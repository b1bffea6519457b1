#!/usr/bin/env python3
"""Writes tiny_experts.json: losses, logits and gradients of tiny models with experts, in double.

Only needed to make the file anew: python3 make_tiny_experts.py > tiny_experts.json (made with PyTorch
2.15); the tests read the file. Models are folders of Hugging Face's: a config.json and tensors, whose
weights are noise of their numbers. They are computed here from these tensors as transformers computes
them, expert by expert; transformers itself gives the same losses in fp32. "wrong" are losses of
mistakes that would show in no shape.
"""
import math

import numpy
import torch

import tiny_models as tiny
from make_tiny_llama import WHOLE_IDS, mixed, rotate, visible_keys

SIZES = {"vocab_size": 32, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 64, "rope_theta": 10000.0,
         "rms_norm_eps": 1e-6, "tie_word_embeddings": False}
CONFIGS = {
    "mixtral": {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", **SIZES,
                "rms_norm_eps": 1e-5, "intermediate_size": 12, "num_local_experts": 4,
                "num_experts_per_tok": 2},
    "qwen2-moe": {"architectures": ["Qwen2MoeForCausalLM"], "model_type": "qwen2_moe", **SIZES,
                  "num_key_value_heads": 4, "intermediate_size": 24, "moe_intermediate_size": 8,
                  "shared_expert_intermediate_size": 12, "num_experts": 6,
                  "num_experts_per_tok": 2, "norm_topk_prob": False},
    "qwen3-moe": {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", **SIZES,
                  "head_dim": 8, "intermediate_size": 24, "moe_intermediate_size": 8,
                  "num_experts": 8, "num_experts_per_tok": 3, "norm_topk_prob": True,
                  "mlp_only_layers": [0]},
    # What the three above have not: dense, and experts in every second layer, counted from 1.
    "qwen3": {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", **SIZES, "head_dim": 8,
              "intermediate_size": 24},
    "qwen3-moe, every second layer": {
        "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", **SIZES, "head_dim": 8,
        "num_hidden_layers": 3, "intermediate_size": 24, "moe_intermediate_size": 8,
        "num_experts": 4, "num_experts_per_tok": 2, "norm_topk_prob": False,
        "decoder_sparse_step": 2},
}
BALANCE, LOGITS = 0.02, 0.001


def head_size(c):
    return c.get("head_dim", c["hidden_size"] // c["num_attention_heads"])


def experts_of(c):
    return c.get("num_local_experts", c.get("num_experts", 0))


def has_experts(c, layer):
    return (experts_of(c) > 0 and (layer + 1) % c.get("decoder_sparse_step", 1) == 0
            and layer not in c.get("mlp_only_layers", []))


def mlp_tensors(prefix, names, ffn, hidden):
    shapes = {"gate": (ffn, hidden), "up": (ffn, hidden), "down": (hidden, ffn)}
    return [(f"{prefix}{name}.weight", shapes[kind], 0.0, 0.5) for name, kind in names]


QWEN = (("gate_proj", "gate"), ("up_proj", "up"), ("down_proj", "down"))
MIXTRAL = (("w1", "gate"), ("w2", "down"), ("w3", "up"))


def tensors_of(c):
    """Name, shape, base and scale of each, in the order in which they are numbered."""
    h, width = c["hidden_size"], head_size(c)
    kind = c["model_type"]
    rows = {"q": c["num_attention_heads"] * width, "k": c["num_key_value_heads"] * width}
    rows["v"] = rows["k"]
    tensors = [("model.embed_tokens.weight", (c["vocab_size"], h), 0.0, 1.0)]
    for i in range(c["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        tensors.append((layer + "input_layernorm.weight", (h,), 1.0, 0.1))
        for name, count in rows.items():
            tensors.append((f"{layer}self_attn.{name}_proj.weight", (count, h), 0.0, 0.5))
            if kind == "qwen2_moe":
                tensors.append((f"{layer}self_attn.{name}_proj.bias", (count,), 0.0, 0.1))
        tensors.append((layer + "self_attn.o_proj.weight", (h, rows["q"]), 0.0, 0.5))
        if kind.startswith("qwen3"):
            for name in ("q", "k"):
                tensors.append((f"{layer}self_attn.{name}_norm.weight", (width,), 1.0, 0.1))
        tensors.append((layer + "post_attention_layernorm.weight", (h,), 1.0, 0.1))
        if not has_experts(c, i):
            tensors += mlp_tensors(layer + "mlp.", QWEN, c["intermediate_size"], h)
            continue
        block = layer + ("block_sparse_moe." if kind == "mixtral" else "mlp.")
        tensors.append((block + "gate.weight", (experts_of(c), h), 0.0, 0.5))
        names, ffn = ((MIXTRAL, c["intermediate_size"]) if kind == "mixtral" else
                      (QWEN, c["moe_intermediate_size"]))
        for e in range(experts_of(c)):
            tensors += mlp_tensors(f"{block}experts.{e}.", names, ffn, h)
        if kind == "qwen2_moe":
            tensors += mlp_tensors(block + "shared_expert.", QWEN,
                                   c["shared_expert_intermediate_size"], h)
            tensors.append((block + "shared_expert_gate.weight", (1, h), 0.0, 0.5))
    return tensors + [("model.norm.weight", (h,), 1.0, 0.1),
                      ("lm_head.weight", (c["vocab_size"], h), 0.0, 0.5)]


def weights_of(c):
    weights = {}
    for number, (name, shape, base, scale) in enumerate(tensors_of(c)):
        count = math.prod(shape)
        noise = 2.0 * mixed(65536 * number + numpy.arange(1, count + 1)) / 2.0**32 - 1.0
        value = (base + scale * noise).astype(numpy.float32).astype(numpy.float64)
        weights[name] = torch.tensor(value).reshape(shape).requires_grad_()
    return weights


def rms(x, weight, c):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + c["rms_norm_eps"]) * weight


def attention(x, w, name, c, wrong):
    b, s, _ = x.shape
    width, heads, groups = head_size(c), c["num_attention_heads"], c["num_key_value_heads"]

    def projected(letter):
        y = x @ w[f"{name}{letter}_proj.weight"].t()
        if f"{name}{letter}_proj.bias" in w:
            y = y + w[f"{name}{letter}_proj.bias"]
        y = y.view(b, s, -1, width)
        norm = f"{name}{letter}_norm.weight"
        return rms(y, w[norm], c) if norm in w and wrong != "no norms of queries and keys" else y

    turn = {"dimensions": width, "base": c["rope_theta"], "scaling": "none", "factor": 1.0,
            "original": 0.0, "interpolation": 1.0, "attention_factor": 1.0, "interleaved": False}
    q, k, v = rotate(projected("q"), turn), rotate(projected("k"), turn), projected("v")
    k, v = (part.repeat_interleave(heads // groups, dim=2) for part in (k, v))
    scores = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(width)
    scores = scores.masked_fill(~visible_keys(s, 0, None), -math.inf)
    context = torch.einsum("bhij,bjhd->bihd", torch.softmax(scores, dim=-1), v)
    return context.flatten(2) @ w[name + "o_proj.weight"].t()


def mlp(x, w, name, gate="gate_proj", up="up_proj", down="down_proj"):
    y = x @ w[f"{name}{gate}.weight"].t()
    y = y * torch.sigmoid(y) * (x @ w[f"{name}{up}.weight"].t())
    return y @ w[f"{name}{down}.weight"].t()


def experts(x, w, name, c, notes, wrong):
    """The MLP of a layer with experts. `notes` get the tokens of each expert and the losses of the router."""
    rows = x.flatten(0, 1)
    logits = rows @ w[name + "gate.weight"].t()
    scores = torch.softmax(logits, dim=-1)
    chosen, indices = torch.topk(scores, c["num_experts_per_tok"], dim=-1)
    renormalised = c["model_type"] == "mixtral" or c["norm_topk_prob"]
    if renormalised != (wrong == "the other probabilities"):
        chosen = chosen / chosen.sum(-1, keepdim=True)
    linears = ("w1", "w3", "w2") if c["model_type"] == "mixtral" else QWEN_LINEARS
    if wrong == "up before gate":
        linears = (linears[1], linears[0], linears[2])
    y = torch.zeros_like(rows)
    for e in range(experts_of(c)):
        token, place = torch.where(indices == e)
        y = y.index_add(0, token, mlp(rows[token], w, f"{name}experts.{e}.", *linears) *
                        chosen[token, place][:, None])
    if c["model_type"] == "qwen2_moe":
        shared = mlp(rows, w, name + "shared_expert.")
        gate = torch.sigmoid(rows @ w[name + "shared_expert_gate.weight"].t())
        y = y + (shared if wrong == "no gate of the shared expert" else gate * shared)
    counts = torch.bincount(indices.flatten(), minlength=experts_of(c))
    notes["tokens of experts"].append(counts.tolist())
    notes["balance"].append(experts_of(c) / (c["num_experts_per_tok"] * len(rows)**2) *
                            (counts * scores.sum(0)).sum())
    notes["z"].append(torch.logsumexp(logits, -1).square().mean())
    return y.view_as(x)


QWEN_LINEARS = ("gate_proj", "up_proj", "down_proj")


def logits_of(w, c, tokens, notes, wrong=""):
    x = w["model.embed_tokens.weight"][tokens]
    for i in range(c["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        x = x + attention(rms(x, w[layer + "input_layernorm.weight"], c), w, layer + "self_attn.",
                          c, wrong)
        y = rms(x, w[layer + "post_attention_layernorm.weight"], c)
        if has_experts(c, i):
            block = layer + ("block_sparse_moe." if c["model_type"] == "mixtral" else "mlp.")
            x = x + experts(y, w, block, c, notes, wrong)
        else:
            x = x + mlp(y, w, layer + "mlp.")
    return rms(x, w["model.norm.weight"], c) @ w["lm_head.weight"].t()


def computed(c, wrong=""):
    """Weights, logits, the mean loss, and notes."""
    ids = torch.tensor(WHOLE_IDS)
    w = weights_of(c)
    notes = {"tokens of experts": [], "balance": [], "z": []}
    logits = logits_of(w, c, ids[:, :-1], notes, wrong)
    return w, logits, tiny.row_losses(logits, ids[:, 1:]).mean(), notes


def norms_of(total, w):
    gradients = tiny.gradients_of(total, w)
    return {"grad_norm": tiny.gradient_norm(gradients),
            "gradients": {name: float(g.norm()) for name, g in gradients.items()}}


def run(c):
    w, logits, loss, notes = computed(c)
    return {"config": c, "tensors": tensors_of(c), "loss": loss.item(),
            "logits": logits[0, 0, :4].tolist(), "tokens of experts": notes["tokens of experts"],
            **norms_of(loss, w)}


def run_balanced(c):
    """With the losses of routers, summed over layers."""
    w, _, loss, notes = computed(c)
    balance, z = BALANCE * sum(notes["balance"]), LOGITS * sum(notes["z"])
    return {"coefficients": {"balance": BALANCE, "z": LOGITS}, "balance": balance.item(),
            "z": z.item(), **norms_of(loss + balance + z, w)}


WRONG = [("mixtral", "the other probabilities"), ("mixtral", "up before gate"),
         ("qwen2-moe", "the other probabilities"), ("qwen2-moe", "no gate of the shared expert"),
         ("qwen3-moe", "the other probabilities"), ("qwen3-moe", "no norms of queries and keys"),
         ("qwen3", "no norms of queries and keys")]


def main():
    wrong = [{"model": model, "mistake": mistake, "loss": computed(CONFIGS[model], mistake)[2].item()}
             for model, mistake in WRONG]
    tiny.dump({"ids": WHOLE_IDS, **{f"model {name}": run(c) for name, c in CONFIGS.items()},
               "balanced": run_balanced(CONFIGS["mixtral"]), "wrong": wrong})


if __name__ == "__main__":
    main()
