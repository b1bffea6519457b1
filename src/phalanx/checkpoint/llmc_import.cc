#include "phalanx/checkpoint/llmc_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/checkpoint/checked.h"
#include "phalanx/checkpoint/checkpoint_writer.h"
#include "phalanx/checkpoint/directory_lock.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

// No model has larger dimensions; products of two fit into 64 bits.
constexpr std::int64_t kLargestExtent = std::int64_t{1} << 24;
constexpr std::int64_t kMostLayers = 4096;

// The header's 256 numbers; both kinds of file start with a magic number.
class Header {
 public:
  Header(const MappedFile& file, std::int32_t magic, std::string_view kind)
      : path_(file.path().string()) {
    if (std::ssize(file.bytes()) < kLlmcHeaderBytes) {
      throw DataError("{}: {} bytes are too few for a {} file of llm.c", path_, file.bytes().size(),
                      kind);
    }
    std::memcpy(values_.data(), file.bytes().data(), kLlmcHeaderBytes);
    if (values_[0] != magic) {
      throw DataError("{}: not a {} file of llm.c: the magic number is {}, not {}", path_, kind,
                      values_[0], magic);
    }
  }

  std::int32_t version() const { return values_[1]; }
  std::int64_t get(std::size_t index, std::string_view field, std::int64_t low,
                   std::int64_t high) const {
    const std::int64_t value = values_[index];
    if (value < low || value > high) {
      throw DataError("{}: header field {} ({}) is {}, not from {} to {}", path_, index, field,
                      value, low, high);
    }
    return value;
  }

 private:
  std::string path_;
  std::array<std::int32_t, kLlmcHeaderInts> values_{};
};

LlmcConfig read_config(const MappedFile& file) {
  const std::string path = file.path().string();
  const Header header(file, kLlmcModelMagic, "model");
  LlmcConfig config;
  if (header.version() == kLlmcBFloat16Version) {
    config.dtype = DType::kBF16;
  } else if (header.version() != kLlmcFloat32Version) {
    throw DataError("{}: version {} is not supported: {} (f32) and {} (bf16) are", path,
                    header.version(), kLlmcFloat32Version, kLlmcBFloat16Version);
  }
  config.max_sequence = header.get(2, "longest sequence", 1, kLargestExtent);
  config.vocabulary = header.get(3, "vocabulary", 2, kLargestExtent);
  config.layers = header.get(4, "layers", 1, kMostLayers);
  config.heads = header.get(5, "heads", 1, kLargestExtent);
  config.channels = header.get(6, "channels", 1, kLargestExtent);
  config.padded_vocabulary = header.get(7, "padded vocabulary", config.vocabulary, kLargestExtent);
  if (config.channels % config.heads != 0) {
    throw DataError("{}: {} channels do not divide into {} heads", path, config.channels,
                    config.heads);
  }
  return config;
}

// Bytes after the header.
std::int64_t parameter_bytes(const LlmcConfig& config, const std::string& path) {
  std::int64_t total = 0;
  bool fits = true;
  for (const auto& stored : llmc_tensors(config)) {
    Shape whole = stored.shape;
    whole.push_back(stored.is_stacked() ? config.layers : 1);
    const auto bytes = checked_bytes(config.dtype, whole);
    fits = fits && bytes && !__builtin_add_overflow(total, *bytes, &total);
  }
  if (!fits) throw DataError("{}: the header describes a model beyond 2^63 bytes", path);
  return total;
}

}  // namespace

LlmcModel::LlmcModel(const fs::path& path) {
  const MappedFile file(path);
  config_ = read_config(file);
  const std::int64_t bytes = parameter_bytes(config_, path.string());
  const auto data = file.bytes().subspan(kLlmcHeaderBytes);
  if (std::ssize(data) != bytes) {
    throw DataError("{}: {} bytes of parameters; the header describes {}", path.string(),
                    data.size(), bytes);
  }
  arena_ = std::make_unique<Arena>("llm.c model", round_up(bytes, kArenaAlignment));
  const Tensor all = arena_->allocate(DType::kU8, {bytes});
  std::memcpy(all.data(), data.data(), data.size());

  std::int64_t offset = all.offset;
  for (const auto& stored : llmc_tensors(config_)) {
    const std::int64_t copies = stored.is_stacked() ? config_.layers : 1;
    for (std::int64_t layer = 0; layer < copies; ++layer) {
      const Tensor local = dense_tensor(*arena_, offset, config_.dtype, stored.shape);
      tensors_.push_back(llmc_global_tensor(config_, stored, layer, local));
      offset += local.bytes();
    }
  }
}

std::map<std::string, std::string> LlmcModel::arguments() const {
  std::map<std::string, std::string> arguments = {
      {"--num-layers", std::to_string(config_.layers)},
      {"--hidden-size", std::to_string(config_.channels)},
      {"--ffn-hidden-size", std::to_string(4 * config_.channels)},
      {"--num-attention-heads", std::to_string(config_.heads)},
      {"--seq-length", std::to_string(config_.max_sequence)},
      {"--max-position-embeddings", std::to_string(config_.max_sequence)},
      {"--position-embedding-type", "learned_absolute"},
      {"--normalization", "LayerNorm"},
      {"--norm-epsilon", "1e-05"},
      {"--attention-dropout", "0.0"},
      {"--hidden-dropout", "0.0"},
      {"--tokenizer-type", "NullTokenizer"},
      // The tokenizer adds end-of-document to this size.
      {"--vocab-size", std::to_string(config_.vocabulary - 1)},
      {"--make-vocab-size-divisible-by", "128"},
  };
  if (config_.dtype == DType::kBF16) arguments["--bf16"] = "true";
  return arguments;
}

LlmcTokens::LlmcTokens(const fs::path& path, std::int64_t vocabulary) : file_(path) {
  const Header header(file_, kLlmcTokenMagic, "token");
  if (header.version() != kLlmcTokenVersion) {
    throw DataError("{}: version {} is not supported: {} (uint16 ids) is", path.string(),
                    header.version(), kLlmcTokenVersion);
  }
  const std::int64_t count =
      header.get(2, "number of tokens", 1, std::numeric_limits<std::int32_t>::max());
  const std::int64_t bytes = std::ssize(file_.bytes()) - kLlmcHeaderBytes;
  if (bytes != count * std::int64_t{sizeof(std::uint16_t)}) {
    throw DataError("{}: {} bytes of tokens; the header says {} tokens of 2 bytes", path.string(),
                    bytes, count);
  }
  const auto ids = tokens();
  const auto bad = std::find_if(ids.begin(), ids.end(),
                                [vocabulary](std::uint16_t id) { return id >= vocabulary; });
  if (bad != ids.end()) {
    throw DataError("{}: token {} is {}; the model's vocabulary has {} ids", path.string(),
                    bad - ids.begin(), *bad, vocabulary);
  }
}

std::span<const std::uint16_t> LlmcTokens::tokens() const {
  // A mapping starts at a page, so the ids are aligned.
  const auto data = file_.bytes().subspan(kLlmcHeaderBytes);
  return {reinterpret_cast<const std::uint16_t*>(data.data()), data.size() / 2};
}

fs::path import_llmc(const fs::path& model_file, const fs::path& token_file, const fs::path& output,
                     const std::function<void(std::span<const std::uint16_t>)>& write_tokens) {
  const LlmcModel model(model_file);
  const LlmcTokens tokens(token_file, model.config().vocabulary);
  const DirectoryLock lock(output / "checkpoint", "--output");
  write_tokens(tokens.tokens());

  Manifest manifest;
  manifest.arguments = model.arguments();
  manifest.input_files = {describe_input_file("--checkpoint", model_file),
                          describe_input_file("--tokens", token_file)};
  return save_checkpoint({.directory = output / "checkpoint"}, std::move(manifest),
                         model.tensors());
}

}  // namespace phalanx
