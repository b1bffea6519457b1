"""Tiny models of every architecture and dialect, with random weights."""

import dataclasses
import json
import pathlib
from collections.abc import Callable

import safetensors.torch
import torch
import transformers

VOCABULARY = 32
POSITIONS = 32
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [f"w{i}" for i in range(VOCABULARY - 5)]


@dataclasses.dataclass
class Case:
    name: str
    make: Callable[[], transformers.PreTrainedModel]
    kind: str = "causal"  # causal, masked, text-to-text
    dtype: torch.dtype = torch.float32
    shards: bool = False
    golden: bool = False  # also a folder of tests/golden/hugging_face
    config_fixes: dict = dataclasses.field(default_factory=dict)


def randomise(model, seed):
    """Weights that make every part of a model matter: of about 1 in sum, norms around 1."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        is_norm = parameter.dim() == 1 and name.endswith("weight")
        with torch.no_grad():
            parameter.copy_(1 + 0.1 * noise if is_norm else 0.3 * noise)
    return model.eval()


def gpt2(**changes):
    config = transformers.GPT2Config(n_embd=16, n_layer=2, n_head=4, n_positions=POSITIONS, vocab_size=VOCABULARY,
                                     bos_token_id=1, eos_token_id=2, **changes)
    return randomise(transformers.GPT2LMHeadModel(config), 1)


def decoder(kind, **changes):
    sizes = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
                 num_key_value_heads=2, vocab_size=VOCABULARY, max_position_embeddings=POSITIONS, bos_token_id=1,
                 eos_token_id=2, pad_token_id=None, tie_word_embeddings=False)
    config, model = {
        "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
        "mistral": (transformers.MistralConfig, transformers.MistralForCausalLM),
        "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
        "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
        "mixtral": (transformers.MixtralConfig, transformers.MixtralForCausalLM),
        "qwen2_moe": (transformers.Qwen2MoeConfig, transformers.Qwen2MoeForCausalLM),
        "qwen3_moe": (transformers.Qwen3MoeConfig, transformers.Qwen3MoeForCausalLM),
    }[kind]
    return randomise(model(config(**{**sizes, **changes}, attn_implementation="eager")), 2)


def experts(kind, **changes):
    sizes = {"mixtral": dict(num_local_experts=4, num_experts_per_tok=2, intermediate_size=12),
             "qwen2_moe": dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=8,
                               shared_expert_intermediate_size=12),
             "qwen3_moe": dict(num_experts=8, num_experts_per_tok=3, moe_intermediate_size=8, head_dim=8,
                               norm_topk_prob=True)}[kind]
    return decoder(kind, **{**sizes, **changes})


def rope(**scaling):
    return {"rope_parameters": {"rope_theta": 10000.0, **scaling}}


def bert(megatron):
    config, model = ((transformers.MegatronBertConfig, transformers.MegatronBertForPreTraining) if megatron else
                     (transformers.BertConfig, transformers.BertForPreTraining))
    return randomise(model(config(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
                                  vocab_size=VOCABULARY, max_position_embeddings=POSITIONS)), 3)


def t5(is_1_1):
    config = transformers.T5Config(d_model=16, d_kv=6, d_ff=24, num_layers=2, num_decoder_layers=2, num_heads=3,
                                   vocab_size=VOCABULARY, relative_attention_num_buckets=8,
                                   relative_attention_max_distance=12,
                                   feed_forward_proj="gated-gelu" if is_1_1 else "relu",
                                   tie_word_embeddings=not is_1_1, decoder_start_token_id=0, pad_token_id=0,
                                   eos_token_id=1)
    model = transformers.T5ForConditionalGeneration(config)
    if is_1_1:  # this class ties the output matrix whatever its configuration says
        model.lm_head.weight = torch.nn.Parameter(torch.zeros(VOCABULARY, 16))
    return randomise(model, 4)


CASES = [
    Case("gpt2", lambda: gpt2(), golden=True),
    Case("gpt2, exact GeLU, untied", lambda: gpt2(activation_function="gelu", tie_word_embeddings=False, n_inner=24)),
    Case("llama", lambda: decoder("llama")),
    Case("llama, linear rope", lambda: decoder("llama", **rope(rope_type="linear", factor=2.0))),
    Case("llama, llama3 rope", lambda: decoder("llama", **rope(
        rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=16)), golden=True),
    Case("llama, yarn rope", lambda: decoder("llama", **rope(
        rope_type="yarn", factor=4.0, original_max_position_embeddings=8))),
    Case("llama, tied, one group", lambda: decoder("llama", tie_word_embeddings=True, num_key_value_heads=1)),
    Case("llama, biases, wide heads", lambda: decoder("llama", attention_bias=True, mlp_bias=True, head_dim=8)),
    Case("llama, bf16 in shards", lambda: decoder("llama"), dtype=torch.bfloat16, shards=True, golden=True),
    Case("mistral", lambda: decoder("mistral", sliding_window=None)),
    Case("mistral, window", lambda: decoder("mistral", sliding_window=5), golden=True),
    Case("qwen2, tied", lambda: decoder("qwen2", tie_word_embeddings=True)),
    Case("qwen2, window", lambda: decoder("qwen2", use_sliding_window=True, sliding_window=4, max_window_layers=1),
         golden=True),
    Case("qwen3, wide heads", lambda: decoder("qwen3", head_dim=8), golden=True),
    Case("qwen3, tied, window", lambda: decoder("qwen3", head_dim=8, tie_word_embeddings=True, use_sliding_window=True,
                                                sliding_window=4, max_window_layers=1)),
    Case("mixtral", lambda: experts("mixtral"), golden=True),
    Case("mixtral, window", lambda: experts("mixtral", sliding_window=5, **rope(rope_theta=1e6))),
    Case("mixtral, bf16 in shards", lambda: experts("mixtral"), dtype=torch.bfloat16, shards=True),
    Case("qwen2-moe", lambda: experts("qwen2_moe"), golden=True),
    Case("qwen2-moe, sums of 1", lambda: experts("qwen2_moe", norm_topk_prob=True, qkv_bias=False,
                                                decoder_sparse_step=2)),
    Case("qwen3-moe", lambda: experts("qwen3_moe", mlp_only_layers=[0]), golden=True),
    Case("qwen3-moe, no sums of 1", lambda: experts("qwen3_moe", norm_topk_prob=False, tie_word_embeddings=True,
                                                   use_sliding_window=True, sliding_window=4)),
    Case("bert", lambda: bert(False), kind="masked", golden=True),
    Case("megatron bert", lambda: bert(True), kind="masked", golden=True),
    Case("t5 v1.0", lambda: t5(False), kind="text-to-text", golden=True),
    Case("t5 v1.1, as it is saved", lambda: t5(True), kind="text-to-text"),
    Case("t5 v1.1", lambda: t5(True), kind="text-to-text", golden=True, config_fixes={"tie_word_embeddings": False}),
]


def write_folder(case, model, folder):
    """As save_pretrained() does it, but for what `config_fixes` sets right."""
    folder = pathlib.Path(folder)
    model = model.to(case.dtype)
    model.save_pretrained(folder, max_shard_size="6KB" if case.shards else "5GB")
    config = json.loads((folder / "config.json").read_text())
    config.update(case.config_fixes)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    if case.kind == "masked":
        (folder / "vocab.txt").write_text("".join(word + "\n" for word in WORDS))
    return model


def tensors_of(folder):
    tensors = {}
    for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
        tensors.update(safetensors.torch.load_file(path))
    return tensors


TOKENS = [10, 26, 16, 12, 14, 22, 24, 5, 16, 9, 24, 21, 30, 16, 28]
TARGET = [6, 14, 24, 17, 11]


def expectation(case, model, folder):
    """What a model of the folder's says of TOKENS, in fp32: log probabilities, the last logits, greedy tokens. It is read
    from there, for a model that was turned to 16 bits has rounded its rotary frequencies too."""
    model = type(model).from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        return {"causal": causal, "masked": masked, "text-to-text": text_to_text}[case.kind](model)


def picked(logits, ids):
    return torch.log_softmax(logits.double(), -1)[range(len(ids)), ids].tolist()


def causal(model):
    logits = model(torch.tensor([TOKENS])).logits[0]
    greedy = list(TOKENS)
    for _ in range(8):
        greedy.append(int(model(torch.tensor([greedy])).logits[0, -1].argmax()))
    return {"tokens": TOKENS, "log_probabilities": picked(logits[:-1], TOKENS[1:]), "logits": logits[-1].tolist(),
            "greedy": greedy[len(TOKENS):]}


def masked(model):
    """Each token masked by itself, all others as they are."""
    cls, sep, mask = (WORDS.index(word) for word in ("[CLS]", "[SEP]", "[MASK]"))
    ids = [cls, *TOKENS, sep]
    result = []
    for i in range(1, len(ids) - 1):
        row = ids[:i] + [mask] + ids[i + 1:]
        logits = model(torch.tensor([row])).prediction_logits[0, i]
        result.append(float(torch.log_softmax(logits.double(), -1)[ids[i]]))
    return {"tokens": TOKENS, "log_probabilities": result}


def text_to_text(model):
    end = 1
    given = torch.tensor([TOKENS])
    labels = [*TARGET, end]
    logits = model(given, decoder_input_ids=torch.tensor([[0, *TARGET]])).logits[0]
    greedy = [0]
    for _ in range(8):
        greedy.append(int(model(given, decoder_input_ids=torch.tensor([greedy])).logits[0, -1].argmax()))
    return {"tokens": TOKENS, "target": TARGET, "log_probabilities": picked(logits, labels), "greedy": greedy[1:]}
