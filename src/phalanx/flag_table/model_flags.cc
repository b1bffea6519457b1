#include "phalanx/flag_table/bound.h"
#include "phalanx/flag_table/sections.h"

namespace phalanx {
namespace {

using enum ResumeClass;

// Wider is a typing error; up to this, sizes of tensors fit into 64 bits.
constexpr double kMostWidth = 1048576.0;

constexpr TrainFlag kModelRows[] = {
    // The dropout coordinates (base/philox.h) give a layer 16 bits and a head 12.
    works<&ModelConfig::num_layers>(
        kNetwork, "--num-layers", "Transformer layers",
        {.required = true, .range = from_to(1, 65534), .resume = kShape}),
    {.section = kNetwork,
     .spec = {.name = "--encoder-num-layers",
              .type = FlagType::kInteger,
              .help = "The same as --num-layers, which is the encoder's of a T5",
              .stands_for = "--num-layers @",
              .range = from_to(1, 65534)}},
    of_families("t5", works<&ModelConfig::decoder_num_layers>(
                          kNetwork, "--decoder-num-layers",
                          "T5: layers of the decoder (0: as the encoder's)",
                          {.range = from_to(0, 65534), .resume = kShape})),
    works<&ModelConfig::hidden_size>(
        kNetwork, "--hidden-size", "Width of the residual stream",
        {.required = true, .range = from_to(1, kMostWidth), .resume = kShape}),
    works<&ModelConfig::ffn_hidden_size>(kNetwork, "--ffn-hidden-size",
                                         "Width of the MLP (0: 4 x --hidden-size)",
                                         {.range = from_to(0, 4 * kMostWidth), .resume = kShape}),
    works<&ModelConfig::num_attention_heads>(
        kNetwork, "--num-attention-heads", "Attention heads",
        {.required = true, .range = from_to(1, 4096), .resume = kShape}),
    works<&ModelConfig::kv_channels>(kNetwork, "--kv-channels",
                                     "Size of a head (0: --hidden-size / --num-attention-heads)",
                                     {.range = from_to(0, kMostWidth), .resume = kShape}),
    of_families("gpt bert",
                works<&ModelConfig::group_query_attention>(
                    kNetwork, "--group-query-attention",
                    "Several query heads share a key/value head: see --num-query-groups")),
    works<&ModelConfig::num_query_groups>(kNetwork, "--num-query-groups", "Key/value heads",
                                          {.range = from_to(1, 4096),
                                           .needs = "--group-query-attention",
                                           .needs_always = true,
                                           .resume = kShape}),
    works<&ModelConfig::max_position_embeddings>(
        kNetwork, "--max-position-embeddings",
        "Rows of the position table, or where there is none the most positions; at least "
        "--seq-length",
        {.required = true, .range = from_to(1, kMostInt32), .resume = kShape}),
    of_families(
        "t5",
        works<&ModelConfig::relative_attention_num_buckets>(
            kNetwork, "--relative-attention-num-buckets",
            "Relative positions: distances that have a bias each, far ones together",
            {.range = from_to(4, 65536), .needs = "--position-embedding-type", .resume = kShape})),
    of_families("t5", works<&ModelConfig::relative_attention_max_distance>(
                          kNetwork, "--relative-attention-max-distance",
                          "Relative positions: from here on all distances are one",
                          {.range = from_to(2, kMostInt32),
                           .needs = "--position-embedding-type",
                           .resume = kShape})),
    of_families("bert", works<&ModelConfig::bert_no_binary_head>(
                            kNetwork, "--bert-no-binary-head",
                            "BERT: no loss on the order of sentences, and no token types",
                            {.yaml_keys = "!bert_binary_head", .resume = kShape})),
    of_families(
        "bert",
        works<&ModelConfig::post_layernorm>(
            kNetwork, "--post-layernorm",
            "BERT: norms behind the residual sums, as published, not in front of the sub-layers",
            {.resume = kShape})),
    works<&ModelConfig::make_vocab_size_divisible_by>(
        kNetwork, "--make-vocab-size-divisible-by",
        "The vocabulary is padded to a multiple of this x the tensor-parallel size",
        {.range = from_to(1, kMostWidth)}),
    works<&ModelConfig::model_vocab_size>(kNetwork, "--model-vocab-size",
                                          "Ids of the model, at least the tokenizer's (0: as many)",
                                          {.range = from_to(0, kMostInt32), .resume = kShape}),
    works<&ModelConfig::untie_embeddings_and_output_weights>(
        kNetwork, "--untie-embeddings-and-output-weights",
        "The output layer has a matrix of its own", {.resume = kShape}),
    works<&ModelConfig::init_method_std>(
        kNetwork, "--init-method-std", "Deviation of the initial weights", {.range = at_least(0)}),

    works<&ModelConfig::attention_dropout>(kRegularisation, "--attention-dropout",
                                           "Dropout of attention probabilities",
                                           {.range = share_below_one(), .resume = kWarned}),
    works<&ModelConfig::hidden_dropout>(kRegularisation, "--hidden-dropout",
                                        "Dropout of embedding and sub-layer outputs",
                                        {.range = share_below_one(), .resume = kWarned}),

    works<&ModelConfig::bf16>(kPrecision, "--bf16",
                              "bf16 parameters and activations, fp32 main parameters",
                              {.excludes = "--fp16", .resume = kFixed}),
    works<&ModelConfig::fp16>(kPrecision, "--fp16",
                              "fp16 parameters and activations, fp32 main parameters",
                              {.resume = kFixed}),
    works<&ModelConfig::fp32_residual_connection>(kPrecision, "--fp32-residual-connection",
                                                  "The residual stream stays fp32",
                                                  {.needs = "--fp16 --bf16", .resume = kFixed}),

    works<&ModelConfig::matmul_precision>(
        kOwn, "--matmul-precision",
        "How bf16 matrices are multiplied; a resumed run keeps the checkpoint's",
        {.choices = "auto fp32 bf16 amx2"}),
    works<&ModelConfig::attention_backend>(kOwn, "--attention-backend",
                                           "Attention as one kernel, or as products and a softmax",
                                           {.choices = "fused unfused",
                                            .same_values = "auto=fused flash=fused local=unfused",
                                            .resume = kFixed}),
};

}  // namespace

std::span<const TrainFlag> model_flags() { return kModelRows; }

}  // namespace phalanx
