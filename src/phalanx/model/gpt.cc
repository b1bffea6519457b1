#include "phalanx/model/gpt.h"

#include "phalanx/nn/embedding.h"
#include "phalanx/nn/language_model_head.h"
#include "phalanx/nn/transformer_layer.h"

namespace phalanx {
namespace {

std::unique_ptr<nn::Unit> make_embedding(const GptConfig& config, const ChunkRange& range,
                                         nn::ParamTable& table) {
  return std::make_unique<nn::Embedding>(
      table, config.vocabulary, config.padded_vocabulary, config.max_positions,
      config.tied_embedding, config.transformer,
      range.tied_elsewhere ? EmbeddingCopy::kFirst : EmbeddingCopy::kOnly);
}

// The word table of a tied head: the one that this rank has, or a copy of another rank's.
ParamId word_table_of_head(const GptConfig& config, nn::ParamTable& table) {
  for (ParamId id = 0; id < table.size(); ++id) {
    if (!table[id].tied_embedding) continue;
    PHALANX_CHECK(table[id].copy == EmbeddingCopy::kOnly, "{} is tied to two heads",
                  table[id].name);
    return id;
  }
  ParamSpec copy =
      nn::word_table_parameter(config.vocabulary, config.padded_vocabulary, config.transformer);
  copy.copy = EmbeddingCopy::kLast;
  return table.add(std::move(copy));
}

std::unique_ptr<nn::Unit> make_head(const GptConfig& config, nn::ParamTable& table) {
  const ParamId word_table = config.tied_embedding ? word_table_of_head(config, table) : -1;
  return std::make_unique<nn::LanguageModelHead>(table, word_table, config.vocabulary,
                                                 config.padded_vocabulary, config.transformer);
}

}  // namespace

Chunk build_gpt_chunk(const GptConfig& config, const ChunkRange& range, nn::ParamTable& table) {
  table.begin_chunk();
  std::vector<std::unique_ptr<nn::Unit>> units;
  if (range.embedding) units.push_back(make_embedding(config, range, table));
  for (std::int64_t i = 0; i < range.num_layers; ++i) {
    units.push_back(std::make_unique<nn::TransformerLayer>(table, range.first_layer + i, i,
                                                           config.transformer));
  }
  if (range.head) units.push_back(make_head(config, table));
  return Chunk(std::move(units), config.recompute);
}

std::int64_t gpt_parameters(const GptConfig& config) {
  nn::ParamTable table;
  build_gpt_chunk(config, {0, config.transformer.num_layers, true, true}, table);
  std::int64_t count = 0;
  for (const auto& spec : table.specs()) count += spec.global_shape.count();
  return count;
}

double gpt_flops_per_token(const GptConfig& config, std::int64_t sequence) {
  const auto& t = config.transformer;
  const auto context = static_cast<double>(t.heads * t.head_size);
  const auto qkv = static_cast<double>((t.heads + 2 * t.query_groups) * t.head_size);
  const auto h = static_cast<double>(t.hidden);
  const double layer = h * qkv + h * context + 2.0 * h * static_cast<double>(t.ffn_hidden);
  const auto layers = static_cast<double>(t.num_layers);
  return 6.0 * (layers * layer + h * static_cast<double>(config.padded_vocabulary)) +
         12.0 * layers * static_cast<double>(sequence) * context;
}

}  // namespace phalanx
