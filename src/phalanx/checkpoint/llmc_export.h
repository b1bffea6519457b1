#pragma once
// `phalanx export llmc`: a checkpoint's weights and a dataset's tokens as the files of llm.c
// (llmc_format.h), for its trainer and other programs that read them. A checkpoint that `import
// llmc` made from a file becomes the same file again, byte for byte, if the vocabulary was padded
// as llm.c's scripts do it.

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "phalanx/base/file.h"
#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/checkpoint/llmc_format.h"

namespace phalanx {

// llm.c's scripts pad the vocabulary to a multiple of this.
inline constexpr std::int64_t kLlmcVocabularyMultiple = 128;

// The number of ids of the checkpoint's word table. ConfigError if it has no table.
std::int64_t llmc_vocabulary(const CheckpointReader& checkpoint);

// Writes header and weights, converted to config.dtype (f32, bf16) to the nearest value; padded
// rows are zero. Memory holds one tensor of one layer. ConfigError, before anything is written, if
// the checkpoint has a tensor that the file has no place for, lacks one that the file needs, or has
// one of another shape.
void export_llmc_model(const CheckpointReader& checkpoint, const LlmcConfig& config,
                       DurableFile& file);

// Writes a token file. DataError unless `tokens` is from 1 to 2^31 - 1, as llm.c's reader needs.
class LlmcTokenWriter {
 public:
  LlmcTokenWriter(const std::filesystem::path& path, std::int64_t tokens, std::int64_t vocabulary);
  // DataError for an id outside the vocabulary, or above 16 bits.
  void add(std::span<const std::int32_t> ids);
  // InternalError unless all tokens have been written.
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
