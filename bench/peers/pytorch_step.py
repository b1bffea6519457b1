#!/usr/bin/env python3
"""Training steps of bench_step's models in PyTorch: the same sizes, batch and arithmetic, by means
that PyTorch's users have (scaled_dot_product_attention, tanh GeLU, fused AdamW, bf16 autocast).

Exit status 77 when PyTorch is not installed.
"""

import argparse
import json
import math
import os
import resource
import statistics
import sys
import time

MODELS = {  # layers, hidden, heads, vocabulary (padded), timed steps
    "gpt2-124m": (12, 768, 12, 50304, 8),
    "small": (4, 256, 8, 8192, 60),
}
WARM_UP_STEPS = 2


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", choices=MODELS, default="gpt2-124m")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32",
                        help="bf16: autocast with fp32 weights")
    parser.add_argument("--weights", choices=("f32", "bf16"), default="f32",
                        help="bf16 (with --dtype bf16): weights, gradients and Adam's moments too")
    parser.add_argument("--threads", type=int, default=0, help="0: all cores")
    parser.add_argument("--steps", type=int, default=0, help="0: by the model")
    parser.add_argument("--micro-batch", type=int, default=4)
    parser.add_argument("--global-batch", type=int, default=0, help="0: one microbatch")
    parser.add_argument("--seq-length", type=int, default=256)
    parser.add_argument("--compile", action="store_true", help="torch.compile")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def cores():
    return len(os.sched_getaffinity(0))


def build_model(torch, layers, hidden, heads, vocabulary, positions):
    nn = torch.nn
    functional = torch.nn.functional

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
            self.qkv = nn.Linear(hidden, 3 * hidden)
            self.projection = nn.Linear(hidden, hidden)
            self.fc1 = nn.Linear(hidden, 4 * hidden)
            self.fc2 = nn.Linear(4 * hidden, hidden)

        def forward(self, x):
            batch, sequence, _ = x.shape
            query, key, value = (
                part.view(batch, sequence, heads, hidden // heads).transpose(1, 2)
                for part in self.qkv(self.norm1(x)).chunk(3, dim=-1))
            context = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + self.projection(context.transpose(1, 2).reshape(batch, sequence, hidden))
            return x + self.fc2(functional.gelu(self.fc1(self.norm2(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(vocabulary, hidden)
            self.positions = nn.Embedding(positions, hidden)
            self.layers = nn.ModuleList(Layer() for _ in range(layers))
            self.norm = nn.LayerNorm(hidden)
            for name, parameter in self.named_parameters():
                if parameter.dim() == 2:
                    residual = name.endswith(("projection.weight", "fc2.weight"))
                    nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers if residual else 1))
                elif name.endswith("bias"):
                    nn.init.zeros_(parameter)

        def forward(self, tokens, labels):
            x = self.words(tokens) + self.positions.weight[:tokens.shape[1]]
            for layer in self.layers:
                x = layer(x)
            logits = functional.linear(self.norm(x), self.words.weight)  # tied
            return functional.cross_entropy(logits.view(-1, vocabulary), labels.view(-1))

    return Gpt()


def make_optimizer(torch, model):
    decayed = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    return torch.optim.AdamW([{"params": decayed, "weight_decay": 0.01},
                              {"params": others, "weight_decay": 0.0}], lr=1e-4, fused=True)


def timed_steps(torch, model, options, vocabulary, steps):
    loss_of = torch.compile(model) if options.compile else model
    optimizer = make_optimizer(torch, model)
    microbatches = options.global_batch // options.micro_batch
    autocast = torch.autocast("cpu", torch.bfloat16,
                              enabled=options.dtype == "bf16" and options.weights == "f32")
    seconds = []
    generator = torch.Generator().manual_seed(1)
    for step in range(WARM_UP_STEPS + steps):
        batches = [torch.randint(vocabulary, (options.micro_batch, options.seq_length + 1),
                                 generator=generator) for _ in range(microbatches)]
        begin = time.perf_counter()
        loss_sum = 0.0
        for batch in batches:
            with autocast:
                loss = loss_of(batch[:, :-1], batch[:, 1:].contiguous()) / microbatches
            loss.backward()
            loss_sum += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step >= WARM_UP_STEPS:
            seconds.append(time.perf_counter() - begin)
    return seconds, loss_sum


def main():
    options = parse()
    options.global_batch = options.global_batch or options.micro_batch
    options.threads = options.threads or cores()
    if options.global_batch % options.micro_batch:
        sys.exit("--global-batch must be a multiple of --micro-batch")
    if options.weights == "bf16" and options.dtype != "bf16":
        sys.exit("--weights bf16 needs --dtype bf16")
    try:
        import torch
    except ImportError as error:
        print(f"pytorch_step: PyTorch is not installed for {sys.executable} ({error}); "
              "bench/peers/README.md says how to", file=sys.stderr)
        return 77
    torch.set_num_threads(options.threads)
    torch.manual_seed(1234)
    layers, hidden, heads, vocabulary, steps = MODELS[options.model]
    model = build_model(torch, layers, hidden, heads, vocabulary, options.seq_length)
    if options.weights == "bf16":
        model = model.to(torch.bfloat16)
    seconds, loss = timed_steps(torch, model, options, vocabulary, options.steps or steps)
    tokens = options.global_batch * options.seq_length
    result = {
        "peer": f"PyTorch {torch.__version__}" + (" compiled" if options.compile else " eager"),
        "setting": {key: getattr(options, key) for key in
                    ("model", "dtype", "weights", "threads", "micro_batch", "global_batch")},
        "steps": len(seconds),
        "tokens_per_second": tokens / statistics.median(seconds),
        "slowest": tokens / max(seconds),
        "fastest": tokens / min(seconds),
        "resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "loss": loss,
    }
    if options.json:
        print(json.dumps(result))
    else:
        print(f"{result['peer']}, {options.model} {options.dtype} ({options.weights} weights), "
              f"{options.threads} threads\n"
              f"  tokens/s {result['tokens_per_second']:.1f} median of {len(seconds)} steps; "
              f"{result['slowest']:.1f} to {result['fastest']:.1f}\n"
              f"  resident {result['resident_bytes'] / 2**30:.2f} GiB at most\n"
              f"  loss     {loss:.4f} after {len(seconds) + WARM_UP_STEPS} steps")
    return 0


if __name__ == "__main__":
    sys.exit(main())
