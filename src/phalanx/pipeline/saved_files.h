#pragma once
// Keeps saved tensors in files between their forward and backward passes (Rajbhandari et al.,
// ZeRO-Infinity, 2021). A tensor is written after the forward pass of its unit, while the next unit
// is computed, and read ahead of its backward pass, while another unit's is computed. So it lives
// in memory twice, each time at a place of its own in the plan.

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

// A saved tensor that is kept in a file. `first` and `second`: the saved tensors that are its two
// lives in memory.
struct OffloadedTensor {
  std::size_t first = 0;
  std::size_t second = 0;
  int written_after = 0;  // the unit after whose forward pass it is written
  int read_before = 0;    // the unit before whose backward pass, or recomputation, it is read

  friend bool operator==(const OffloadedTensor&, const OffloadedTensor&) = default;
};

// Chooses the tensors of a chunk that are kept in files, shortens their lives, and adds their
// second lives to the list. The result is ordered by written_after. Tensors of fewer than
// `smallest` bytes stay in memory; so do those of the chunk's last unit, and those that would be
// read back at once.
std::vector<OffloadedTensor> split_lives(std::vector<SavedTensor>& tensors, int units,
                                         const nn::PassOrder& order, std::int64_t smallest);

// By chunk and microbatch: the slot of its chunk's file that a microbatch uses, the first free one.
std::vector<std::vector<int>> file_slots(const Program& program);

class SavedFiles final : public nn::UnitHooks {
 public:
  // The storage must outlive this.
  explicit SavedFiles(Storage& storage) : storage_(storage) {}

  // Tensors that are smaller than a block of the file stay in memory.
  std::int64_t smallest() const { return storage_.block_bytes(); }
  // Reserves room for these tensors of `slots` microbatches at once; all programs share it.
  void reserve(int chunk, std::span<const SavedTensor> tensors,
               std::span<const OffloadedTensor> offloaded, int slots);
  // Creates the files, after all programs have reserved their room.
  void open();
  std::int64_t file_bytes() const;  // on the disk

  // Begins a pass over a chunk. `offloaded` must outlive the pass; `tensors` are all saved tensors
  // of the chunk.
  struct Entry {
    Context* context = nullptr;
    const Chunk* chunk = nullptr;
    int index = 0;  // the chunk's
    int slot = 0;
    bool forward = true;
    std::span<const OffloadedTensor> offloaded;
    Tensors tensors;
  };
  void enter(const Entry& entry);
  void before(const nn::Unit& unit, nn::PassKind pass, int microbatch) override;
  void after(const nn::Unit& unit, nn::PassKind pass, int microbatch,
             const nn::UnitTensors& tensors) override;

 private:
  struct File {
    std::map<std::size_t, std::int64_t> bytes;                 // by tensor
    std::map<std::size_t, std::vector<std::int64_t>> offsets;  // by tensor and slot
    int slots = 0;
    std::unique_ptr<StateFile> file;
  };
  int index_of(const nn::Unit& unit) const;
  void await(std::size_t index);
  std::int64_t offset_of(const OffloadedTensor& tensor) const;

  Storage& storage_;
  std::map<int, File> files_;  // by chunk
  Entry pass_;
  File* file_ = nullptr;     // of the pass
  std::vector<Work> works_;  // by offloaded tensor
  // Forward: writes have been started before started_, and completed before completed_. Backward:
  // reads have been started from started_ on, and completed from completed_ on.
  std::size_t started_ = 0;
  std::size_t completed_ = 0;
};

}  // namespace phalanx
