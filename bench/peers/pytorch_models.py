"""bench_step's models in PyTorch, by means that PyTorch's users have, with random batches for each.

A model is called with a batch of its family and returns the loss.
"""

import math

FAMILY, SIZES = 0, 1
MODELS = {  # family; layers (of each stack), hidden, heads, vocabulary (padded), timed steps
    "gpt2-124m": ("gpt", (12, 768, 12, 50304, 8)),
    "small": ("gpt", (4, 256, 8, 8192, 60)),
    "bert-base": ("bert", (12, 768, 12, 30592, 8)),
    "t5-small": ("t5", (6, 512, 8, 30720, 12)),
    "llama-160m": ("llama", (12, 768, 12, 32000, 8)),
    "moe-8x": ("mixtral", (4, 768, 12, 8192, 8)),
    "moe-8x-dense": ("llama", (4, 768, 12, 8192, 8)),
}
EXPERTS, EXPERTS_OF_TOKEN = 8, 2
MASKED_SHARE = 0.15  # of BERT's rows
IGNORED = -100


def decoder_length(sequence):
    """Of T5, whose targets are shorter than its texts."""
    return max(sequence // 4, 1)


def tokens_per_sample(family, sequence):
    return sequence + (decoder_length(sequence) if family == "t5" else 0)


def random_batch(torch, family, samples, sequence, vocabulary, generator):
    def words(length):
        return torch.randint(vocabulary, (samples, length), generator=generator)

    if family in ("gpt", "llama", "mixtral"):
        text = words(sequence + 1)
        return text[:, :-1], text[:, 1:].contiguous()
    if family == "t5":
        length = decoder_length(sequence)
        return words(sequence), words(length), words(length)
    masked = torch.rand(samples, sequence, generator=generator) < MASKED_SHARE
    types = (torch.arange(sequence) >= sequence // 2).long().expand(samples, sequence)
    swapped = torch.randint(2, (samples,), generator=generator)
    return words(sequence), types, words(sequence).masked_fill(~masked, IGNORED), swapped


def build_model(torch, family, layers, hidden, heads, vocabulary, positions, experts="loop"):
    """`experts`: "loop" over them, or a "grouped" product over all."""
    nn = torch.nn
    functional = torch.nn.functional

    def by_head(x):
        return x.view(*x.shape[:2], heads, hidden // heads).transpose(1, 2)

    def joined(query, key, value, is_causal):
        context = functional.scaled_dot_product_attention(query, key, value, is_causal=is_causal)
        return context.transpose(1, 2).flatten(2)

    def attend(query, key, value, is_causal):
        return joined(by_head(query), by_head(key), by_head(value), is_causal)

    def cross_entropy(logits, labels):
        return functional.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1))

    class Layer(nn.Module):
        def __init__(self, is_causal, crosses=False):
            super().__init__()
            self.is_causal = is_causal
            self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
            self.qkv = nn.Linear(hidden, 3 * hidden)
            self.projection = nn.Linear(hidden, hidden)
            if crosses:
                self.cross_norm = nn.LayerNorm(hidden)
                self.cross_query = nn.Linear(hidden, hidden)
                self.cross_key_value = nn.Linear(hidden, 2 * hidden)
                self.cross_projection = nn.Linear(hidden, hidden)
            self.fc1 = nn.Linear(hidden, 4 * hidden)
            self.fc2 = nn.Linear(4 * hidden, hidden)

        def forward(self, x, encoded=None):
            context = attend(*self.qkv(self.norm1(x)).chunk(3, dim=-1), self.is_causal)
            x = x + self.projection(context)
            if encoded is not None:
                context = attend(self.cross_query(self.cross_norm(x)),
                                 *self.cross_key_value(encoded).chunk(2, dim=-1), False)
                x = x + self.cross_projection(context)
            return x + self.fc2(functional.gelu(self.fc1(self.norm2(x)), approximate="tanh"))

    class Stack(nn.Module):
        def __init__(self, is_causal, crosses=False):
            super().__init__()
            self.layers = nn.ModuleList(Layer(is_causal, crosses) for _ in range(layers))
            self.norm = nn.LayerNorm(hidden)

        def forward(self, x, encoded=None):
            for layer in self.layers:
                x = layer(x, encoded)
            return self.norm(x)

    class Embedded(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(vocabulary, hidden)
            self.positions = nn.Embedding(positions, hidden)

        def embed(self, tokens):
            return self.words(tokens) + self.positions.weight[:tokens.shape[1]]

    class Gpt(Embedded):
        def __init__(self):
            super().__init__()
            self.stack = Stack(is_causal=True)

        def forward(self, tokens, labels):
            logits = functional.linear(self.stack(self.embed(tokens)), self.words.weight)  # tied
            return cross_entropy(logits, labels)

    class Bert(Embedded):
        def __init__(self):
            super().__init__()
            self.types = nn.Embedding(2, hidden)
            self.stack = Stack(is_causal=False)
            self.dense, self.head_norm = nn.Linear(hidden, hidden), nn.LayerNorm(hidden)
            self.logit_bias = nn.Parameter(torch.zeros(vocabulary))
            self.pooler, self.binary_head = nn.Linear(hidden, hidden), nn.Linear(hidden, 2)

        def forward(self, tokens, types, labels, swapped):
            x = self.stack(self.embed(tokens) + self.types(types))
            transformed = self.head_norm(functional.gelu(self.dense(x)))
            logits = functional.linear(transformed, self.words.weight, self.logit_bias)
            order = self.binary_head(torch.tanh(self.pooler(x[:, 0])))
            return cross_entropy(logits, labels) + cross_entropy(order, swapped)

    class T5(Embedded):
        def __init__(self):
            super().__init__()
            self.encoder = Stack(is_causal=False)
            self.decoder = Stack(is_causal=True, crosses=True)
            self.logit_bias = nn.Parameter(torch.zeros(vocabulary))

        def forward(self, tokens, decoder_tokens, labels):
            encoded = self.encoder(self.embed(tokens))
            x = self.decoder(self.embed(decoder_tokens), encoded)
            return cross_entropy(functional.linear(x, self.words.weight, self.logit_bias), labels)

    class GatedMlp(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate_and_up = nn.Linear(hidden, 8 * hidden, bias=False)
            self.fc2 = nn.Linear(4 * hidden, hidden, bias=False)

        def forward(self, x):
            gate, up = self.gate_and_up(x).chunk(2, dim=-1)
            return self.fc2(functional.silu(gate) * up)

    class ExpertMlp(nn.Module):
        def __init__(self):
            super().__init__()
            self.router = nn.Linear(hidden, EXPERTS, bias=False)
            if experts == "loop":
                self.experts = nn.ModuleList(GatedMlp() for _ in range(EXPERTS))
            else:
                self.gate_and_up = nn.Parameter(0.02 * torch.randn(EXPERTS, 8 * hidden, hidden))
                self.fc2 = nn.Parameter(0.02 * torch.randn(EXPERTS, hidden, 4 * hidden))

        def by_loop(self, x, chosen, weights):
            y = torch.zeros_like(x)
            for number, expert in enumerate(self.experts):
                token, place = torch.where(chosen == number)
                rows = expert(x[token]) * weights[token, place, None].to(x.dtype)
                y.index_add_(0, token, rows.to(x.dtype))
            return y

        def by_groups(self, x, chosen, weights):
            order = torch.argsort(chosen.flatten(), stable=True)
            token = order // EXPERTS_OF_TOKEN
            counts = torch.bincount(chosen.flatten(), minlength=EXPERTS)
            ends = torch.cumsum(counts, 0).to(torch.int32)
            storage = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else x.dtype

            def product(rows, matrices):
                return functional.grouped_mm(rows.to(storage), matrices.to(storage).transpose(1, 2),
                                             offs=ends)

            gate, up = product(x[token], self.gate_and_up).chunk(2, dim=-1)
            rows = product(functional.silu(gate) * up, self.fc2)
            rows = rows * weights.flatten()[order, None].to(rows.dtype)
            return torch.zeros_like(x).index_add_(0, token, rows.to(x.dtype))

        def forward(self, x):
            flat = x.reshape(-1, hidden)
            with torch.autocast("cpu", enabled=False):
                logits = functional.linear(flat.float(), self.router.weight.float())
            best, chosen = logits.topk(EXPERTS_OF_TOKEN, dim=-1)
            by = self.by_loop if experts == "loop" else self.by_groups
            return by(flat, chosen, best.softmax(-1)).view_as(x)

    class LlamaLayer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.RMSNorm(hidden, eps=1e-6), nn.RMSNorm(hidden, eps=1e-6)
            self.qkv = nn.Linear(hidden, 3 * hidden, bias=False)
            self.projection = nn.Linear(hidden, hidden, bias=False)
            self.mlp = ExpertMlp() if family == "mixtral" else GatedMlp()

        def forward(self, x, cos, sin):
            def rotated(vectors):
                one, two = vectors.chunk(2, dim=-1)
                return vectors * cos + torch.cat((-two, one), dim=-1) * sin

            query, key, value = (by_head(part) for part in self.qkv(self.norm1(x)).chunk(3, dim=-1))
            x = x + self.projection(joined(rotated(query), rotated(key), value, True))
            return x + self.mlp(self.norm2(x))

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(vocabulary, hidden)
            self.layers = nn.ModuleList(LlamaLayer() for _ in range(layers))
            self.norm = nn.RMSNorm(hidden, eps=1e-6)
            self.head = nn.Linear(hidden, vocabulary, bias=False)
            width = hidden // heads
            theta = 10000.0 ** (-torch.arange(0, width, 2) / width)
            angle = torch.outer(torch.arange(positions), torch.cat((theta, theta)))
            self.register_buffer("cos", angle.cos(), persistent=False)
            self.register_buffer("sin", angle.sin(), persistent=False)

        def forward(self, tokens, labels):
            x = self.words(tokens)
            cos, sin = self.cos[:tokens.shape[1]], self.sin[:tokens.shape[1]]
            for layer in self.layers:
                x = layer(x, cos.to(x.dtype), sin.to(x.dtype))
            return cross_entropy(self.head(self.norm(x)), labels)

    model = {"gpt": Gpt, "bert": Bert, "t5": T5, "llama": Llama, "mixtral": Llama}[family]()
    initialise(nn, model, layers)
    return model


def initialise(nn, model, layers):
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2:
            residual = name.endswith(("projection.weight", "fc2.weight"))
            nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers if residual else 1))
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
