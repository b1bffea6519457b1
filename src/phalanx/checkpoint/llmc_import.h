#pragma once
// `phalanx import llmc`: the files of llm.c (github.com/karpathy/llm.c) as a checkpoint and a token
// dataset. With llm.c and its PyTorch twin as oracles, every step of a GPT-2 can be checked against
// two other programs.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "phalanx/base/file.h"
#include "phalanx/checkpoint/llmc_format.h"
#include "phalanx/tensor/arena.h"

namespace phalanx {

// A model file, its parameters described as Megatron-core's: names, one tensor for each layer, QKV
// rows grouped by head (megatron-core's order [heads, 3, head size]), no padded rows. The boxes do
// the work; nothing is rearranged here.
class LlmcModel {
 public:
  // DataError names the header field that is wrong, or the size the file should have.
  explicit LlmcModel(const std::filesystem::path& path);

  const LlmcConfig& config() const { return config_; }
  const std::vector<GlobalTensor>& tensors() const { return tensors_; }
  // The model as Megatron's flags; the tokenizer is the one that takes ids.
  std::map<std::string, std::string> arguments() const;

 private:
  LlmcConfig config_;
  std::unique_ptr<Arena> arena_;
  std::vector<GlobalTensor> tensors_;
};

// A token file; every id is below `vocabulary` (DataError).
class LlmcTokens {
 public:
  LlmcTokens(const std::filesystem::path& path, std::int64_t vocabulary);
  std::span<const std::uint16_t> tokens() const;

 private:
  MappedFile file_;
};

// Reads and checks both files, calls write_tokens (which makes OUTPUT/tokens.{bin,idx}), then
// writes OUTPUT/checkpoint, a weights-only checkpoint at iteration 0, and returns its path.
std::filesystem::path import_llmc(
    const std::filesystem::path& model_file, const std::filesystem::path& token_file,
    const std::filesystem::path& output,
    const std::function<void(std::span<const std::uint16_t>)>& write_tokens);

}  // namespace phalanx
