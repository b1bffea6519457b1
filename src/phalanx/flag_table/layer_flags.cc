// What layers are made of: positions, norms, activations, biases, attention.

#include "phalanx/flag_table/bound.h"
#include "phalanx/flag_table/sections.h"

namespace phalanx {
namespace {

using enum ResumeClass;

constexpr FlagRange kPositive = above(0);

constexpr TrainFlag kLayerRows[] = {
    of_families("gpt t5",
                works<&ModelConfig::position_embedding_type>(
                    kNetwork, "--position-embedding-type",
                    "A learned table, or (T5) a bias of attention by the distance of query and "
                    "key, or (GPT) rotary positions or none",
                    {.choices = "learned_absolute relative rope none", .resume = kShape})),
    {.section = kNetwork,
     .spec = {.name = "--use-rotary-position-embeddings",
              .help = "The same as --position-embedding-type rope",
              .stands_for = "--position-embedding-type rope"}},
    of_families("gpt", works<&ModelConfig::no_position_embedding>(
                           kNetwork, "--no-position-embedding",
                           "No table of positions; without rotary positions there are then none",
                           {.yaml_keys = "!add_position_embedding"})),
    of_families("gpt", works<&ModelConfig::rotary_base>(kNetwork, "--rotary-base",
                                                        "Rotary positions: base of the wavelengths",
                                                        {.range = above(1), .resume = kFixed})),
    of_families("gpt", works<&ModelConfig::rotary_percent>(
                           kNetwork, "--rotary-percent",
                           "Rotary positions: share of a head's dimensions that rotate",
                           {.range = {.least = 0.0, .most = 1.0, .excludes_least = true},
                            .resume = kShape})),
    of_families(
        "gpt",
        works<&ModelConfig::rotary_interleaved>(
            kNetwork, "--rotary-interleaved",
            "Rotary positions: neighbouring dimensions are pairs, not those of the two halves",
            {.resume = kShape})),
    of_families("gpt",
                works<&ModelConfig::rotary_seq_len_interpolation_factor>(
                    kNetwork, "--rotary-seq-len-interpolation-factor",
                    "Rotary positions are divided by it", {.range = kPositive, .resume = kFixed})),
    of_families("gpt", works<&ModelConfig::use_rope_scaling>(
                           kNetwork, "--use-rope-scaling",
                           "Rotary positions: long wavelengths are stretched as in Llama 3",
                           {.resume = kFixed})),
    of_families("gpt",
                works<&ModelConfig::rope_scaling_factor>(
                    kNetwork, "--rope-scaling-factor", "By how much long wavelengths are stretched",
                    {.range = kPositive, .resume = kFixed})),
    of_families(
        "gpt",
        works<&ModelConfig::rope_type>(
            kOwn, "--rope-type",
            "Rotary positions: as they are or with --use-rope-scaling, or stretched as by YaRN",
            {.choices = "rope yarn", .resume = kFixed})),
    of_families(
        "gpt",
        works<&ModelConfig::rope_low_freq_factor>(
            kOwn, "--rope-low-freq-factor",
            "--use-rope-scaling: wavelengths above the original positions / it are stretched whole",
            {.range = kPositive, .resume = kFixed})),
    of_families("gpt", works<&ModelConfig::rope_high_freq_factor>(
                           kOwn, "--rope-high-freq-factor",
                           "--use-rope-scaling: wavelengths below the original positions / it stay",
                           {.range = kPositive, .resume = kFixed})),
    of_families("gpt", works<&ModelConfig::rope_original_max_positions>(
                           kOwn, "--rope-original-max-positions",
                           "Positions that the model had before they were stretched",
                           {.range = from_to(1, kMostInt32), .resume = kFixed})),
    of_families("gpt", works<&ModelConfig::yarn_beta_fast>(
                           kOwn, "--yarn-beta-fast",
                           "YaRN: what turns more often within the original positions stays",
                           {.range = kPositive, .resume = kFixed})),
    of_families("gpt",
                works<&ModelConfig::yarn_beta_slow>(
                    kOwn, "--yarn-beta-slow",
                    "YaRN: what turns less often within the original positions is stretched whole",
                    {.range = kPositive, .resume = kFixed})),
    of_families("gpt",
                works<&ModelConfig::yarn_attention_factor>(
                    kOwn, "--yarn-attention-factor",
                    "YaRN: multiplies queries and keys (0: 0.1 ln F + 1, F --rope-scaling-factor)",
                    {.range = at_least(0), .resume = kFixed})),
    of_families("gpt",
                works<&ModelConfig::yarn_no_truncate>(
                    kOwn, "--yarn-no-truncate",
                    "YaRN: the bounds of what is stretched are not rounded to whole dimensions",
                    {.resume = kFixed})),

    works<&ModelConfig::normalization>(kNetwork, "--normalization", "Kind of the norms",
                                       {.choices = "LayerNorm RMSNorm", .resume = kShape}),
    works<&ModelConfig::apply_layernorm_1p>(
        kNetwork, "--apply-layernorm-1p",
        "Norm weights are kept less 1, so that they begin, and decay, at 0",
        {.yaml_keys = "layernorm_zero_centered_gamma", .resume = kShape}),
    works<&ModelConfig::norm_epsilon>(
        kNetwork, "--norm-epsilon", "Epsilon of the norms",
        {.old_names = "--layernorm-epsilon", .range = at_least(0), .resume = kShape}),

    works<&ModelConfig::activation_func>(
        kNetwork, "--activation-func",
        "Activation of the MLP; the last two are --swiglu and --squared-relu",
        {.choices = "gelu relu silu swiglu squaredrelu", .resume = kShape}),
    works<&ModelConfig::gated_linear_unit>(
        kNetwork, "--gated-linear-unit",
        "The MLP multiplies what is activated by a second linear's output", {.resume = kShape}),
    works<&ModelConfig::swiglu>(kNetwork, "--swiglu",
                                "The MLP is gated by SiLU, and --ffn-hidden-size is 8/3 x "
                                "--hidden-size where it is 0, down to a multiple of 64",
                                {.excludes = "--squared-relu --activation-func", .resume = kShape}),
    works<&ModelConfig::squared_relu>(kNetwork, "--squared-relu",
                                      "The MLP's activation is ReLU's square",
                                      {.excludes = "--activation-func", .resume = kShape}),
    works<&ModelConfig::no_bias_gelu_fusion>(
        kNetwork, "--no-bias-gelu-fusion",
        "Exact (erf) GeLU instead of the tanh form, as in Megatron",
        {.yaml_keys = "!bias_activation_fusion !bias_gelu_fusion", .resume = kShape}),

    works<&ModelConfig::disable_bias_linear>(kNetwork, "--disable-bias-linear",
                                             "Linears of layers have no bias",
                                             {.yaml_keys = "!add_bias_linear", .resume = kShape}),
    works<&ModelConfig::add_qkv_bias>(
        kNetwork, "--add-qkv-bias",
        "Queries, keys and values have a bias in spite of --disable-bias-linear",
        {.resume = kShape}),
    of_families("gpt", works<&ModelConfig::qk_layernorm>(
                           kNetwork, "--qk-layernorm",
                           "Queries and keys of each head are normalised", {.resume = kShape})),
    of_families("gpt",
                works<&ModelConfig::window_size>(
                    kNetwork, "--window-size",
                    "Attention sees L keys before the query's own, of \"L,0\"; L negative: all",
                    {.value_name = "L,R", .resume = kFixed})),
    of_families(
        "gpt",
        works<&ModelConfig::window_attn_skip_freq>(
            kNetwork, "--window-attn-skip-freq",
            "Layers without --window-size: each N-th, or those with 0 in a list ([0]*2+[1]*3)",
            {.value_name = "N", .needs = "--window-size", .resume = kFixed})),
    of_families("gpt t5",
                works<&ModelConfig::attention_scale>(
                    kOwn, "--attention-scale", "Of attention scores (0: 1 / sqrt(--kv-channels))",
                    {.range = at_least(0), .resume = kFixed})),
    of_families(
        "t5",
        works<&ModelConfig::scale_decoder_output>(
            kOwn, "--scale-decoder-output",
            "T5: the decoder's output is divided by sqrt(--hidden-size) before the output matrix",
            {.resume = kFixed})),
    of_families("t5", works<&ModelConfig::disable_output_bias>(
                          kOwn, "--disable-output-bias",
                          "T5: a tied output layer has no bias either", {.resume = kShape})),
};

}  // namespace

std::span<const TrainFlag> layer_flags() { return kLayerRows; }

}  // namespace phalanx
