#include "phalanx/ops/cuda/permute.h"

#include <algorithm>

#include "phalanx/ops/cuda/dispatch.h"
#include "phalanx/ops/cuda/id_sort.h"
#include "phalanx/ops/cuda/permute-inl.h"
#include "phalanx/ops/cuda/scratch.h"

namespace phalanx::cuda {
namespace {

void check_types(std::string_view op, const TypedRows& rows, const TypedRows& other) {
  PHALANX_CHECK(rows.data.type == other.data.type, "{}: {} beside {}", op, name_of(other.data.type),
                name_of(rows.data.type));
}

}  // namespace

void sort_pairs(const CudaContext& context, const PairMaps& maps, const std::int32_t* chosen,
                std::int64_t pairs, const SortedExperts& experts) {
  using Instance = PairOrderKernel;
  std::byte* scratch = take_scratch(context, "sort_pairs", embedding_gradient_scratch_bytes(pairs));
  const std::uint64_t* keys =
      pairs == 0 ? nullptr : sort_ids(context, scratch, chosen, pairs, experts.all);
  const std::int64_t rows = experts.padded > 0 ? experts.experts * experts.padded : pairs;
  launch<Instance>(context.queue,
                   {ceil_div(std::max({pairs, rows, experts.experts + 1}), Instance::kThreads)},
                   {maps.offsets,
                    maps.pair_of_row,
                    maps.row_of_pair,
                    chosen,
                    keys,
                    pairs,
                    rows,
                    experts.first,
                    experts.experts,
                    experts.all,
                    experts.padded,
                    {context.faults, context.op}});
}

void permute_rows(const CudaContext& context, const PermuteShape& shape, const TypedRows& to,
                  const TypedRows& from, const std::int32_t* pair_of_row,
                  const float* probabilities) {
  check_types("permute_rows", to, from);
  const std::int64_t packs = ceil_div(shape.columns, 8);
  if (packs == 0) return;
  with_storage("permute_rows", to.data.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    launch<PermuteRowsKernel<T>>(
        context.queue, {ceil_div(shape.rows * packs, ByEight::kThreads)},
        {as<T>(to.data), as<const T>(from.data), pair_of_row, probabilities, to.stride, from.stride,
         shape.rows, shape.tokens * shape.k, shape.k, shape.columns, packs,
         can_pack(to) && can_pack(from)});
  });
}

void unpermute_rows(const CudaContext& context, const PermuteShape& shape, const TypedRows& y,
                    const TypedRows& rows, const std::int32_t* row_of_pair,
                    const float* probabilities) {
  const std::int64_t packs = ceil_div(shape.columns, 8);
  if (packs == 0) return;
  with_stream("unpermute_rows", rows.data.type, y.data.type, [&](auto tag, auto sum) {
    using T = typename decltype(tag)::Type;
    using Sum = typename decltype(sum)::Type;
    launch<UnpermuteRowsKernel<T, Sum>>(
        context.queue, {ceil_div(shape.tokens * packs, ByEight::kThreads)},
        {as<Sum>(y.data), as<const T>(rows.data), row_of_pair, probabilities, y.stride, rows.stride,
         shape.tokens, shape.rows, shape.k, shape.columns, packs, can_pack(y) && can_pack(rows)});
  });
}

void pair_dots(const CudaContext& context, const PermuteShape& shape, float* dots,
               const TypedRows& rows, const TypedRows& x, const std::int32_t* row_of_pair) {
  check_types("pair_dots", rows, x);
  const std::int64_t pairs = shape.tokens * shape.k;
  with_storage("pair_dots", x.data.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using Instance = PairDotsKernel<T>;
    launch<Instance>(
        context.queue, {ceil_div(pairs, Instance::kPairs)},
        {dots, as<const T>(rows.data), as<const T>(x.data), row_of_pair, rows.stride, x.stride,
         pairs, shape.rows, shape.k, shape.columns, can_pack(rows) && can_pack(x)});
  });
}

void gather_elements(const CudaContext& context, float* to, std::int64_t n, const float* from,
                     std::int64_t m, const std::int32_t* index) {
  launch<GatherElementsKernel>(context.queue, {ceil_div(n, GatherElementsKernel::kThreads)},
                               {to, from, index, n, m});
}

}  // namespace phalanx::cuda
