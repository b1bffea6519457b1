#include "phalanx/data_parallel/parameter_store.h"

#include <algorithm>
#include <utility>

#include "phalanx/base/numeric.h"
#include "phalanx/nn/config.h"

namespace phalanx {
namespace {

DType storage_type(const nn::ParamTable& table) {
  const DType dtype = table[0].dtype;
  for (const auto& spec : table.specs()) {
    PHALANX_CHECK(spec.dtype == dtype, "{} is {}, others are {}", spec.name, name_of(spec.dtype),
                  name_of(dtype));
  }
  return dtype;
}

}  // namespace

std::vector<Tensor> parameter_views(const nn::ParamTable& table, const FlatLayout& layout,
                                    const Tensor& flat) {
  std::vector<Tensor> views;
  for (ParamId id = 0; id < table.size(); ++id) {
    const Shape& shape = table[id].local_shape;
    const std::int64_t offset = layout.offsets[static_cast<std::size_t>(id)];
    views.push_back(flat.slice(0, offset, shape.count()).reshape(shape));
  }
  return views;
}

ParameterStore::ParameterStore(const nn::ParamTable& table, Arena& parameters,
                               Arena& main_parameters, const OptimizerShard& shard)
    : ParameterStore(table, whole_model_places(table), parameters, main_parameters, shard) {}

ParameterStore::ParameterStore(const nn::ParamTable& table, ModelPlaces places, Arena& parameters,
                               Arena& main_parameters, const OptimizerShard& shard)
    : table_(&table),
      places_(std::move(places)),
      layout_(flat_layout(table, places_, shard.ranks)),
      buckets_(cut_buckets(layout_, shard.bucket_size, shard.ranks)),
      shard_(shard_of(buckets_, shard.rank, shard.ranks)),
      segments_(segments_of(table, layout_, shard_)),
      is_sharded_(shard.ranks > 1) {
  const DType storage = storage_type(table);
  const DType full = nn::full_precision(storage);
  has_main_parameters_ = shard.exists && storage != full;
  flat_ = parameters.allocate(storage, {layout_.elements});
  weights_ = parameter_views(table, layout_, flat_);
  if (has_main_parameters_) mains_ = main_parameters.allocate(full, {total_count(shard_)});
}

Tensor ParameterStore::weight(const Segment& segment) const {
  return flat_.slice(0, segment.flat, segment.count);
}

Tensor ParameterStore::main(const Segment& segment) const {
  return has_main_parameters_ ? mains_.slice(0, segment.local, segment.count) : weight(segment);
}

Tensor ParameterStore::main(ParamId id) const {
  if (!has_main_parameters_) return weight(id);
  PHALANX_CHECK(!is_sharded_, "{} is spread over ranks", (*table_)[id].name);
  const Shape& shape = (*table_)[id].local_shape;
  const std::int64_t offset = layout_.offsets[static_cast<std::size_t>(id)];
  return mains_.slice(0, offset, shape.count()).reshape(shape);
}

void ParameterStore::initialise(Context& context, PhiloxKey key, const Tensor& scratch) const {
  const auto drawn = has_main_parameters_ ? parameter_views(*table_, layout_, scratch) : weights_;
  for (ParamId id = 0; id < table_->size(); ++id) {
    const ParamSpec& spec = (*table_)[id];
    const Tensor& parameter = drawn[static_cast<std::size_t>(id)];
    if (spec.initialiser.kind == Initialiser::Kind::kConstant) {
      ops::fill(context, {.x = parameter, .value = spec.initialiser.value});
      continue;
    }
    const Tensor matrix =
        parameter.reshape({matrix_rows(spec.local_shape), matrix_columns(spec.local_shape)});
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
  if (!has_main_parameters_) return;
  for (ParamId id = 0; id < table_->size(); ++id) {
    ops::copy(context, {.destination = weight(id), .source = drawn[static_cast<std::size_t>(id)]});
  }
  for (const Segment& segment : segments_) {
    ops::copy(context, {.destination = main(segment),
                        .source = scratch.slice(0, segment.flat, segment.count)});
  }
}

void ParameterStore::clear(Context& context) const {
  ops::fill(context, {.x = flat_, .value = 0.0});
  if (has_main_parameters_) ops::fill(context, {.x = mains_, .value = 0.0});
}

void ParameterStore::round_to_storage(Context& context) const {
  if (!has_main_parameters_) return;
  for (const Segment& segment : segments_) {
    ops::copy(context, {.destination = weight(segment), .source = main(segment)});
  }
}

GradientStore::GradientStore(const nn::ParamTable& table, const FlatLayout& layout, DType dtype,
                             std::int64_t tokens_per_step, Arena& arena)
    : GradientStore(table, shared_sums(table), layout, dtype, {tokens_per_step}, arena) {}

GradientStore::GradientStore(const nn::ParamTable& table, std::vector<SharedSum> shared,
                             const FlatLayout& layout, DType dtype,
                             const std::vector<std::int64_t>& tokens_per_step, Arena& arena)
    : table_(&table),
      flat_(arena.allocate(dtype, {layout.elements})),
      gradients_(parameter_views(table, layout, flat_)),
      shared_(std::move(shared)),
      roles_(table.roles().size()),
      begun_(std::make_unique<bool[]>(gradients_.size() + roles_.size())) {
  add_roles(dtype, tokens_per_step, arena);
}

int GradientStore::role_in_place(const SharedSum& sum, const SharedSum::Run& run) const {
  // To what comes from another holder a role cannot be added before it has come.
  if (sum.is_chain && run.previous >= 0) return -1;
  // Behind the first, one role is added to it; a + b is b + a.
  for (std::size_t r = 0; r < std::min<std::size_t>(2, run.roles.size()); ++r) {
    const auto& role = table_->roles()[static_cast<std::size_t>(run.roles[r])].role;
    if (role.gradient == ParamRole::Gradient::kDense) return run.roles[r];
  }
  return -1;
}

void GradientStore::add_roles(DType dtype, const std::vector<std::int64_t>& tokens_per_step,
                              Arena& arena) {
  for (const SharedSum& sum : shared_) {
    const Shape& shape = (*table_)[sum.id].local_shape;
    for (const SharedSum::Run& run : sum.runs) {
      const int in_place = role_in_place(sum, run);
      for (const int number : run.roles) {
        const ParamRole& role = table_->roles()[static_cast<std::size_t>(number)].role;
        nn::RoleGradient& gradient = roles_[static_cast<std::size_t>(number)];
        if (role.gradient == ParamRole::Gradient::kDense) {
          gradient.dense =
              number == in_place ? this->gradient(sum.id) : arena.allocate(dtype, shape);
          continue;
        }
        const std::int64_t rows =
            std::min(shape[0], tokens_per_step.at(static_cast<std::size_t>(role.sequence)));
        gradient.rows = {.slots = arena.allocate(DType::kI32, {shape[0]}),
                         .rows = arena.allocate(DType::kI32, {rows}),
                         .count = arena.allocate(DType::kI32, {1}),
                         .values = arena.allocate(dtype, {rows, shape[1]})};
      }
    }
  }
}

void GradientStore::initialise(Context& context) const {
  clear(context);
  for (const nn::RoleGradient& role : roles_) {
    if (!role.rows.count) continue;
    ops::fill(context, {.x = role.rows.slots, .value = -1});
    ops::fill(context, {.x = role.rows.count, .value = 0});
  }
}

void GradientStore::begin_update() const { std::ranges::fill(begun(), false); }

void GradientStore::clear(Context& context) const {
  ops::fill(context, {.x = flat_, .value = 0.0});
  for (const nn::RoleGradient& role : roles_) {
    if (role.dense) ops::fill(context, {.x = role.dense, .value = 0.0});
  }
  std::ranges::fill(begun(), true);
}

void GradientStore::expect_complete() const {
  for (ParamId id = 0; id < table_->size(); ++id) {
    PHALANX_CHECK(begun()[static_cast<std::size_t>(id)], "no pass wrote the gradient of {}",
                  (*table_)[id].name);
  }
  for (std::size_t r = 0; r < roles_.size(); ++r) {
    const nn::ParamTable::Role& role = table_->roles()[r];
    PHALANX_CHECK(begun()[gradients_.size() + r], "no pass wrote the gradient of role {} of {}",
                  role.role.order, (*table_)[role.id].name);
  }
}

void GradientStore::join(Context& context, const SharedSum& sum, const SharedSum::Run& run) const {
  const Tensor& whole = gradient(sum.id);
  const int in_place = role_in_place(sum, run);
  const bool continues = sum.is_chain && run.previous >= 0;
  if (in_place < 0 && !continues) ops::fill(context, {.x = whole, .value = 0.0});
  for (const int number : run.roles) {
    if (number == in_place) continue;
    const nn::RoleGradient& role = roles_[static_cast<std::size_t>(number)];
    if (role.dense) {
      ops::accumulate(context, {.destination = whole, .source = role.dense});
      continue;
    }
    ops::sparse_embedding_join(context, {.dtable = whole,
                                         .slots = role.rows.slots,
                                         .rows = role.rows.rows,
                                         .count = role.rows.count,
                                         .values = role.rows.values});
  }
  begun()[static_cast<std::size_t>(sum.id)] = true;
}

void GradientStore::join_all(Context& context) const {
  for (const SharedSum& sum : shared_) {
    PHALANX_CHECK(sum.holders == 1, "{} has other holders", (*table_)[sum.id].name);
    join(context, sum, sum.runs.front());
  }
}

}  // namespace phalanx
