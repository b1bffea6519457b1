// What layers are made of: positions, norms, activations, biases, attention.

#include "phalanx/flag_table/bound.h"
#include "phalanx/flag_table/sections.h"

namespace phalanx {
namespace {

constexpr FlagRange kPositive = above(0);

constexpr TrainFlag kLayerRows[] = {
    of_families("gpt t5", works<&ModelConfig::position_embedding_type>(
                              kNetwork, {.name = "--position-embedding-type",
                                         .help = "A learned table, or (T5) a bias of attention by "
                                                 "the distance of query and key, or (GPT) rotary "
                                                 "positions or none",
                                         .choices = "learned_absolute relative rope none",
                                         .resume = ResumeClass::kShape})),
    {.section = kNetwork,
     .spec = {.name = "--use-rotary-position-embeddings",
              .help = "The same as --position-embedding-type rope",
              .stands_for = "--position-embedding-type rope"}},
    of_families("gpt", works<&ModelConfig::no_position_embedding>(
                           kNetwork, {.name = "--no-position-embedding",
                                      .yaml_keys = "!add_position_embedding",
                                      .help = "No table of positions; without rotary positions "
                                              "there are then none"})),
    of_families("gpt", works<&ModelConfig::rotary_base>(
                           kNetwork, {.name = "--rotary-base",
                                      .help = "Rotary positions: base of the wavelengths",
                                      .range = above(1),
                                      .resume = ResumeClass::kFixed})),
    of_families("gpt",
                works<&ModelConfig::rotary_percent>(
                    kNetwork, {.name = "--rotary-percent",
                               .help = "Rotary positions: share of a head's dimensions that rotate",
                               .range = {.least = 0.0, .most = 1.0, .excludes_least = true},
                               .resume = ResumeClass::kShape})),
    of_families("gpt", works<&ModelConfig::rotary_interleaved>(
                           kNetwork, {.name = "--rotary-interleaved",
                                      .help = "Rotary positions: neighbouring dimensions are "
                                              "pairs, not those of the two halves",
                                      .resume = ResumeClass::kShape})),
    of_families("gpt", works<&ModelConfig::rotary_seq_len_interpolation_factor>(
                           kNetwork, {.name = "--rotary-seq-len-interpolation-factor",
                                      .help = "Rotary positions are divided by it",
                                      .range = kPositive,
                                      .resume = ResumeClass::kFixed})),
    of_families("gpt", works<&ModelConfig::use_rope_scaling>(
                           kNetwork, {.name = "--use-rope-scaling",
                                      .help = "Rotary positions: long wavelengths are stretched "
                                              "as in Llama 3",
                                      .resume = ResumeClass::kFixed})),
    of_families("gpt", works<&ModelConfig::rope_scaling_factor>(
                           kNetwork, {.name = "--rope-scaling-factor",
                                      .help = "By how much long wavelengths are stretched",
                                      .range = kPositive,
                                      .resume = ResumeClass::kFixed})),
    of_families("gpt",
                works<&ModelConfig::rope_type>(
                    kOwn, {.name = "--rope-type",
                           .help = "Rotary positions: as they are or with --use-rope-scaling, "
                                   "or stretched as by YaRN",
                           .choices = "rope yarn",
                           .resume = ResumeClass::kFixed})),
    of_families("gpt", works<&ModelConfig::rope_low_freq_factor>(
                           kOwn, {.name = "--rope-low-freq-factor",
                                  .help = "--use-rope-scaling: wavelengths above the original "
                                          "positions / it are stretched whole",
                                  .range = kPositive,
                                  .resume = ResumeClass::kFixed})),
    of_families("gpt", works<&ModelConfig::rope_high_freq_factor>(
                           kOwn, {.name = "--rope-high-freq-factor",
                                  .help = "--use-rope-scaling: wavelengths below the original "
                                          "positions / it stay",
                                  .range = kPositive,
                                  .resume = ResumeClass::kFixed})),
    of_families("gpt", works<&ModelConfig::rope_original_max_positions>(
                           kOwn, {.name = "--rope-original-max-positions",
                                  .help = "Positions that the model had before they were stretched",
                                  .range = from_to(1, kMostInt32),
                                  .resume = ResumeClass::kFixed})),
    of_families("gpt", works<&ModelConfig::yarn_beta_fast>(
                           kOwn, {.name = "--yarn-beta-fast",
                                  .help = "YaRN: what turns more often within the original "
                                          "positions stays",
                                  .range = kPositive,
                                  .resume = ResumeClass::kFixed})),
    of_families("gpt", works<&ModelConfig::yarn_beta_slow>(
                           kOwn, {.name = "--yarn-beta-slow",
                                  .help = "YaRN: what turns less often within the original "
                                          "positions is stretched whole",
                                  .range = kPositive,
                                  .resume = ResumeClass::kFixed})),
    of_families("gpt", works<&ModelConfig::yarn_attention_factor>(
                           kOwn, {.name = "--yarn-attention-factor",
                                  .help = "YaRN: multiplies queries and keys (0: 0.1 ln F + 1, F "
                                          "--rope-scaling-factor)",
                                  .range = at_least(0),
                                  .resume = ResumeClass::kFixed})),
    of_families("gpt", works<&ModelConfig::yarn_no_truncate>(
                           kOwn, {.name = "--yarn-no-truncate",
                                  .help = "YaRN: the bounds of what is stretched are not rounded "
                                          "to whole dimensions",
                                  .resume = ResumeClass::kFixed})),

    works<&ModelConfig::normalization>(kNetwork, {.name = "--normalization",
                                                  .help = "Kind of the norms",
                                                  .choices = "LayerNorm RMSNorm",
                                                  .resume = ResumeClass::kShape}),
    works<&ModelConfig::apply_layernorm_1p>(
        kNetwork, {.name = "--apply-layernorm-1p",
                   .yaml_keys = "layernorm_zero_centered_gamma",
                   .help = "Norm weights are kept less 1, so that they begin, and decay, at 0",
                   .resume = ResumeClass::kShape}),
    works<&ModelConfig::norm_epsilon>(kNetwork, {.name = "--norm-epsilon",
                                                 .old_names = "--layernorm-epsilon",
                                                 .help = "Epsilon of the norms",
                                                 .range = at_least(0),
                                                 .resume = ResumeClass::kShape}),

    works<&ModelConfig::activation_func>(
        kNetwork, {.name = "--activation-func",
                   .help = "Activation of the MLP; the last two are --swiglu and --squared-relu",
                   .choices = "gelu relu silu swiglu squaredrelu",
                   .resume = ResumeClass::kShape}),
    works<&ModelConfig::gated_linear_unit>(
        kNetwork, {.name = "--gated-linear-unit",
                   .help = "The MLP multiplies what is activated by a second linear's output",
                   .resume = ResumeClass::kShape}),
    works<&ModelConfig::swiglu>(
        kNetwork, {.name = "--swiglu",
                   .help = "The MLP is gated by SiLU, and --ffn-hidden-size is 8/3 x --hidden-size "
                           "where it is 0, down to a multiple of 64",
                   .excludes = "--squared-relu --activation-func",
                   .resume = ResumeClass::kShape}),
    works<&ModelConfig::squared_relu>(kNetwork, {.name = "--squared-relu",
                                                 .help = "The MLP's activation is ReLU's square",
                                                 .excludes = "--activation-func",
                                                 .resume = ResumeClass::kShape}),
    works<&ModelConfig::no_bias_gelu_fusion>(
        kNetwork, {.name = "--no-bias-gelu-fusion",
                   .yaml_keys = "!bias_activation_fusion !bias_gelu_fusion",
                   .help = "Exact (erf) GeLU instead of the tanh form, as in Megatron",
                   .resume = ResumeClass::kShape}),

    works<&ModelConfig::disable_bias_linear>(kNetwork, {.name = "--disable-bias-linear",
                                                        .yaml_keys = "!add_bias_linear",
                                                        .help = "Linears of layers have no bias",
                                                        .resume = ResumeClass::kShape}),
    works<&ModelConfig::add_qkv_bias>(
        kNetwork, {.name = "--add-qkv-bias",
                   .help = "Queries, keys and values have a bias in spite of --disable-bias-linear",
                   .resume = ResumeClass::kShape}),
    of_families("gpt", works<&ModelConfig::qk_layernorm>(
                           kNetwork, {.name = "--qk-layernorm",
                                      .help = "Queries and keys of each head are normalised",
                                      .resume = ResumeClass::kShape})),
    of_families("gpt", works<&ModelConfig::window_size>(
                           kNetwork, {.name = "--window-size",
                                      .help = "Attention sees L keys before the query's own, of "
                                              "\"L,0\"; L negative: all",
                                      .value_name = "L,R",
                                      .resume = ResumeClass::kFixed})),
    of_families("gpt", works<&ModelConfig::window_attn_skip_freq>(
                           kNetwork, {.name = "--window-attn-skip-freq",
                                      .help = "Layers without --window-size: each N-th, or those "
                                              "with 0 in a list ([0]*2+[1]*3)",
                                      .value_name = "N",
                                      .needs = "--window-size",
                                      .resume = ResumeClass::kFixed})),
    of_families("gpt t5", works<&ModelConfig::attention_scale>(
                              kOwn, {.name = "--attention-scale",
                                     .help = "Of attention scores (0: 1 / sqrt(--kv-channels))",
                                     .range = at_least(0),
                                     .resume = ResumeClass::kFixed})),
    of_families("t5", works<&ModelConfig::scale_decoder_output>(
                          kOwn, {.name = "--scale-decoder-output",
                                 .help = "T5: the decoder's output is divided by "
                                         "sqrt(--hidden-size) before the output matrix",
                                 .resume = ResumeClass::kFixed})),
    of_families("t5", works<&ModelConfig::disable_output_bias>(
                          kOwn, {.name = "--disable-output-bias",
                                 .help = "T5: a tied output layer has no bias either",
                                 .resume = ResumeClass::kShape})),
};

}  // namespace

std::span<const TrainFlag> layer_flags() { return kLayerRows; }

}  // namespace phalanx
