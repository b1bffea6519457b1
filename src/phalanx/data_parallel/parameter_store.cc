#include "phalanx/data_parallel/parameter_store.h"

#include <algorithm>

#include "phalanx/base/numeric.h"
#include "phalanx/nn/config.h"

namespace phalanx {
namespace {

constexpr std::int64_t kParameterAlignment = 64;  // elements

// Views of one flat allocation, by ParamId.
std::vector<Tensor> carve(const nn::ParamTable& table, const FlatLayout& layout, DType dtype,
                          const Tensor& flat) {
  std::vector<Tensor> views;
  for (ParamId id = 0; id < table.size(); ++id) {
    const auto i = static_cast<std::size_t>(id);
    views.push_back(dense_tensor(*flat.arena, flat.offset + layout.offsets[i] * size_of(dtype),
                                 dtype, table[id].local_shape));
  }
  return views;
}

DType storage_type(const nn::ParamTable& table) {
  const DType dtype = table[0].dtype;
  for (const auto& spec : table.specs()) {
    PHALANX_CHECK(spec.dtype == dtype, "{} is {}, others are {}", spec.name, name_of(spec.dtype),
                  name_of(dtype));
  }
  return dtype;
}

}  // namespace

FlatLayout flat_layout(const nn::ParamTable& table) {
  FlatLayout layout;
  layout.offsets.resize(table.specs().size());
  for (ParamId id = table.size(); id-- > 0;) {
    layout.offsets[static_cast<std::size_t>(id)] = layout.elements;
    layout.elements =
        round_up(layout.elements + table[id].local_shape.count(), kParameterAlignment);
  }
  return layout;
}

ParameterStore::ParameterStore(const nn::ParamTable& table, Arena& parameters,
                               Arena& main_parameters)
    : table_(&table), layout_(flat_layout(table)) {
  const DType storage = storage_type(table);
  const DType full = nn::full_precision(storage);
  has_main_parameters_ = storage != full;
  weights_ = carve(table, layout_, storage, parameters.allocate(storage, {layout_.elements}));
  mains_ = has_main_parameters_
               ? carve(table, layout_, full, main_parameters.allocate(full, {layout_.elements}))
               : weights_;
}

void ParameterStore::initialise(Context& context, PhiloxKey key) const {
  for (ParamId id = 0; id < table_->size(); ++id) {
    const ParamSpec& spec = (*table_)[id];
    if (spec.initialiser.kind == Initialiser::Kind::kConstant) {
      ops::fill(context, {.x = main(id), .value = spec.initialiser.value});
      continue;
    }
    const Tensor matrix =
        main(id).reshape({matrix_rows(spec.local_shape), matrix_columns(spec.local_shape)});
    if (true_count(spec) < matrix.count()) ops::fill(context, {.x = matrix, .value = 0.0});
    for (const ParamBox& box : spec.boxes) {
      ops::normal(
          context,
          {.x = matrix.slice(0, box.local_row, box.rows).slice(1, box.local_column, box.columns),
           .key = key,
           .parameter = parameter_coordinate(spec.name),
           .deviation = spec.initialiser.value,
           .global_columns = matrix_columns(spec.global_shape),
           .first_row = box.global_row,
           .first_column = box.global_column});
    }
  }
  round_to_storage(context);
}

void ParameterStore::round_to_storage(Context& context) const {
  if (!has_main_parameters_) return;
  for (ParamId id = 0; id < table_->size(); ++id) {
    ops::copy(context, {.destination = weight(id), .source = main(id)});
  }
}

GradientStore::GradientStore(const nn::ParamTable& table, const FlatLayout& layout, DType dtype,
                             std::int64_t tokens_per_step, Arena& arena)
    : flat_(arena.allocate(dtype, {layout.elements})),
      gradients_(carve(table, layout, dtype, flat_)) {
  for (ParamId id = 0; id < table.size(); ++id) {
    if (table[id].tied_embedding) tied_ = id;
  }
  if (tied_ < 0) return;
  const Shape& shape = table[tied_].local_shape;
  const std::int64_t rows = std::min(shape[0], tokens_per_step);
  sparse_.slots = arena.allocate(DType::kI32, {shape[0]});
  sparse_.rows = arena.allocate(DType::kI32, {rows});
  sparse_.count = arena.allocate(DType::kI32, {1});
  sparse_.values = arena.allocate(dtype, {rows, shape[1]});
}

void GradientStore::initialise(Context& context) const {
  if (tied_ < 0) return;
  ops::fill(context, {.x = sparse_.slots, .value = -1});
  ops::fill(context, {.x = sparse_.count, .value = 0});
}

void GradientStore::clear(Context& context) const {
  ops::fill(context, {.x = flat_, .value = 0.0});
}

void GradientStore::join_tied_embedding(Context& context) const {
  if (tied_ < 0) return;
  ops::sparse_embedding_join(context, {.dtable = gradient(tied_),
                                       .slots = sparse_.slots,
                                       .rows = sparse_.rows,
                                       .count = sparse_.count,
                                       .values = sparse_.values});
}

}  // namespace phalanx
