#include "phalanx/rank/batch_memory.h"

#include "phalanx/base/error.h"
#include "phalanx/model/batch_binding.h"

namespace phalanx {

std::vector<Tensor> batch_columns(const BatchSchema& schema, std::int64_t samples, Arena& arena,
                                  const Tensor& bytes) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < schema.columns().size(); ++i) {
    const BatchColumn& column = schema.columns()[i];
    Shape extents = column.extents;
    extents.push_back(samples);
    tensors.push_back(
        dense_tensor(arena, bytes.offset + schema.offset(i, samples), column.dtype, extents));
  }
  return tensors;
}

BatchMemory::BatchMemory(const BatchSchema& schema, const nn::RowPatterns& patterns,
                         std::int64_t samples, int slots, Arena& arena, int context_rank)
    : schema_(schema), patterns_(patterns), samples_(samples) {
  for (int i = 0; i < slots; ++i) {
    const Tensor bytes = arena.allocate(DType::kU8, {schema.bytes(samples)});
    slots_.push_back({bytes, bind_batch(schema, batch_columns(schema, samples, arena, bytes),
                                        patterns, context_rank)});
  }
}

void BatchMemory::upload(Context& context, int slot, const HostBatch& host) const {
  PHALANX_CHECK(host.samples() == samples_ && host.schema() == schema_,
                "a microbatch of {} samples, or of other columns, where {} go", host.samples(),
                samples_);
  context.backend.upload(context.queue, slot_at(slot).bytes, host.bytes());
}

void BatchMemory::broadcast(Context& context, int slot, Communicator& group) const {
  group.broadcast(context, slot_at(slot).bytes, 0).wait(context.queue);
}

}  // namespace phalanx
