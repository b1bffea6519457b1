#include "phalanx/checkpoint/consolidate.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "phalanx/base/file.h"
#include "phalanx/base/working_directory.h"
#include "phalanx/checkpoint/base_checkpoint.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/checkpoint_writer.h"
#include "phalanx/checkpoint/tensor_source.h"

namespace phalanx {
namespace {

class StoredSource final : public TensorSource {
 public:
  explicit StoredSource(const CheckpointReader& reader) : reader_(reader) {
    for (const auto& entry : reader.manifest().tensors) {
      infos_.push_back({entry.name, entry.dtype, entry.shape});
    }
    std::stable_partition(infos_.begin(), infos_.end(), [](const Info& info) {
      return !info.name.starts_with(kOptimizerPrefix);
    });
  }
  int size() const override { return static_cast<int>(infos_.size()); }
  const Info& info(int index) const override { return infos_[static_cast<std::size_t>(index)]; }
  void visit(int index, const Visitor& visitor) override {
    reader_.visit(*reader_.find(info(index).name), visitor);
  }

 private:
  const CheckpointReader& reader_;
  std::vector<Info> infos_;
};

}  // namespace

std::filesystem::path consolidate(const CheckpointReader& reader,
                                  const std::filesystem::path& save) {
  Manifest manifest = reader.manifest();
  if (manifest.base) {
    manifest.base->path = recorded_path(base_directory(reader));
  }
  SaveOptions options{.directory = save, .retention = {.keep_last = 0}};
  for (const auto& input : manifest.input_files) {
    const auto is_taken = [&](const InputCopy& copy) { return copy.name == input.copy; };
    if (input.copy.empty() || std::ranges::any_of(options.copies, is_taken)) continue;
    options.copies.push_back({input.copy, read_file(reader.directory() / input.copy)});
  }
  StoredSource source(reader);
  std::filesystem::path made = save_checkpoint(options, std::move(manifest), source);
  // The tracker names the latest, which this one need not be.
  const std::int64_t latest = saved_checkpoints(save).back().iteration;
  if (latest != reader.manifest().iteration) write_tracker(save, latest);
  return made;
}

}  // namespace phalanx
