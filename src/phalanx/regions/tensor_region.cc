#include "phalanx/regions/tensor_region.h"

namespace phalanx {

TensorRegion::TensorRegion(const TensorParallel& layout, Communicator* group)
    : layout_(layout), group_(group) {
  PHALANX_CHECK((layout.size == 1) == (group == nullptr) && (layout.size > 1 || !layout.sequence),
                "a group of {} ranks", layout.size);
  PHALANX_CHECK(group == nullptr || (group->size() == layout.size && group->rank() == layout.rank),
                "the layout is rank {} of {}, the group {} of {}", layout.rank, layout.size,
                group->rank(), group->size());
}

Communicator& TensorRegion::group() const {
  PHALANX_CHECK(group_ != nullptr, "one rank has no tensor-parallel group");
  return *group_;
}

Tensor TensorRegion::own(const Tensor& inside) const {
  if (!layout_.sequence) return inside;
  PHALANX_CHECK(inside.shape[0] % layout_.size == 0, "{} has no equal shares of rows for {} ranks",
                inside.shape.to_string(), layout_.size);
  const std::int64_t rows = inside.shape[0] / layout_.size;
  return inside.slice(0, layout_.rank * rows, rows);
}

Work TensorRegion::enter(Context& context, const Tensor& inside) const {
  if (!layout_.sequence) return {};
  return group().all_gather(context, inside, own(inside));
}

Work TensorRegion::leave(Context& context, const Tensor& inside) const {
  if (!is_parallel()) return {};
  if (!layout_.sequence) return group().all_reduce(context, inside, Reduction::kSum);
  return group().reduce_scatter(context, own(inside), inside, Reduction::kSum);
}

Tensor TensorRegion::share(const Tensor& stream) const {
  PHALANX_CHECK(has_shares(stream.count()), "{} has no equal shares for {} ranks",
                stream.shape.to_string(), layout_.size);
  const std::int64_t count = stream.count() / layout_.size;
  return stream.reshape({stream.count()}).slice(0, layout_.rank * count, count);
}

Work TensorRegion::gather_shares(Context& context, const Tensor& stream) const {
  return group().all_gather(context, stream, share(stream));
}

}  // namespace phalanx
