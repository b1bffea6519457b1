#!/usr/bin/env python3
"""Training steps of bench_step's models in PyTorch: the same sizes, batch and arithmetic, by means
that PyTorch's users have (scaled_dot_product_attention, tanh GeLU, fused AdamW, bf16 autocast).

Exit status 77 when PyTorch is not installed.
"""

import argparse
import json
import os
import resource
import statistics
import sys
import time

from pytorch_models import FAMILY, MODELS, SIZES, build_model, random_batch, tokens_per_sample

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
    parser.add_argument("--seq-length", type=int, default=256, help="T5: of the encoder")
    parser.add_argument("--experts", choices=("loop", "grouped"), default="loop",
                        help="of a mixture of experts: a loop over them, or one grouped product")
    parser.add_argument("--compile", action="store_true", help="torch.compile")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def cores():
    return len(os.sched_getaffinity(0))


def make_optimizer(torch, model):
    decayed = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    return torch.optim.AdamW([{"params": decayed, "weight_decay": 0.01},
                              {"params": others, "weight_decay": 0.0}], lr=1e-4, fused=True)


def timed_steps(torch, model, options, family, vocabulary, steps):
    loss_of = torch.compile(model) if options.compile else model
    optimizer = make_optimizer(torch, model)
    microbatches = options.global_batch // options.micro_batch
    autocast = torch.autocast("cpu", torch.bfloat16,
                              enabled=options.dtype == "bf16" and options.weights == "f32")
    seconds = []
    generator = torch.Generator().manual_seed(1)
    for step in range(WARM_UP_STEPS + steps):
        batches = [random_batch(torch, family, options.micro_batch, options.seq_length, vocabulary,
                                generator) for _ in range(microbatches)]
        begin = time.perf_counter()
        loss_sum = 0.0
        for batch in batches:
            with autocast:
                loss = loss_of(*batch) / microbatches
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
    family = MODELS[options.model][FAMILY]
    layers, hidden, heads, vocabulary, steps = MODELS[options.model][SIZES]
    model = build_model(torch, family, layers, hidden, heads, vocabulary, options.seq_length,
                        options.experts)
    if options.weights == "bf16":
        model = model.to(torch.bfloat16)
    seconds, loss = timed_steps(torch, model, options, family, vocabulary,
                                options.steps or steps)
    tokens = options.global_batch * tokens_per_sample(family, options.seq_length)
    way = "compiled" if options.compile else "eager"
    if family == "mixtral":
        way += f", {options.experts}"
    result = {
        "peer": f"PyTorch {torch.__version__} {way}",
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
