#include "phalanx/saving/data_digests.h"

#include <algorithm>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/saving/resume.h"

namespace phalanx {
namespace {

// The manifest's digests of the n-th file of a flag. Where the file lies does not matter.
std::optional<BlockDigests> blocks_of(const Manifest& manifest, const Manifest::InputFile& file,
                                      std::int64_t n) {
  for (const Manifest::DataBlocks& blocks : manifest.data_blocks) {
    if (blocks.flag != file.flag || n-- > 0) continue;
    return BlockDigests{
        .file_bytes = blocks.bytes, .block_bytes = blocks.block_bytes, .digests = blocks.xxh3};
  }
  return std::nullopt;
}

bool is_comparable(const TrainConfig& config, const Manifest::InputFile& file) {
  return !config.run.finetune && !is_allowed_to_change(config.run, file.flag);
}

}  // namespace

DataDigests::DataDigests(const TrainConfig& config, const RunInputs& inputs,
                         const Manifest* loaded) {
  std::vector<DigestThread::File> files;
  for (const Manifest::InputFile& file : inputs.files) {
    if (file.xxh3) continue;
    const auto n = std::ranges::count(files_, file.flag, &Manifest::InputFile::flag);
    expected_.push_back(loaded != nullptr && is_comparable(config, file)
                            ? blocks_of(*loaded, file, n)
                            : std::nullopt);
    files.push_back({.path = file.path, .expected = expected_.back()});
    files_.push_back(file);
  }
  if (loaded != nullptr) iteration_ = loaded->iteration;
  if (!config.data.data_cache_path.empty()) cache_.emplace(config.data.data_cache_path);
  thread_ = std::make_unique<DigestThread>(std::move(files), cache_ ? &*cache_ : nullptr);
}

std::vector<Manifest::DataBlocks> DataDigests::known() const {
  std::vector<BlockDigests> digests = thread_->digests();
  std::vector<Manifest::DataBlocks> blocks;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    BlockDigests& taken = digests[i];
    const auto& before = expected_[i];
    const bool is_behind = before && before->file_bytes == taken.file_bytes &&
                           before->block_bytes == taken.block_bytes &&
                           before->digests.size() > taken.digests.size();
    if (is_behind) taken.digests = before->digests;
    // A file without digests is kept too: the next run counts files by their positions.
    blocks.push_back({.flag = files_[i].flag,
                      .path = files_[i].path,
                      .bytes = taken.file_bytes,
                      .block_bytes = taken.block_bytes,
                      .xxh3 = std::move(taken.digests)});
  }
  const bool any = std::ranges::any_of(blocks, [](const auto& file) { return !file.xxh3.empty(); });
  return any ? blocks : std::vector<Manifest::DataBlocks>();
}

void DataDigests::check() const {
  const auto difference = thread_->difference();
  if (!difference) return;
  const Manifest::InputFile& file = files_[difference->file];
  throw ConfigError(
      "{} {}: {} of this file are not what they were when the checkpoint of iteration {} was made: "
      "give that file, --finetune to start a new run from the checkpoint's weights, or "
      "--allow-changed {}",
      file.flag, file.path, byte_range(*expected_[difference->file], difference->block), iteration_,
      file.flag.substr(2));
}

std::unique_ptr<const DataDigests> data_digests(const TrainConfig& config, const RunInputs& inputs,
                                                const Manifest* loaded) {
  const bool is_compared = loaded != nullptr && !loaded->data_blocks.empty();
  if (config.run.save.empty() && !is_compared) return nullptr;
  return std::make_unique<const DataDigests>(config, inputs, loaded);
}

}  // namespace phalanx
