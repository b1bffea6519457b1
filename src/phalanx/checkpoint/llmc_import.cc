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

constexpr std::int64_t kHeaderInts = 256;
constexpr std::int64_t kHeaderBytes = kHeaderInts * 4;
constexpr std::int32_t kModelMagic = 20240326;
constexpr std::int32_t kTokenMagic = 20240520;
constexpr std::int32_t kFloat32Version = 3;
constexpr std::int32_t kBFloat16Version = 5;
constexpr std::int32_t kTokenVersion = 1;
// No dimension of a model comes near; products of two stay far inside 64 bits.
constexpr std::int64_t kLargestExtent = std::int64_t{1} << 24;
constexpr std::int64_t kMostLayers = 4096;

// The header's 256 numbers; both kinds of file start with a magic number.
class Header {
 public:
  Header(const MappedFile& file, std::int32_t magic, std::string_view kind)
      : path_(file.path().string()) {
    if (std::ssize(file.bytes()) < kHeaderBytes) {
      throw DataError("{}: {} bytes are too few for a {} file of llm.c", path_, file.bytes().size(),
                      kind);
    }
    std::memcpy(values_.data(), file.bytes().data(), kHeaderBytes);
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
  std::array<std::int32_t, kHeaderInts> values_{};
};

LlmcConfig read_config(const MappedFile& file) {
  const std::string path = file.path().string();
  const Header header(file, kModelMagic, "model");
  LlmcConfig config;
  if (header.version() == kBFloat16Version) {
    config.dtype = DType::kBF16;
  } else if (header.version() != kFloat32Version) {
    throw DataError("{}: version {} is not supported: {} (f32) and {} (bf16) are", path,
                    header.version(), kFloat32Version, kBFloat16Version);
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

// How one of the 16 tensors is stored and what it becomes. A name with "{}" is stacked over the
// layers.
struct Stored {
  std::string_view name;
  Shape shape;  // of one layer, as stored
  enum class Order { kPlain, kVocabulary, kQkv } order = Order::kPlain;
};

std::vector<Stored> stored_tensors(const LlmcConfig& config) {
  const std::int64_t c = config.channels;
  using enum Stored::Order;
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

bool is_stacked(const Stored& stored) { return stored.name.find("{}") != std::string_view::npos; }

// Bytes after the header.
std::int64_t parameter_bytes(const LlmcConfig& config, const std::string& path) {
  std::int64_t total = 0;
  bool fits = true;
  for (const auto& stored : stored_tensors(config)) {
    Shape whole = stored.shape;
    whole.push_back(is_stacked(stored) ? config.layers : 1);
    const auto bytes = checked_bytes(config.dtype, whole);
    fits = fits && bytes && !__builtin_add_overflow(total, *bytes, &total);
  }
  if (!fits) throw DataError("{}: the header describes a model beyond 2^63 bytes", path);
  return total;
}

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

GlobalTensor as_global(const LlmcConfig& config, const Stored& stored, std::int64_t layer,
                       const Tensor& local) {
  GlobalTensor tensor = whole_tensor(fmt::format(fmt::runtime(stored.name), layer), local);
  if (stored.order == Stored::Order::kVocabulary) {
    tensor.global_shape[0] = config.vocabulary;
    tensor.boxes[0].rows = config.vocabulary;
  } else if (stored.order == Stored::Order::kQkv) {
    tensor.boxes = qkv_boxes(config, local.shape.rank() == 1);
  }
  return tensor;
}

}  // namespace

LlmcModel::LlmcModel(const fs::path& path) {
  const MappedFile file(path);
  config_ = read_config(file);
  const std::int64_t bytes = parameter_bytes(config_, path.string());
  const auto data = file.bytes().subspan(kHeaderBytes);
  if (std::ssize(data) != bytes) {
    throw DataError("{}: {} bytes of parameters; the header describes {}", path.string(),
                    data.size(), bytes);
  }
  arena_ = std::make_unique<Arena>("llm.c model", round_up(bytes, kArenaAlignment));
  const Tensor all = arena_->allocate(DType::kU8, {bytes});
  std::memcpy(all.data(), data.data(), data.size());

  std::int64_t offset = all.offset;
  for (const auto& stored : stored_tensors(config_)) {
    const std::int64_t copies = is_stacked(stored) ? config_.layers : 1;
    for (std::int64_t layer = 0; layer < copies; ++layer) {
      const Tensor local = dense_tensor(*arena_, offset, config_.dtype, stored.shape);
      tensors_.push_back(as_global(config_, stored, layer, local));
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
      // The tokenizer counts end-of-document beyond it.
      {"--vocab-size", std::to_string(config_.vocabulary - 1)},
      {"--make-vocab-size-divisible-by", "128"},
  };
  if (config_.dtype == DType::kBF16) arguments["--bf16"] = "true";
  return arguments;
}

LlmcTokens::LlmcTokens(const fs::path& path, std::int64_t vocabulary) : file_(path) {
  const Header header(file_, kTokenMagic, "token");
  if (header.version() != kTokenVersion) {
    throw DataError("{}: version {} is not supported: {} (uint16 ids) is", path.string(),
                    header.version(), kTokenVersion);
  }
  const std::int64_t count =
      header.get(2, "number of tokens", 1, std::numeric_limits<std::int32_t>::max());
  const std::int64_t bytes = std::ssize(file_.bytes()) - kHeaderBytes;
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
  const auto data = file_.bytes().subspan(kHeaderBytes);
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
