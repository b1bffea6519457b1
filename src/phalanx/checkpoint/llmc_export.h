#pragma once
// `phalanx export llmc`: a checkpoint's weights and a dataset's tokens as the files of llm.c
// (llmc_format.h), for its trainer and whatever else reads them. What `import llmc` made of a file
// becomes that file again, byte for byte, where its vocabulary was padded as llm.c's scripts do it.

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "phalanx/base/file.h"
#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/checkpoint/llmc_format.h"

namespace phalanx {

// llm.c's scripts pad the vocabulary so.
inline constexpr std::int64_t kLlmcVocabularyMultiple = 128;

// Ids of the checkpoint's word table. ConfigError where it has none.
std::int64_t llmc_vocabulary(const CheckpointReader& checkpoint);

// Writes header and weights, converted to config.dtype (f32, bf16) to the nearest value; padded
// rows are zero. Memory holds one tensor of one layer. ConfigError before anything is written where
// the checkpoint has a tensor that the file has no place for, or has not one that it needs, or in
// another shape.
void export_llmc_model(const CheckpointReader& checkpoint, const LlmcConfig& config,
                       DurableFile& file);

// A token file on its way. DataError where llm.c cannot count `tokens` (from 1 to 2^31 - 1).
class LlmcTokenWriter {
 public:
  LlmcTokenWriter(const std::filesystem::path& path, std::int64_t tokens, std::int64_t vocabulary);
  // DataError for an id that is not below the vocabulary, or does not fit into 16 bits.
  void add(std::span<const std::int32_t> ids);
  // InternalError unless all tokens have come.
  void commit();

 private:
  DurableFile file_;
  std::string path_;
  std::int64_t tokens_;
  std::int64_t most_;  // the largest id
  std::int64_t added_ = 0;
  std::vector<std::uint16_t> narrow_;
};

}  // namespace phalanx
