#pragma once
// What the tests of this folder share.

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/file.h"
#include "phalanx/base/test_support.h"
#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/checkpoint/checkpoint_writer.h"
#include "phalanx/mesh/global_tensor.h"
#include "phalanx/tensor/tensor.h"

namespace phalanx::testing_support {

inline void flip_bit(const std::filesystem::path& path, std::size_t byte, int bit) {
  std::string text = read_file(path);
  text[byte] = static_cast<char>(text[byte] ^ (1 << bit));
  put_file(path, text);
}

inline Tensor filled(Arena& arena, const Shape& shape, float first) {
  const Tensor tensor = arena.allocate(DType::kF32, shape);
  const auto values = tensor.span<float>();
  std::iota(values.begin(), values.end(), first);
  return tensor;
}

inline std::string as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The bytes of a whole tensor.
inline std::vector<std::byte> bytes_of(const CheckpointReader& reader,
                                       const Manifest::Entry& entry) {
  std::vector<std::byte> all;
  reader.visit(entry, [&](std::span<const std::byte> bytes) {
    all.insert(all.end(), bytes.begin(), bytes.end());
  });
  return all;
}

template <typename T>
std::string raw(const std::vector<T>& values) {
  return as_text(std::as_bytes(std::span(values)));
}

inline constexpr std::string_view kExpAvgPrefix = "optimizer.exp_avg.";
inline constexpr std::string_view kExpAvgSqPrefix = "optimizer.exp_avg_sq.";

// A model of two tensors, one with a padded vocabulary, and its optimizer state. Element i of a
// tensor is base + i.
class TinyModel {
 public:
  explicit TinyModel(float base = 0) {
    const ParamSpec words = whole_parameter("embedding.word_embeddings.weight", {5, 4}, DType::kF32,
                                            {}, /*padded_rows=*/8);
    const ParamSpec bias = whole_parameter("decoder.final_layernorm.bias", {4}, DType::kF32, {});
    float first = base;
    for (const std::string_view prefix : {std::string_view(), kExpAvgPrefix, kExpAvgSqPrefix}) {
      tensors_.push_back(global_tensor(words, filled(arena_, {8, 4}, first), prefix));
      tensors_.push_back(global_tensor(bias, filled(arena_, {4}, first + 100), prefix));
      first += 1000;
    }
  }
  std::span<const GlobalTensor> all() const { return tensors_; }
  std::span<const GlobalTensor> weights() const { return all().first(2); }

 private:
  Arena arena_{"tiny model", 1 << 16};
  std::vector<GlobalTensor> tensors_;
};

inline Manifest example_manifest(std::int64_t iteration) {
  Manifest manifest;
  manifest.run_id = "0123456789abcdef0123456789abcdef";
  manifest.start = 1;
  manifest.iteration = iteration;
  manifest.consumed_train_samples = 16 * iteration;
  manifest.consumed_valid_samples = 3;
  manifest.optimizer = {.adam_step = iteration == 0 ? 0 : iteration - 1,
                        .loss_scale = 4294967296.0,
                        .clean_steps = 7,
                        .hysteresis = -2,
                        .schedule_steps = 16 * iteration};
  manifest.requested_samples = {.train = 1000, .valid = 200, .test = 30};
  manifest.matmul_precision = "bf16";
  manifest.threads_per_rank = 2;
  manifest.seed = 18446744073709551615U;
  manifest.arguments = {{"--num-layers", "2"}, {"--data-path", "a \"b\"\\c\n"}};
  manifest.input_files = {{"--vocab-file", "/data/vocab.json", 12, 0xfeedU, ""},
                          {"--data-path", "/data/corpus.bin", 1 << 20, std::nullopt, ""}};
  return manifest;
}

}  // namespace phalanx::testing_support
