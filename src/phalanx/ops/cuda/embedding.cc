#include "phalanx/ops/cuda/embedding.h"

#include "phalanx/ops/cuda/dispatch.h"
#include "phalanx/ops/cuda/dropout_plan.h"
#include "phalanx/ops/cuda/embedding-inl.h"
#include "phalanx/ops/cuda/id_sort.h"
#include "phalanx/ops/cuda/scratch.h"

namespace phalanx::cuda {
namespace {

// What is the same for dense and sparse gradients.
void add_sorted(const CudaContext& context, const IdRows& rows, const TypedRows& sums,
                TypedAddress dy, const std::uint64_t* keys, const std::int32_t* slots,
                const std::int32_t* new_slots) {
  const bool packed = can_pack(sums) && can_pack(rows.columns, dy);
  with_storage("embedding_gradient", dy.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const GradientParams<T> params{as<float>(sums.data),
                                   sums.stride,
                                   as<const T>(dy),
                                   rows.columns,
                                   keys,
                                   rows.rows,
                                   slots,
                                   new_slots,
                                   packed};
    launch<RareIdsKernel<T>>(context.queue,
                             {ceil_div(rows.rows, RareIdsKernel<T>::kWarps),
                              ceil_div(rows.columns, RareIdsKernel<T>::kColumns)},
                             params);
    launch<FrequentIdsKernel<T>>(
        context.queue,
        {rows.rows / kFrequent, ceil_div(rows.columns, FrequentIdsKernel<T>::kColumns)}, params);
  });
}

}  // namespace

void embedding_forward(const CudaContext& context, const IdRows& rows, TypedAddress y,
                       const TableRows& table) {
  const bool packed = can_pack(table.data) && can_pack(rows.columns, y);
  const std::int64_t packs = ceil_div(rows.columns, 8);
  with_stream("embedding_forward", table.data.data.type, y.type, [&](auto type, auto stream) {
    using T = typename decltype(type)::Type;
    using Stream = typename decltype(stream)::Type;
    launch<EmbeddingForwardKernel<T, Stream>>(
        context.queue, {ceil_div(rows.rows * packs, ByEight::kThreads)},
        {as<Stream>(y), as<const T>(table.data.data), table.data.stride, rows.ids, rows.rows,
         rows.columns, packs, table.first_row, table.rows, packed});
  });
}

void add_positions(const CudaContext& context, const DropoutCall& call, TypedAddress out,
                   TypedAddress x, const TableRows& table, const std::int32_t* ids) {
  PHALANX_CHECK(out.type == x.type, "add_positions: {} and {}", name_of(out.type), name_of(x.type));
  const bool packed = can_pack(table.data) && can_pack(call.columns, out, x);
  with_stream("add_positions", table.data.data.type, out.type, [&](auto type, auto stream) {
    using T = typename decltype(type)::Type;
    using Stream = typename decltype(stream)::Type;
    launch<AddPositionsKernel<T, Stream>>(context.queue, grid_of(call),
                                          {plan_of(call),
                                           shape_of(call, packed),
                                           as<Stream>(out),
                                           as<const Stream>(x),
                                           as<const T>(table.data.data),
                                           table.data.stride,
                                           table.rows,
                                           ids,
                                           {context.faults, context.op}});
  });
}

void embedding_gradient(const CudaContext& context, const IdRows& rows, const TableRows& dtable,
                        TypedAddress dy) {
  std::byte* scratch =
      take_scratch(context, "embedding_gradient", embedding_gradient_scratch_bytes(rows.rows));
  if (rows.rows == 0) return;
  const std::uint64_t* keys =
      sort_ids(context, scratch, rows.ids, rows.rows, dtable.rows, dtable.first_row);
  add_sorted(context, rows, dtable.data, dy, keys, nullptr, nullptr);
}

void sparse_embedding_gradient(const CudaContext& context, const IdRows& rows,
                               const SparseSlots& sparse, std::int64_t table_rows,
                               std::int64_t first_row, TypedAddress dy) {
  std::byte* scratch = take_scratch(context, "sparse_embedding_gradient",
                                    sparse_embedding_gradient_scratch_bytes(rows.rows));
  if (rows.rows == 0) return;
  const std::uint64_t* keys =
      sort_ids(context, scratch, rows.ids, rows.rows, table_rows, first_row);
  auto* new_slots = reinterpret_cast<std::int32_t*>(scratch + 2 * sort_key_bytes(rows.rows));
  set_bytes(context.queue, new_slots, 0xff,
            rows.rows * static_cast<std::int64_t>(sizeof(std::int32_t)));
  launch<MarkNewIdsKernel>(context.queue, {ceil_div(rows.rows, MarkNewIdsKernel::kThreads)},
                           {new_slots, keys, sparse.slots, rows.rows});
  launch<AssignSlotsKernel>(context.queue, {},
                            {sparse.slots,
                             sparse.rows,
                             sparse.count,
                             new_slots,
                             rows.rows,
                             sparse.most,
                             {context.faults, context.op}});
  add_sorted(context, rows, sparse.values, dy, keys, sparse.slots, new_slots);
}

void sparse_embedding_join(const CudaContext& context, const TableRows& dtable,
                           const SparseSlots& sparse, std::int64_t columns) {
  const std::int64_t packs = ceil_div(columns, 8);
  const bool packed = can_pack(dtable.data) && can_pack(sparse.values);
  launch<JoinSlotsKernel>(
      context.queue, {ceil_div(sparse.most * packs, ByEight::kThreads)},
      {as<float>(dtable.data.data), dtable.data.stride, as<const float>(sparse.values.data),
       sparse.values.stride, sparse.rows, sparse.count, sparse.most, columns, packs, packed});
  launch<FreeSlotsKernel>(context.queue, {ceil_div(sparse.most, FreeSlotsKernel::kThreads)},
                          {sparse.slots, sparse.rows, sparse.count, sparse.most});
  set_bytes(context.queue, sparse.count, 0, sizeof(std::int32_t));
}

}  // namespace phalanx::cuda
