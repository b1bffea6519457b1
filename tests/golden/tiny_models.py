"""What make_tiny_bert.py and make_tiny_t5.py share: formula weights, the layer, AdamW steps.

Everything is computed by PyTorch in double. Models are written with tensor operations alone, so
that nothing but autograd, softmax and layer_norm is PyTorch's, and the optimizer torch.optim.AdamW.
What Megatron's own code gives for these models differs by 1e-11 where the MLP's GeLU is the tanh
form, whose sqrt(2 / pi) has 8 digits there.

Initial parameters: names in byte order have the numbers q = 0, 1, ...; element i (row-major) is
scale * sqrt(3) * (2 * mix(i, q) / 2**32 - 1), plus 1 for the weights of norms, rounded to fp32.
A vector is summed up by its norm and its product with the numbers mix(i, 1000) / 2**32 - 1/2.
"""
import json
import math

import numpy
import torch

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)

ADAM = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "clip_grad": 1.0, "weight_decay": 0.01}
LEARNING_RATES = [0.002, 0.003, 0.004]
EPSILON = 1e-5
SUMMARY_STREAM = 1000
MASK = 0xFFFFFFFF


def mix(count, stream):
    """The hashes of 0 ... count - 1 in a stream, 32 bits each."""
    x = numpy.arange(count, dtype=numpy.uint64) * numpy.uint64(0x9E3779B1)
    x = (x + numpy.uint64(stream * 0x85EBCA77 & MASK)) & numpy.uint64(MASK)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = (x ^ (x >> numpy.uint64(shift))) * numpy.uint64(factor) & numpy.uint64(MASK)
    return x ^ (x >> numpy.uint64(16))


def is_norm_weight(name):
    return name.endswith("weight") and ("layernorm" in name or "layer_norm" in name)


def formula_parameters(shapes, scale):
    """{name: tensor with a gradient}, in byte order of the names."""
    parameters = {}
    for number, name in enumerate(sorted(shapes, key=str.encode)):
        count = math.prod(shapes[name])
        value = scale * math.sqrt(3.0) * (2.0 * mix(count, number) / 2.0**32 - 1.0)
        value = (value + is_norm_weight(name)).astype(numpy.float32).astype(numpy.float64)
        parameters[name] = torch.tensor(value).reshape(shapes[name]).requires_grad_()
    return parameters


def linear_shapes(name, rows, columns):
    return {name + ".weight": (rows, columns), name + ".bias": (rows,)}


def norm_shapes(name, hidden):
    return {name + ".weight": (hidden,), name + ".bias": (hidden,)}


def layer_shapes(layer, hidden, ffn, has_cross_attention=False):
    shapes = {**norm_shapes(layer + "input_layernorm", hidden),
              **linear_shapes(layer + "self_attention.linear_qkv", 3 * hidden, hidden),
              **linear_shapes(layer + "self_attention.linear_proj", hidden, hidden),
              **norm_shapes(layer + "pre_mlp_layernorm", hidden),
              **linear_shapes(layer + "mlp.linear_fc1", ffn, hidden),
              **linear_shapes(layer + "mlp.linear_fc2", hidden, ffn)}
    if has_cross_attention:
        shapes |= {**norm_shapes(layer + "pre_cross_attn_layernorm", hidden),
                   **linear_shapes(layer + "cross_attention.linear_q", hidden, hidden),
                   **linear_shapes(layer + "cross_attention.linear_kv", 2 * hidden, hidden),
                   **linear_shapes(layer + "cross_attention.linear_proj", hidden, hidden)}
    return shapes


def gelu(x, kind):
    if kind == "erf":
        return 0.5 * x * (1.0 + torch.erf(x / math.sqrt(2.0)))
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def norm(x, p, name):
    return torch.nn.functional.layer_norm(x, x.shape[-1:], p[name + ".weight"], p[name + ".bias"],
                                          EPSILON)


def linear(x, p, name):
    return x @ p[name + ".weight"].t() + p[name + ".bias"]


def attend(q, k, v, visible, bias):
    """q, k, v [b, s, heads, head size]; visible: what [b, heads, query, key] may be seen.

    A score that may not be seen is -10000, as in Megatron: the weight of its key is zero, but where
    nothing may be seen all weights are equal.
    """
    scores = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(q.shape[-1])
    if bias is not None:
        scores = scores + bias
    weights = torch.softmax(scores.masked_fill(~visible, -10000.0), dim=-1)
    return torch.einsum("bhij,bjhd->bihd", weights, v).flatten(2)


def self_attention(x, p, name, heads, visible, bias=None):
    """Rows of linear_qkv are, for each head, its query, key and value."""
    b, s, hidden = x.shape
    q, k, v = linear(x, p, name + ".linear_qkv").view(b, s, heads, 3, hidden // heads).unbind(3)
    return linear(attend(q, k, v, visible, bias), p, name + ".linear_proj")


def cross_attention(x, encoded, p, name, heads, visible):
    """Rows of linear_kv are, for each head, its key and value."""
    b, s, hidden = x.shape
    q = linear(x, p, name + ".linear_q").view(b, s, heads, hidden // heads)
    kv = linear(encoded, p, name + ".linear_kv")
    k, v = kv.view(b, encoded.shape[1], heads, 2, hidden // heads).unbind(3)
    return linear(attend(q, k, v, visible, None), p, name + ".linear_proj")


def mlp(x, p, name, kind):
    return linear(gelu(linear(x, p, name + ".linear_fc1"), kind), p, name + ".linear_fc2")


def row_losses(logits, labels):
    """Of every row; a label below 0 stands for any class, as its row does not count."""
    true = logits.gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    return torch.logsumexp(logits, dim=-1) - true


def tensors(batch):
    return {name: torch.tensor(column) for name, column in batch.items()}


def gradient_norm(gradients):
    return math.sqrt(sum(float(g.square().sum()) for g in gradients.values()))


def gradients_of(loss, parameters):
    values = torch.autograd.grad(loss, list(parameters.values()))
    return dict(zip(parameters, values))


def summary(tensor):
    flat = tensor.detach().reshape(-1)
    direction = torch.tensor(mix(flat.numel(), SUMMARY_STREAM) / 2.0**32 - 0.5)
    return [float(f"{number.item():.12g}") for number in (flat.norm(), flat.dot(direction))]


def summaries(named):
    return [summary(tensor) for tensor in named.values()]


def adam_steps(parameters, batches_of_step, losses_of):
    """Three steps; losses_of(parameters, microbatches) gives {name: mean over the global batch}."""
    optimizer = torch.optim.AdamW(
        [{"params": [w], "weight_decay": ADAM["weight_decay"] if w.dim() > 1 else 0.0}
         for w in parameters.values()], betas=(ADAM["beta1"], ADAM["beta2"]), eps=ADAM["epsilon"])
    steps = []
    for number, lr in enumerate(LEARNING_RATES):
        batches = batches_of_step(number)
        losses = losses_of(parameters, [tensors(batch) for batch in batches])
        optimizer.zero_grad()
        sum(losses.values()).backward()
        gradients = summaries({name: w.grad for name, w in parameters.items()})
        total = torch.nn.utils.clip_grad_norm_(list(parameters.values()), ADAM["clip_grad"])
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.step()
        steps.append({"batches": batches, "lr": lr,
                      **{name: loss.item() for name, loss in losses.items()},
                      "grad_norm": total.item(), "gradients": gradients,
                      "weights": summaries(parameters)})
    return steps


def rounded(value):
    """Numbers with 15 digits, which is what the sums are good for."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.15g}") if isinstance(value, float) else value


def dump(document):
    """One line per entry of the document."""
    lines = [f"{json.dumps(key)}:{json.dumps(rounded(value), separators=(',', ':'))}"
             for key, value in document.items()]
    print("{" + ",\n".join(lines) + "}")
