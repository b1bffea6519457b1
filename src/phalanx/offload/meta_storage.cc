// The base classes check ranges and record transfers, so only the memory is left to be taken.

#include <utility>

#include "phalanx/offload/storage.h"

namespace phalanx {
namespace {

class MetaFile final : public StateFile {
 public:
  MetaFile(const std::string& name, const FileLayout& layout) : StateFile(name, layout) {}
  void settle() override {}

 protected:
  Work start_write(const Range& /*range*/, const std::byte* /*memory*/) override { return {}; }
  Work start_read(const Range& /*range*/, std::byte* /*memory*/) override { return {}; }
};

class MetaStorage final : public Storage {
 public:
  MetaStorage(const StorageOptions& options, Arena& arena)
      : Storage(options.block_bytes), arena_(arena) {
    arena_.allocate(DType::kU8, {storage_bytes(options)});
  }
  std::unique_ptr<StateFile> create_file(const std::string& name,
                                         const FileLayout& layout) override {
    arena_.allocate(DType::kI64, {layout.blocks()});
    return std::make_unique<MetaFile>(name, layout);
  }
  std::string description() const override { return "planned"; }

 private:
  Arena& arena_;
};

}  // namespace

std::unique_ptr<Storage> make_meta_storage(const StorageOptions& options, Arena& arena) {
  return std::make_unique<MetaStorage>(options, arena);
}

}  // namespace phalanx
