#!/usr/bin/env python3
"""Writes tiny_gpt.json: losses, gradients and AdamW steps of tiny GPTs by PyTorch in double.

Only needed to make the file anew: python3 make_tiny_gpt.py > tiny_gpt.json (made with PyTorch
2.15); the tests read the file. The model is written with tensor operations alone, so that nothing
but autograd, softmax and layer_norm is PyTorch's, and the optimizer torch.optim.AdamW.

Initial parameters and the vectors of `dots` are noise(stream, index), an integer hash that both
sides compute exactly: parameter number p (in global order) is noise(p, e) / 2 by row-major element
e, plus 1 for norm weights. Dots are with noise(1000 + k, e), k = 0, 1.
"""
import json
import math

import torch

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)

VOCABULARY, PADDED, POSITIONS = 61, 64, 8
LAYERS, HIDDEN, FFN, HEADS, HEAD_SIZE = 2, 12, 24, 4, 3
SEQUENCE, MICRO_BATCH, MICROBATCHES, STEPS = 7, 2, 2, 3
ADAM = {"beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8, "clip_grad": 1.0, "weight_decay": 0.1}
LR = {"max_lr": 0.02, "warmup_init_lr": 0.005, "warmup_samples": 8}
MASK = 0xFFFFFFFF


def noise(stream, index):
    """A number in [-1/2, 1/2) with 20 bits."""
    v = (index * 2654435761 + stream * 40503 + 12345) & MASK
    v = ((v ^ (v >> 16)) * 2246822519) & MASK
    v = ((v ^ (v >> 13)) * 3266489917) & MASK
    return ((v ^ (v >> 16)) >> 12) / 1048576.0 - 0.5


def noise_tensor(stream, count):
    return torch.tensor([noise(stream, e) for e in range(count)])


def parameter_shapes(groups, tied):
    qkv = (HEADS + 2 * groups) * HEAD_SIZE
    shapes = [("embedding.word_embeddings.weight", (VOCABULARY, HIDDEN)),
              ("embedding.position_embeddings.weight", (POSITIONS, HIDDEN))]
    for i in range(LAYERS):
        layer = f"decoder.layers.{i}."
        shapes += [(layer + "input_layernorm.weight", (HIDDEN,)),
                   (layer + "input_layernorm.bias", (HIDDEN,)),
                   (layer + "self_attention.linear_qkv.weight", (qkv, HIDDEN)),
                   (layer + "self_attention.linear_qkv.bias", (qkv,)),
                   (layer + "self_attention.linear_proj.weight", (HIDDEN, HEADS * HEAD_SIZE)),
                   (layer + "self_attention.linear_proj.bias", (HIDDEN,)),
                   (layer + "pre_mlp_layernorm.weight", (HIDDEN,)),
                   (layer + "pre_mlp_layernorm.bias", (HIDDEN,)),
                   (layer + "mlp.linear_fc1.weight", (FFN, HIDDEN)),
                   (layer + "mlp.linear_fc1.bias", (FFN,)),
                   (layer + "mlp.linear_fc2.weight", (HIDDEN, FFN)),
                   (layer + "mlp.linear_fc2.bias", (HIDDEN,))]
    shapes += [("decoder.final_layernorm.weight", (HIDDEN,)),
               ("decoder.final_layernorm.bias", (HIDDEN,))]
    if not tied:
        shapes.append(("output_layer.weight", (VOCABULARY, HIDDEN)))
    return shapes


def gelu(x, kind):
    if kind == "erf":
        return 0.5 * x * (1.0 + torch.erf(x / math.sqrt(2.0)))
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def norm(x, p, name):
    weight, bias = p[name + ".weight"], p[name + ".bias"]
    return torch.nn.functional.layer_norm(x, (HIDDEN,), weight, bias, 1e-5)


def linear(x, p, name):
    return x @ p[name + ".weight"].t() + p[name + ".bias"]


def attention(x, p, name, groups, documents):
    b, s, _ = x.shape
    per_group = HEADS // groups
    qkv = linear(x, p, name + ".linear_qkv").view(b, s, groups, per_group + 2, HEAD_SIZE)
    q = qkv[:, :, :, :per_group].reshape(b, s, HEADS, HEAD_SIZE)
    k = qkv[:, :, :, per_group].repeat_interleave(per_group, dim=2)
    v = qkv[:, :, :, per_group + 1].repeat_interleave(per_group, dim=2)
    scores = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(HEAD_SIZE)
    visible = torch.ones(s, s).tril().bool().expand(b, s, s)
    if documents is not None:
        visible = visible & (documents[:, :, None] == documents[:, None, :])
    scores = scores.masked_fill(~visible[:, None], -math.inf)
    context = torch.einsum("bhij,bjhd->bihd", torch.softmax(scores, dim=-1), v)
    return linear(context.reshape(b, s, HEADS * HEAD_SIZE), p, name + ".linear_proj")


def loss_sum(p, variant, batch):
    """Sum of the token losses that the mask keeps."""
    x = p["embedding.word_embeddings.weight"][batch["tokens"]]
    x = x + p["embedding.position_embeddings.weight"][batch["positions"]]
    documents = batch["documents"] if variant["mask_documents"] else None
    for i in range(LAYERS):
        layer = f"decoder.layers.{i}."
        x = x + attention(norm(x, p, layer + "input_layernorm"), p, layer + "self_attention",
                          variant["query_groups"], documents)
        y = linear(norm(x, p, layer + "pre_mlp_layernorm"), p, layer + "mlp.linear_fc1")
        x = x + linear(gelu(y, variant["gelu"]), p, layer + "mlp.linear_fc2")
    x = norm(x, p, "decoder.final_layernorm")
    table = "embedding.word_embeddings.weight" if variant["tied"] else "output_layer.weight"
    logits = x @ p[table].t()
    labels = batch["labels"][..., None]
    losses = torch.logsumexp(logits, dim=-1) - logits.gather(-1, labels)[..., 0]
    return (losses * batch["loss_mask"]).sum()


def make_batch(variant, number):
    """One microbatch, everything [b][s]."""
    def table(stream, of):
        return [[of(math.floor((noise(stream + b, s) + 0.5) * VOCABULARY), s)
                 for s in range(SEQUENCE)] for b in range(MICRO_BATCH)]

    first = 100 * (number + 1)
    second_document = 3 if variant["mask_documents"] else SEQUENCE
    return {
        "tokens": table(first, lambda token, s: token),
        "labels": table(first + 10, lambda token, s: token),
        "loss_mask": table(first + 20,
                           lambda t, s: 0.0 if variant["masked"] and t % 4 == 0 else 1.0),
        "positions": table(first, lambda t, s: s if s < second_document else s - second_document),
        "documents": table(first, lambda t, s: 0 if s < second_document else 1),
    }


def summary(tensor):
    flat = tensor.detach().reshape(-1)
    return {"norm": flat.norm().item(),
            "dots": [flat.dot(noise_tensor(1000 + k, flat.numel())).item() for k in range(2)]}


def run(variant):
    parameters, p = [], {}
    shapes = parameter_shapes(variant["query_groups"], variant["tied"])
    for number, (name, shape) in enumerate(shapes):
        value = noise_tensor(number, math.prod(shape)).reshape(shape) / 2
        if name.endswith("norm.weight"):
            value = value + 1.0
        p[name] = value.requires_grad_()
        parameters.append((name, p[name]))
    optimizer = torch.optim.AdamW(
        [{"params": [w], "weight_decay": ADAM["weight_decay"] if w.dim() > 1 else 0.0}
         for _, w in parameters], betas=(ADAM["beta1"], ADAM["beta2"]), eps=ADAM["epsilon"])
    steps = []
    for step in range(STEPS):
        batches = [make_batch(variant, step * MICROBATCHES + m) for m in range(MICROBATCHES)]
        samples = step * MICROBATCHES * MICRO_BATCH
        rise = (LR["max_lr"] - LR["warmup_init_lr"]) * samples / LR["warmup_samples"]
        lr = LR["warmup_init_lr"] + rise
        optimizer.zero_grad()
        tensors = [{key: torch.tensor(value) for key, value in batch.items()} for batch in batches]
        tokens = sum(batch["loss_mask"].sum() for batch in tensors)
        loss = sum(loss_sum(p, variant, batch) for batch in tensors) / tokens
        loss.backward()
        gradients = {name: w.grad.clone() for name, w in parameters}
        clipped = torch.nn.utils.clip_grad_norm_([w for _, w in parameters], ADAM["clip_grad"])
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.step()
        steps.append({"batches": batches, "lr": lr, "loss": loss.item(),
                      "grad_norm": clipped.item(),
                      "gradients": {name: summary(g) for name, g in gradients.items()},
                      "weights": {name: summary(w) for name, w in parameters}})
        if step == 0 and variant["full_gradients"]:
            steps[0]["full_gradients"] = {
                name: g.reshape(-1).tolist() for name, g in gradients.items()}
    return {**variant, "steps": steps}


def main():
    base = {"gelu": "tanh", "query_groups": HEADS, "tied": True, "masked": False,
            "mask_documents": False, "full_gradients": False}
    variants = [
        {**base, "name": "base", "full_gradients": True},
        {**base, "name": "erf_masked_tokens", "gelu": "erf", "masked": True},
        {**base, "name": "grouped_queries_untied", "query_groups": 2, "tied": False},
        {**base, "name": "one_key_head_documents", "query_groups": 1, "mask_documents": True,
         "masked": True},
    ]
    print(json.dumps({
        "vocabulary": VOCABULARY, "padded_vocabulary": PADDED, "max_positions": POSITIONS,
        "layers": LAYERS, "hidden": HIDDEN, "ffn_hidden": FFN, "heads": HEADS,
        "head_size": HEAD_SIZE, "sequence": SEQUENCE, "micro_batch": MICRO_BATCH,
        "microbatches": MICROBATCHES, "adam": ADAM, "lr": LR,
        "variants": [run(variant) for variant in variants],
    }, indent=None, separators=(",", ":")))


if __name__ == "__main__":
    main()
