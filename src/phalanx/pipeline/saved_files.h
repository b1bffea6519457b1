#pragma once
// What forward passes save and backward passes read, in files between them (Rajbhandari et al.,
// ZeRO-Infinity, 2021): a block is written behind the forward pass of its unit, while the next one
// is computed, and read ahead of its backward pass, while that of the next one is. So it has two
// lives in memory, each with a place of its own in the plan.

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "phalanx/model/chunk.h"
#include "phalanx/nn/pass_states.h"
#include "phalanx/offload/storage.h"
#include "phalanx/pipeline/action.h"

namespace phalanx {

// A block that leaves memory.
struct SavedLeave {
  std::size_t block = 0;
  std::size_t second = 0;  // the block of its second life
  int written = 0;         // the unit behind whose forward pass it is written
  int read = 0;            // and before whose backward pass, or recomputation, it is read

  friend bool operator==(const SavedLeave&, const SavedLeave&) = default;
};

// Cuts the lives of those of a chunk's blocks that leave, and adds their second ones to the list.
// By units. What is smaller than `smallest` bytes stays; so does what the chunk's last unit saves,
// and what would come back at once.
std::vector<SavedLeave> cut_lives(std::vector<SavedTensor>& blocks, int units,
                                  const nn::PassOrder& order, std::int64_t smallest);

// For each microbatch the room that it has in its chunk's file: the first that is free. By chunk
// and microbatch.
std::vector<std::vector<int>> file_slots(const Program& program);

class SavedFiles final : public nn::UnitHooks {
 public:
  // The storage must outlive this.
  explicit SavedFiles(Storage& storage) : storage_(storage) {}

  // What is smaller than a block of the file stays.
  std::int64_t smallest() const { return storage_.block_bytes(); }
  // Room for these of so many microbatches at once; programs share it.
  void reserve(int chunk, std::span<const SavedTensor> blocks, std::span<const SavedLeave> leaves,
               int slots);
  // Makes the files, when all programs have reserved theirs.
  void open();
  std::int64_t file_bytes() const;  // of the disk

  // The next pass over the chunk. What leaves must outlive it; `blocks` are in the list's order.
  struct Entry {
    Context* context = nullptr;
    const Chunk* chunk = nullptr;
    int index = 0;  // the chunk's
    int slot = 0;
    bool forward = true;
    std::span<const SavedLeave> leaves;
    std::span<const Tensor> blocks;
  };
  void enter(const Entry& entry);
  void before(const nn::Unit& unit, nn::PassKind pass, int microbatch) override;
  void after(const nn::Unit& unit, nn::PassKind pass, int microbatch,
             const nn::UnitTensors& tensors) override;

 private:
  struct File {
    std::map<std::size_t, std::int64_t> bytes;                 // by block
    std::map<std::size_t, std::vector<std::int64_t>> offsets;  // of its records, by slot
    int slots = 0;
    std::unique_ptr<StateFile> file;
  };
  int index_of(const nn::Unit& unit) const;
  void await(std::size_t leave);
  std::int64_t offset_of(const SavedLeave& leave) const;

  Storage& storage_;
  std::map<int, File> files_;  // by chunk
  Entry pass_;
  File* file_ = nullptr;     // of the pass
  std::vector<Work> works_;  // by leave
  // Forward: leaves before this are written, or on their way; of these, those before `over_` are
  // there. Backward: leaves from this on are on their way, those from `over_` on are there.
  std::size_t begun_ = 0;
  std::size_t over_ = 0;
};

}  // namespace phalanx
