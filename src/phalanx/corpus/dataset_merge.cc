#include "phalanx/corpus/dataset_merge.h"

#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/data/indexed_dataset_writer.h"

namespace phalanx {

void merge_datasets(std::span<const std::string> prefixes, const std::string& output_prefix) {
  if (prefixes.empty()) throw ConfigError("merging needs at least one dataset");
  for (const auto& prefix : prefixes) {
    std::error_code ignored;
    if (std::filesystem::equivalent(idx_path(prefix), idx_path(output_prefix), ignored)) {
      throw ConfigError("{}: the merged dataset cannot replace one of its inputs", output_prefix);
    }
  }
  const IndexedDataset first(prefixes.front());
  IndexedDatasetWriter writer(output_prefix, first.type());
  for (const auto& prefix : prefixes) {
    const IndexedDataset part(prefix);
    if (part.type() != first.type()) {
      throw DataError(
          "{} holds {} and {} holds {}: only datasets of one token type can be merged; "
          "preprocess them with the same tokenizer",
          first.prefix(), name_of(first.type()), prefix, name_of(part.type()));
    }
    if (part.has_modes()) {
      throw DataError("{}: it has modes (multimodal data), which a merge would lose", prefix);
    }
    writer.copy_dataset(part);
  }
  writer.commit();
}

std::vector<std::string> datasets_in(const std::filesystem::path& directory) {
  std::vector<std::string> bins, indices;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const auto extension = entry->path().extension();
    auto& found = extension == ".bin" ? bins : indices;
    if (extension == ".bin" || extension == ".idx") {
      found.push_back(std::filesystem::path(entry->path()).replace_extension().string());
    }
  }
  if (error) throw IoError("{}: cannot list: {}", directory.string(), error.message());
  std::sort(bins.begin(), bins.end());
  std::sort(indices.begin(), indices.end());
  const auto [bin, index] = std::mismatch(bins.begin(), bins.end(), indices.begin(), indices.end());
  if (bin != bins.end() && (index == indices.end() || *bin < *index)) {
    throw DataError("{}: there is no {}", bin_path(*bin), idx_path(*bin));
  }
  if (index != indices.end()) {
    throw DataError("{}: there is no {}", idx_path(*index), bin_path(*index));
  }
  if (bins.empty()) throw DataError("{}: there is no dataset in it", directory.string());
  return bins;
}

}  // namespace phalanx
