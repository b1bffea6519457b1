#pragma once
// The format of llm.c's files (github.com/karpathy/llm.c), for import and export.
//
// Model file: 256 int32 (magic 20240326, version 3: f32 or 5: bf16, longest sequence, vocabulary,
// layers, heads, channels, padded vocabulary), then 16 tensors, those of the layers stacked: wte
// wpe ln1w ln1b qkvw qkvb attprojw attprojb ln2w ln2b fcw fcb fcprojw fcprojb lnfw lnfb; weights
// [out, in], QKV rows [3, heads, head size]. Token file: 256 int32 (magic 20240520, version 1,
// number of tokens), then uint16 ids.

#include <cstdint>
#include <string_view>
#include <vector>

#include "phalanx/mesh/global_tensor.h"

namespace phalanx {

inline constexpr std::int64_t kLlmcHeaderInts = 256;
inline constexpr std::int64_t kLlmcHeaderBytes = kLlmcHeaderInts * 4;
inline constexpr std::int32_t kLlmcModelMagic = 20240326;
inline constexpr std::int32_t kLlmcTokenMagic = 20240520;
inline constexpr std::int32_t kLlmcFloat32Version = 3;
inline constexpr std::int32_t kLlmcBFloat16Version = 5;
inline constexpr std::int32_t kLlmcTokenVersion = 1;

struct LlmcConfig {
  DType dtype = DType::kF32;
  std::int64_t max_sequence = 0;
  std::int64_t vocabulary = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t channels = 0;
  std::int64_t padded_vocabulary = 0;
};

// One of the 16 tensors: how it is stored, and our name for it. A name with "{}" is stacked over
// the layers.
struct LlmcTensor {
  std::string_view name;
  Shape shape;  // of one layer, as stored
  enum class Order { kPlain, kVocabulary, kQkv } order = Order::kPlain;
  bool is_stacked() const { return name.find("{}") != std::string_view::npos; }
};
// In the order of the file.
std::vector<LlmcTensor> llmc_tensors(const LlmcConfig& config);

// One tensor of one layer, stored as the file has it and described as Megatron-core's: its name,
// QKV rows grouped by head (megatron-core's order [heads, 3, head size]), no padded rows.
GlobalTensor llmc_global_tensor(const LlmcConfig& config, const LlmcTensor& stored,
                                std::int64_t layer, const Tensor& local);

}  // namespace phalanx
