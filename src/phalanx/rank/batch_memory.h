#pragma once
// The memory of a rank's microbatches on the device. Each slot is one piece of an arena, laid out
// by a schema, so that a microbatch is one upload and one broadcast.

#include <cstdint>
#include <span>
#include <vector>

#include "phalanx/base/batch_schema.h"
#include "phalanx/comm/communicator.h"
#include "phalanx/data/host_batch.h"
#include "phalanx/nn/pass.h"
#include "phalanx/ops/backend.h"

namespace phalanx {

// The columns of `samples` samples that lie in `bytes`, in the schema's order; each is
// [extents..., samples].
std::vector<Tensor> batch_columns(const BatchSchema& schema, std::int64_t samples, Arena& arena,
                                  const Tensor& bytes);

class BatchMemory {
 public:
  BatchMemory() = default;
  // Room for `slots` microbatches, whose coordinates keep to the patterns; of a context, this is
  // rank `context_rank`.
  BatchMemory(const BatchSchema& schema, const nn::RowPatterns& patterns, std::int64_t samples,
              int slots, Arena& arena, int context_rank = 0);

  const nn::RowPatterns& patterns() const { return patterns_; }
  const nn::Batch& operator[](int slot) const { return slot_at(slot).batch; }
  // The whole microbatch, which has the schema's columns and as many samples (PHALANX_CHECK).
  void upload(Context& context, int slot, const HostBatch& host) const;
  // Sends it from the group's first rank to the others.
  void broadcast(Context& context, int slot, Communicator& group) const;

 private:
  struct Slot {
    Tensor bytes;  // u8
    nn::Batch batch;
  };
  const Slot& slot_at(int slot) const { return slots_[static_cast<std::size_t>(slot)]; }

  BatchSchema schema_;
  nn::RowPatterns patterns_;
  std::int64_t samples_ = 0;
  std::vector<Slot> slots_;
};

}  // namespace phalanx
