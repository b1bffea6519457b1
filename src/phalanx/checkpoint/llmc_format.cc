#include "phalanx/checkpoint/llmc_format.h"

#include <fmt/format.h>

namespace phalanx {
namespace {

// Stored rows [3, heads, head size] are the global rows [heads, 3, head size]; of a bias the
// columns are.
std::vector<ParamBox> qkv_boxes(const LlmcConfig& config, bool is_vector) {
  const std::int64_t head_size = config.channels / config.heads;
  std::vector<ParamBox> boxes;
  for (std::int64_t head = 0; head < config.heads; ++head) {
    for (std::int64_t part = 0; part < 3; ++part) {
      const std::int64_t global = (head * 3 + part) * head_size;
      const std::int64_t local = part * config.channels + head * head_size;
      boxes.push_back(is_vector ? ParamBox{.global_column = global,
                                           .local_column = local,
                                           .rows = 1,
                                           .columns = head_size}
                                : ParamBox{.global_row = global,
                                           .local_row = local,
                                           .rows = head_size,
                                           .columns = config.channels});
    }
  }
  return boxes;
}

}  // namespace

std::vector<LlmcTensor> llmc_tensors(const LlmcConfig& config) {
  const std::int64_t c = config.channels;
  using enum LlmcTensor::Order;
  return {
      {"embedding.word_embeddings.weight", {config.padded_vocabulary, c}, kVocabulary},
      {"embedding.position_embeddings.weight", {config.max_sequence, c}},
      {"decoder.layers.{}.input_layernorm.weight", {c}},
      {"decoder.layers.{}.input_layernorm.bias", {c}},
      {"decoder.layers.{}.self_attention.linear_qkv.weight", {3 * c, c}, kQkv},
      {"decoder.layers.{}.self_attention.linear_qkv.bias", {3 * c}, kQkv},
      {"decoder.layers.{}.self_attention.linear_proj.weight", {c, c}},
      {"decoder.layers.{}.self_attention.linear_proj.bias", {c}},
      {"decoder.layers.{}.pre_mlp_layernorm.weight", {c}},
      {"decoder.layers.{}.pre_mlp_layernorm.bias", {c}},
      {"decoder.layers.{}.mlp.linear_fc1.weight", {4 * c, c}},
      {"decoder.layers.{}.mlp.linear_fc1.bias", {4 * c}},
      {"decoder.layers.{}.mlp.linear_fc2.weight", {c, 4 * c}},
      {"decoder.layers.{}.mlp.linear_fc2.bias", {c}},
      {"decoder.final_layernorm.weight", {c}},
      {"decoder.final_layernorm.bias", {c}},
  };
}

GlobalTensor llmc_global_tensor(const LlmcConfig& config, const LlmcTensor& stored,
                                std::int64_t layer, const Tensor& local) {
  GlobalTensor tensor = whole_tensor(fmt::format(fmt::runtime(stored.name), layer), local);
  if (stored.order == LlmcTensor::Order::kVocabulary) {
    tensor.global_shape[0] = config.vocabulary;
    tensor.boxes[0].rows = config.vocabulary;
  } else if (stored.order == LlmcTensor::Order::kQkv) {
    tensor.boxes = qkv_boxes(config, local.shape.rank() == 1);
  }
  return tensor;
}

}  // namespace phalanx
