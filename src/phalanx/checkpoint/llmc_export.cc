#include "phalanx/checkpoint/llmc_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <set>
#include <string>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/checkpoint/tensor_source.h"

namespace phalanx {
namespace {

constexpr std::string_view kWordTable = "embedding.word_embeddings.weight";

void write_header(DurableFile& file, std::initializer_list<std::int64_t> fields) {
  std::array<std::int32_t, kLlmcHeaderInts> header{};
  std::ranges::transform(fields, header.begin(),
                         [](std::int64_t field) { return static_cast<std::int32_t>(field); });
  file.write(std::as_bytes(std::span(header)));
}

// Calls visit(stored, layer) in the order of the file.
template <typename Visit>
void for_each_tensor(const LlmcConfig& config, const Visit& visit) {
  for (const LlmcTensor& stored : llmc_tensors(config)) {
    const std::int64_t copies = stored.is_stacked() ? config.layers : 1;
    for (std::int64_t layer = 0; layer < copies; ++layer) visit(stored, layer);
  }
}

void check_tensors(const CheckpointReader& checkpoint, const LlmcConfig& config) {
  std::set<std::string, std::less<>> places;
  Arena planning = Arena::planning("llm.c tensor");
  for_each_tensor(config, [&](const LlmcTensor& stored, std::int64_t layer) {
    const GlobalTensor tensor = llmc_global_tensor(
        config, stored, layer, dense_tensor(planning, 0, config.dtype, stored.shape));
    const auto* entry = checkpoint.find(tensor.name);
    if (entry == nullptr) {
      throw ConfigError("{}: has no tensor {}, which llm.c's model has",
                        checkpoint.directory().string(), tensor.name);
    }
    if (entry->shape != tensor.global_shape || !is_floating(entry->dtype)) {
      throw ConfigError("{}: tensor {} is {} {}, llm.c's is {}", checkpoint.directory().string(),
                        tensor.name, name_of(entry->dtype), entry->shape.to_string(),
                        tensor.global_shape.to_string());
    }
    places.insert(tensor.name);
  });
  for (const auto& entry : checkpoint.manifest().tensors) {
    if (entry.name.starts_with(kOptimizerPrefix) || places.contains(entry.name)) continue;
    throw ConfigError("{}: tensor {} has no place in llm.c's model",
                      checkpoint.directory().string(), entry.name);
  }
}

}  // namespace

std::int64_t llmc_vocabulary(const CheckpointReader& checkpoint) {
  const auto* entry = checkpoint.find(kWordTable);
  if (entry == nullptr || entry->shape.rank() != 2) {
    throw ConfigError("{}: has no word table {}", checkpoint.directory().string(), kWordTable);
  }
  return entry->shape[0];
}

void export_llmc_model(const CheckpointReader& checkpoint, const LlmcConfig& config,
                       DurableFile& file) {
  check_tensors(checkpoint, config);
  write_header(file, {kLlmcModelMagic,
                      config.dtype == DType::kBF16 ? kLlmcBFloat16Version : kLlmcFloat32Version,
                      config.max_sequence, config.vocabulary, config.layers, config.heads,
                      config.channels, config.padded_vocabulary});
  std::int64_t largest = 0;
  for (const LlmcTensor& stored : llmc_tensors(config)) {
    largest = std::max(largest, stored.shape.count() * size_of(config.dtype));
  }
  Arena arena("llm.c tensor", round_up(largest, kArenaAlignment));
  for_each_tensor(config, [&](const LlmcTensor& stored, std::int64_t layer) {
    const Tensor local = dense_tensor(arena, 0, config.dtype, stored.shape);
    // Padding stays zero.
    std::memset(local.data(), 0, static_cast<std::size_t>(local.bytes()));
    checkpoint.read(llmc_global_tensor(config, stored, layer, local), DTypeMatch::kConvert);
    file.write(std::span<const std::byte>(local.data(), static_cast<std::size_t>(local.bytes())));
  });
}

LlmcTokenWriter::LlmcTokenWriter(const std::filesystem::path& path, std::int64_t tokens,
                                 std::int64_t vocabulary)
    : file_(path),
      path_(path.string()),
      tokens_(tokens),
      most_(std::min<std::int64_t>(vocabulary - 1, std::numeric_limits<std::uint16_t>::max())) {
  if (tokens < 1 || tokens > std::numeric_limits<std::int32_t>::max()) {
    throw DataError("{}: a token file of llm.c has from 1 to {} tokens, not {}", path_,
                    std::numeric_limits<std::int32_t>::max(), tokens);
  }
  write_header(file_, {kLlmcTokenMagic, kLlmcTokenVersion, tokens});
}

void LlmcTokenWriter::add(std::span<const std::int32_t> ids) {
  narrow_.clear();
  for (const std::int32_t id : ids) {
    if (id < 0 || id > most_) {
      throw DataError("{}: token {} is {}: ids are from 0 to {}{}", path_,
                      added_ + std::ssize(narrow_), id, most_,
                      most_ == std::numeric_limits<std::uint16_t>::max()
                          ? " in a token file of llm.c"
                          : ", the model's vocabulary");
    }
    narrow_.push_back(static_cast<std::uint16_t>(id));
  }
  added_ += std::ssize(narrow_);
  file_.write(std::as_bytes(std::span(narrow_)));
}

void LlmcTokenWriter::commit() {
  PHALANX_CHECK(added_ == tokens_, "{}: {} of {} tokens", path_, added_, tokens_);
  file_.commit();
}

}  // namespace phalanx
