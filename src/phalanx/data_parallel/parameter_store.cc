#include "phalanx/data_parallel/parameter_store.h"

#include <algorithm>
#include <utility>

#include "phalanx/mesh/box_range.h"
#include "phalanx/nn/config.h"

namespace phalanx {
namespace {

DType storage_type(const nn::ParamTable& table) {
  const DType dtype = table[0].dtype;
  for (const auto& spec : table.specs()) {
    PHALANX_CHECK(spec.is_state || spec.dtype == dtype, "{} is {}, others are {}", spec.name,
                  name_of(spec.dtype), name_of(dtype));
  }
  return dtype;
}

// The elements of a box; `range` has the parameter's local part from `begin` on.
Tensor box_of(const Tensor& range, std::int64_t begin, const ParamBox& box, std::int64_t columns) {
  Tensor view = range;
  view.offset += (box.local_row * columns + box.local_column - begin) * size_of(range.dtype);
  view.shape = {box.rows, box.columns};
  view.strides = {columns, 1};
  return view;
}

// Draws a box of the parameter, which lies in `x`.
void draw_box(Context& context, PhiloxKey key, const ParamSpec& spec, const ParamBox& box,
              const Tensor& x) {
  const ops::Normal normal{.x = x,
                           .key = key,
                           .parameter = parameter_coordinate(spec.name),
                           .deviation = spec.initialiser.value,
                           .global_columns = matrix_columns(spec.global_shape),
                           .first_row = box.global_row / spec.initialiser.row_copies,
                           .first_column = box.global_column};
  if (spec.initialiser.kind == Initialiser::Kind::kNormal) {
    ops::normal(context, normal);
  } else {
    ops::uniform(context, {.x = normal.x,
                           .key = key,
                           .parameter = normal.parameter,
                           .bound = spec.initialiser.value,
                           .global_columns = normal.global_columns,
                           .first_row = normal.first_row,
                           .first_column = normal.first_column});
  }
}

// Draws `range`, elements of the parameter's local part from `begin` on.
void draw(Context& context, PhiloxKey key, const ParamSpec& spec, std::int64_t begin,
          const Tensor& range) {
  if (spec.initialiser.kind == Initialiser::Kind::kConstant) {
    ops::fill(context, {.x = range, .value = spec.initialiser.value});
    return;
  }
  if (true_count(spec) < spec.local_shape.count()) ops::fill(context, {.x = range, .value = 0.0});
  const std::int64_t columns = matrix_columns(spec.local_shape);
  for (const ParamBox& box : boxes_of_range(spec, begin, range.count())) {
    const std::int64_t at_once = spec.initialiser.row_copies == 1 ? box.rows : 1;
    for (std::int64_t row = 0; row < box.rows; row += at_once) {
      ParamBox rows = box;
      rows.global_row += row;
      rows.local_row += row;
      rows.rows = at_once;
      draw_box(context, key, spec, rows, box_of(range, begin, rows, columns));
    }
  }
}

}  // namespace

std::vector<Tensor> parameter_views(const nn::ParamTable& table, const FlatLayout& layout,
                                    const Tensor& flat) {
  std::vector<Tensor> views;
  for (ParamId id = 0; id < table.size(); ++id) {
    if (!table.trains(id)) {
      views.emplace_back();
      continue;
    }
    const Shape& shape = table[id].local_shape;
    const std::int64_t offset = layout.offsets[static_cast<std::size_t>(id)];
    views.push_back(flat.slice(0, offset, shape.count()).reshape(shape));
  }
  return views;
}

ParameterStore::ParameterStore(StateLayout states, Arena& parameters, Arena& main_parameters,
                               const StateFiles& files)
    : states_(std::move(states)), staging_(files.staging) {
  const DType storage = storage_type(table());
  const DType full = nn::full_precision(storage);
  has_main_parameters_ = states_.updates() && storage != full;
  flat_ = parameters.allocate(storage, {states_.weight_elements()});
  for (ParamId id = 0; id < table().size(); ++id) {
    if (table().trains(id) && states_.cuts_weights(states_.group(id))) {
      weights_.emplace_back();
      continue;
    }
    const Shape& shape = table()[id].local_shape;
    if (table()[id].is_state) {
      weights_.push_back(parameters.allocate(table()[id].dtype, shape));
      continue;
    }
    weights_.push_back(flat_.slice(0, states_.weight_offset(id), shape.count()).reshape(shape));
  }
  if (has_main_parameters_) {
    mains_ = StateColumn("main parameters", full, states_, main_parameters, files.states);
  }
  std::vector<bool> is_here;
  for (const StateLayout::Tile& tile : states_.tiles()) is_here.push_back(tile.weights_in_file);
  if (std::ranges::find(is_here, true) == is_here.end()) return;
  PHALANX_CHECK(files.weights != nullptr, "weights in files that nobody opened");
  weight_file_ =
      std::make_unique<TileFile>(*files.weights, "parameters", storage, states_, is_here);
}

Tensor ParameterStore::weight(const Segment& segment) const {
  if (table()[segment.id].is_state) {
    return weight(segment.id).reshape({segment.count});
  }
  PHALANX_CHECK(segment.weight >= 0, "element {} of {} lies in a file", segment.begin,
                table()[segment.id].name);
  return flat_.slice(0, segment.weight, segment.count);
}

std::array<TileAccess, 2> ParameterStore::accesses(bool reads, bool writes) const {
  return {
      TileAccess{
          .column = has_main_parameters_ ? &mains_ : nullptr, .reads = reads, .writes = writes},
      // Weights are rounded from main parameters, if there are any, so they need not be read.
      TileAccess{
          .file = weight_file_.get(), .reads = reads && !has_main_parameters_, .writes = writes}};
}

Tensor ParameterStore::weight(const Segment& segment, Tensors tile) const {
  return tile[1] ? part_of(tile[1], states_, segment) : weight(segment);
}

Tensor ParameterStore::main(const Segment& segment, Tensors tile) const {
  return tile[0] ? part_of(tile[0], states_, segment) : weight(segment, tile);
}

Tensor ParameterStore::weights(const StateLayout::Bucket& bucket) const {
  const FlatRange& kept = states_.cuts_weights(bucket.group) ? bucket.own : bucket.range;
  return flat_.slice(0, bucket.weights, kept.count);
}

Tensor ParameterStore::main(const Segment& segment) const {
  return has_main_parameters_ ? mains_.in_memory(segment) : weight(segment);
}

Tensor ParameterStore::main(ParamId id) const {
  if (!has_main_parameters_) return weight(id);
  PHALANX_CHECK(!states_.is_sharded(), "{} is spread over ranks", table()[id].name);
  const Shape& shape = table()[id].local_shape;
  const std::int64_t offset = states_.flat().offsets[static_cast<std::size_t>(id)];
  return mains_.memory().slice(0, offset, shape.count()).reshape(shape);
}

void ParameterStore::initialise(Context& context, PhiloxKey key) const {
  for (ParamId id = 0; id < table().size(); ++id) {
    const Tensor& whole = weight(id);
    if (whole) draw(context, key, table()[id], 0, whole.reshape({whole.count()}));
  }
  const auto access = accesses(false, true);
  visit_tiles(context, states_, staging_, access, [&](const auto& tile, auto tensors) {
    for (const Segment& segment : tile.segments) {
      const ParamSpec& spec = table()[segment.id];
      if (!weight(segment.id)) draw(context, key, spec, segment.begin, weight(segment, tensors));
      if (has_main_parameters_) draw(context, key, spec, segment.begin, main(segment, tensors));
    }
  });
}

void ParameterStore::clear(Context& context) const {
  ops::fill(context, {.x = flat_, .value = 0.0});
  for (ParamId id = 0; id < table().size(); ++id) {
    if (table()[id].is_state) ops::fill(context, {.x = weight(id), .value = 0.0});
  }
  if (has_main_parameters_) ops::fill(context, {.x = mains_.memory(), .value = 0.0});
  // A tile in a file that is not read first is written as zeros.
  if (states_.has_files()) {
    visit_tiles(context, states_, staging_, accesses(false, true), [](const auto&, auto) {});
  }
}

void ParameterStore::round_to_storage(Context& context) const {
  if (!has_main_parameters_) return;
  visit_tiles(
      context, states_, staging_, accesses(true, true), [&](const auto& tile, auto tensors) {
        for (const Segment& segment : tile.segments) {
          ops::copy(context,
                    {.destination = weight(segment, tensors), .source = main(segment, tensors)});
        }
      });
}

}  // namespace phalanx
