"""Compares phalanx with peft on adapters of tiny random models (see ../compare-peft --help)."""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys

import cases
import peft
import safetensors.torch
import torch
import transformers

TOKENS = [1, 7, 3, 30, 12, 12, 5, 9, 28, 4]

ALL = "all-linear"
CASES = {
    "llama, all linears": (lambda: cases.decoder("llama"), dict(target_modules=ALL)),
    "llama, queries and values": (lambda: cases.decoder("llama"), dict(target_modules=["q_proj", "v_proj"])),
    "llama, rank-stabilized": (lambda: cases.decoder("llama"), dict(target_modules=ALL, use_rslora=True)),
    "llama, one layer": (lambda: cases.decoder("llama"),
                         dict(target_modules=["k_proj", "up_proj"], layers_to_transform=[1])),
    "llama, ranks and alphas": (lambda: cases.decoder("llama"),
                                dict(target_modules=["q_proj", "down_proj"], rank_pattern={"q_proj": 1},
                                     alpha_pattern={"layers.0.mlp.down_proj": 6})),
    "llama, whole modules": (lambda: cases.decoder("llama"),
                             dict(target_modules=["q_proj"], modules_to_save=["embed_tokens", "norm"])),
    "qwen2, all linears": (lambda: cases.decoder("qwen2"), dict(target_modules=ALL)),
    "gpt2, fused and MLP": (lambda: cases.gpt2(),
                            dict(target_modules=["c_attn", "c_fc", "mlp.c_proj"], fan_in_fan_out=True)),
}


class Difference(Exception):
    pass


class Phalanx:
    def __init__(self, program):
        self.program = program

    def __call__(self, *words):
        words = [str(word) for word in words]
        done = subprocess.run([self.program, *words], capture_output=True, text=True)
        if done.returncode != 0:
            raise Difference(f"phalanx {' '.join(words[:2])}: exit status {done.returncode}: "
                             f"{done.stderr.strip().splitlines()[-1:]}")
        return done.stdout


def logits_of(model):
    with torch.no_grad():
        return model(torch.tensor([TOKENS])).logits[0].double()


def score(phalanx, checkpoint):
    ids = " ".join(map(str, TOKENS))
    return json.loads(phalanx("score", "--load", checkpoint, "--json", "--tokens", ids, "--logits"))


def check_scores(name, result, logits, tolerance):
    expected = torch.log_softmax(logits, -1)[torch.arange(len(TOKENS) - 1), torch.tensor(TOKENS[1:])]
    found = torch.tensor(result["log_probabilities"], dtype=torch.double)
    error = ((found[-len(expected):] - expected).abs().max() / expected.abs().max()).item()
    if error > tolerance:
        raise Difference(f"{name}: log probabilities differ by {error:.1e}")
    return error


def check_logits(name, found, expected, tolerance):
    error = ((found - expected).abs().max() / expected.abs().max()).item()
    if error > tolerance:
        raise Difference(f"{name}: logits differ by {error:.1e}")
    return error


def compare(phalanx, make, settings, work, tolerance):
    base, lora, checkpoint = work / "base", work / "lora", work / "checkpoint"
    make().save_pretrained(base)
    load = transformers.AutoModelForCausalLM.from_pretrained
    plain = logits_of(load(base).eval())
    config = peft.LoraConfig(r=2, lora_alpha=4, lora_dropout=0.1, task_type="CAUSAL_LM", **settings)
    model = peft.get_peft_model(load(base), config).eval()
    generator = torch.Generator().manual_seed(5)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.data.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
        elif "modules_to_save" in name:
            parameter.data.mul_(1.3)
    model.save_pretrained(lora)
    expected = logits_of(model)
    if (expected - plain).abs().max() < 0.1:
        raise Difference("the adapters change nothing")
    phalanx("import", "hf", "--input", base, "--lora", lora, "--output", checkpoint)
    errors = [check_scores("imported", score(phalanx, checkpoint / "adapters"), expected, tolerance)]
    phalanx("export", "hf", "--load", checkpoint / "adapters", "--lora-only", "--output", work / "back")
    if not settings.get("rank_pattern"):
        before = safetensors.torch.load_file(lora / "adapter_model.safetensors")
        after = safetensors.torch.load_file(work / "back" / "adapter_model.safetensors")
        if before.keys() != after.keys() or any(not torch.equal(before[key], after[key]) for key in before):
            raise Difference("the exported adapters are not what was imported")
    again = peft.PeftModel.from_pretrained(load(base), work / "back").eval()
    errors.append(check_logits("exported", logits_of(again), expected, tolerance))
    phalanx("export", "hf", "--load", checkpoint / "adapters", "--merge-lora", "--output", work / "merged")
    errors.append(check_logits("merged", logits_of(load(work / "merged").eval()), expected, tolerance))
    return max(errors)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--tolerance", type=float, default=1e-5)
    options = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(1)
    failures = 0
    for name, (make, settings) in CASES.items():
        shutil.rmtree(options.work, ignore_errors=True)
        options.work.mkdir(parents=True)
        try:
            worst = compare(Phalanx(options.program), make, settings, options.work, options.tolerance)
            print(f"{name:28} {worst:10.1e}")
        except Difference as difference:
            failures += 1
            print(f"{name:28} FAILS: {difference}")
    print("nothing differs" if failures == 0 else f"{failures} differ")
    sys.exit(failures != 0)


if __name__ == "__main__":
    main()
