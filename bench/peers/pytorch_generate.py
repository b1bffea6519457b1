#!/usr/bin/env python3
"""bench_generate's models in PyTorch: prompts and decoding over a key/value cache of fixed size, by
means that PyTorch's users have (scaled_dot_product_attention, inference_mode, --compile).

Exit status 77 when PyTorch is not installed.
"""

import argparse
import json
import os
import statistics
import sys
import time

MODELS = {  # layers, hidden, heads, ffn, vocabulary, is a Llama
    "gpt2-124m": (12, 768, 12, 3072, 50257, False),
    "llama-160m": (12, 768, 12, 3072, 32000, True),
    "small": (4, 256, 8, 1024, 8192, False),
}
BASE = 10000.0


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", choices=MODELS, default="gpt2-124m")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--sequences", type=int, default=1)
    parser.add_argument("--threads", type=int, default=0, help="0: all cores")
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--compile", action="store_true", help="torch.compile of a step")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def build_model(torch, layers, hidden, heads, ffn, vocabulary, is_llama, positions, sequences):
    nn = torch.nn
    functional = torch.nn.functional
    size = hidden // heads
    bias = not is_llama

    def norm():
        return nn.RMSNorm(hidden, eps=1e-5) if is_llama else nn.LayerNorm(hidden)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = norm(), norm()
            self.qkv = nn.Linear(hidden, 3 * hidden, bias=bias)
            self.projection = nn.Linear(hidden, hidden, bias=bias)
            self.fc1 = nn.Linear(hidden, (2 if is_llama else 1) * ffn, bias=bias)
            self.fc2 = nn.Linear(ffn, hidden, bias=bias)
            shape = (sequences, heads, positions, size)
            self.register_buffer("keys", torch.zeros(shape))
            self.register_buffer("values", torch.zeros(shape))

        def forward(self, x, at, mask, angles):
            samples, length, _ = x.shape
            query, key, value = (part.view(samples, length, heads, size).transpose(1, 2)
                                 for part in self.qkv(self.norm1(x)).chunk(3, dim=-1))
            if is_llama:
                query, key = rotate(query, angles), rotate(key, angles)
            self.keys[:samples].index_copy_(2, at, key)
            self.values[:samples].index_copy_(2, at, value)
            context = functional.scaled_dot_product_attention(
                query, self.keys[:samples], self.values[:samples], attn_mask=mask)
            x = x + self.projection(context.transpose(1, 2).flatten(2))
            inner = self.fc1(self.norm2(x))
            if is_llama:
                gate, up = inner.chunk(2, dim=-1)
                return x + self.fc2(functional.silu(gate) * up)
            return x + self.fc2(functional.gelu(inner, approximate="tanh"))

    def rotate(x, angles):
        cos, sin = angles
        first, second = x.chunk(2, dim=-1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(vocabulary, hidden)
            self.positions = None if is_llama else nn.Embedding(positions, hidden)
            self.layers = nn.ModuleList(Layer() for _ in range(layers))
            self.norm = norm()
            self.head = nn.Linear(hidden, vocabulary, bias=False)
            if not is_llama:
                self.head.weight = self.words.weight
            theta = BASE ** (-torch.arange(0, size, 2) / size)
            angles = torch.arange(positions)[:, None] * theta
            self.register_buffer("cos", angles.cos())
            self.register_buffer("sin", angles.sin())

        def forward(self, ids, at):
            x = self.words(ids)
            if self.positions is not None:
                x = x + self.positions(at)
            mask = torch.arange(positions)[None, :] <= at[:, None]
            for layer in self.layers:
                x = layer(x, at, mask, (self.cos[at], self.sin[at]))
            return self.head(self.norm(x[:, -1]))

    return Decoder()


def measure(torch, options):
    layers, hidden, heads, ffn, vocabulary, is_llama = MODELS[options.model]
    positions = options.prompt + options.tokens + 2
    model = build_model(torch, layers, hidden, heads, ffn, vocabulary, is_llama, positions,
                        options.sequences).eval()
    if options.dtype == "bf16":
        model = model.to(torch.bfloat16)
    step = torch.compile(model) if options.compile else model
    prompts, steps = [], []
    with torch.inference_mode():
        ids = torch.randint(vocabulary, (1, options.prompt))
        at = torch.arange(options.prompt)
        model(ids, at)
        for _ in range(3):
            begin = time.perf_counter()
            model(ids, at)
            prompts.append(time.perf_counter() - begin)
        ids = torch.randint(vocabulary, (options.sequences, 1))
        for i in range(options.tokens + 2):  # two of warm-up
            begin = time.perf_counter()
            logits = step(ids, torch.tensor([options.prompt + i]))
            ids = logits.argmax(dim=-1, keepdim=True)
            steps.append(time.perf_counter() - begin)
    return prompts, steps[2:]


def main():
    options = parse()
    try:
        import torch
    except ImportError as error:
        print(f"pytorch_generate: PyTorch is not installed for {sys.executable} ({error}); "
              "bench/peers/README.md says how to", file=sys.stderr)
        return 77
    torch.set_num_threads(options.threads or len(os.sched_getaffinity(0)))
    torch.manual_seed(1234)
    prompts, steps = measure(torch, options)
    result = {
        "peer": f"PyTorch {torch.__version__}" + (" compiled" if options.compile else " eager"),
        "model": options.model,
        "dtype": options.dtype,
        "sequences": options.sequences,
        "prompt_tokens_per_second": options.prompt / statistics.median(prompts),
        "decoded_tokens_per_second": options.sequences / statistics.median(steps),
    }
    if options.json:
        print(json.dumps(result))
    else:
        print(f"{result['peer']}, {options.model} {options.dtype}, {options.sequences} sequences: "
              f"prompt {result['prompt_tokens_per_second']:.0f} tokens/s, decoding "
              f"{result['decoded_tokens_per_second']:.1f} tokens/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
