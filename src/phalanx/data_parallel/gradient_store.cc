#include "phalanx/data_parallel/gradient_store.h"

#include <algorithm>
#include <utility>

namespace phalanx {

GradientStore::GradientStore(const StateLayout& states, DType dtype, std::int64_t tokens_per_step,
                             Arena& arena)
    : GradientStore(states, shared_sums(states.table()), dtype, {tokens_per_step}, arena) {}

GradientStore::GradientStore(const StateLayout& states, std::vector<SharedSum> shared, DType dtype,
                             const std::vector<std::int64_t>& tokens_per_step, Arena& arena,
                             const StateFiles& files)
    : states_(&states),
      dtype_(dtype),
      staging_(files.staging),
      gradients_(table().specs().size()),
      whole_(static_cast<std::size_t>(states.groups().size())),
      shared_(std::move(shared)),
      roles_(table().roles().size()),
      begun_(std::make_unique<bool[]>(gradients_.size() + roles_.size())) {
  if (states.cuts_gradients()) {
    shard_ = StateColumn("gradients", dtype, states, arena, files.states);
  } else {
    flat_ = arena.allocate(dtype, {states.flat().elements});
  }
  add_roles(dtype, tokens_per_step, arena);
  if (states.cuts_gradients()) return;
  const auto views = parameter_views(table(), states.flat(), flat_);
  for (ParamId id = 0; id < table().size(); ++id) {
    if (table().trains(id)) set_gradient(id, views[static_cast<std::size_t>(id)]);
  }
}

void GradientStore::set_gradient(ParamId id, const Tensor& gradient) {
  gradients_[static_cast<std::size_t>(id)] = gradient;
  for (const SharedSum& sum : shared_) {
    if (sum.id != id) continue;
    for (const SharedSum::Run& run : sum.runs) {
      const int in_place = role_in_place(sum, run);
      if (in_place >= 0) roles_[static_cast<std::size_t>(in_place)].dense = gradient;
    }
  }
}

void GradientStore::place_group(int group, const Tensor& memory) {
  const FlatLayout& flat = states_->flat();
  const FlatRange& region = flat.regions[static_cast<std::size_t>(group)];
  whole_[static_cast<std::size_t>(group)] = memory;
  for (ParamId id = 0; id < table().size(); ++id) {
    if (states_->group(id) != group) continue;
    const Shape& shape = table()[id].local_shape;
    const std::int64_t begin = flat.offsets[static_cast<std::size_t>(id)] - region.begin;
    set_gradient(id, memory.slice(0, begin, shape.count()).reshape(shape));
  }
}

Tensor GradientStore::whole(std::size_t number) const {
  const StateLayout::Bucket& bucket = states_->buckets()[number];
  if (!states_->cuts_gradients()) return flat_.slice(0, bucket.range.begin, bucket.range.count);
  const auto group = static_cast<std::size_t>(bucket.group);
  PHALANX_CHECK(whole_[group].defined(), "the gradients of group {} are not placed", group);
  return whole_[group].slice(0, bucket.range.begin - states_->flat().regions[group].begin,
                             bucket.range.count);
}

Tensor GradientStore::own(std::size_t number) const {
  const StateLayout::Bucket& bucket = states_->buckets()[number];
  if (!states_->cuts_gradients()) return flat_.slice(0, bucket.own.begin, bucket.own.count);
  std::int64_t begin = -1;
  for (const StateLayout::Tile& tile : states_->tiles()) {
    if (tile.bucket != number) continue;
    if (tile.states_in_file) return {};
    if (begin < 0) begin = tile.memory;
  }
  return shard_.memory().slice(0, begin, bucket.own.count);
}

void GradientStore::set(Context& context, std::size_t bucket, const Tensor& sum) {
  set_or_add(context, bucket, sum, false);
}

void GradientStore::add(Context& context, std::size_t bucket, const Tensor& sum) {
  set_or_add(context, bucket, sum, true);
}

void GradientStore::set_or_add(Context& context, std::size_t bucket, const Tensor& sum, bool adds) {
  const std::int64_t begin = states_->buckets()[bucket].local;
  for (std::size_t t = 0; t < states_->tiles().size(); ++t) {
    const StateLayout::Tile& tile = states_->tiles()[t];
    if (tile.bucket != bucket) continue;
    const Tensor part = sum.slice(0, tile.local.begin - begin, tile.local.count);
    const auto combine = [&](const Tensor& to) {
      if (adds) {
        ops::accumulate(context, {.destination = to, .source = part});
      } else {
        ops::copy(context, {.destination = to, .source = part});
      }
    };
    if (!tile.states_in_file) {
      combine(shard_.in_memory(tile));
      continue;
    }
    const auto number = static_cast<int>(t);
    TileStaging::Slot& slot = staging_->next(context);
    const Tensor to = slot.take(dtype_, tile.local.count);
    if (adds) shard_.file()->read(context, number, to).wait(context.queue);
    combine(to);
    slot.hold(shard_.file()->write(context, number, to));
  }
}

int GradientStore::role_in_place(const SharedSum& sum, const SharedSum::Run& run) const {
  // Another holder's sum is received in the main gradient first, so no role may use it.
  if (sum.is_chain && run.previous >= 0) return -1;
  // The first or the second role may use it, because a + b is b + a.
  for (std::size_t r = 0; r < std::min<std::size_t>(2, run.roles.size()); ++r) {
    const auto& role = table().roles()[static_cast<std::size_t>(run.roles[r])].role;
    if (role.gradient == ParamRole::Gradient::kDense) return run.roles[r];
  }
  return -1;
}

void GradientStore::add_roles(DType dtype, const std::vector<std::int64_t>& tokens_per_step,
                              Arena& arena) {
  for (const SharedSum& sum : shared_) {
    const Shape& shape = table()[sum.id].local_shape;
    for (const SharedSum::Run& run : sum.runs) {
      const int in_place = role_in_place(sum, run);
      for (const int number : run.roles) {
        const ParamRole& role = table().roles()[static_cast<std::size_t>(number)].role;
        nn::RoleGradient& gradient = roles_[static_cast<std::size_t>(number)];
        if (role.gradient == ParamRole::Gradient::kDense) {
          if (number != in_place) gradient.dense = arena.allocate(dtype, shape);
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

void GradientStore::initialise(Context& context) {
  clear(context);
  for (const nn::RoleGradient& role : roles_) {
    if (!role.rows.count) continue;
    ops::fill(context, {.x = role.rows.slots, .value = -1});
    ops::fill(context, {.x = role.rows.count, .value = 0});
  }
}

void GradientStore::begin_update() { std::ranges::fill(begun(), false); }

void GradientStore::clear(Context& context) {
  ops::fill(context, {.x = flat(), .value = 0.0});
  for (const nn::RoleGradient& role : roles_) {
    if (role.dense) ops::fill(context, {.x = role.dense, .value = 0.0});
  }
  std::ranges::fill(begun(), true);
}

void GradientStore::expect_complete() const {
  for (ParamId id = 0; id < table().size(); ++id) {
    PHALANX_CHECK(begun_[static_cast<std::size_t>(id)] || !table().trains(id),
                  "no pass wrote the gradient of {}", table()[id].name);
  }
  for (std::size_t r = 0; r < roles_.size(); ++r) {
    const nn::ParamTable::Role& role = table().roles()[r];
    PHALANX_CHECK(begun_[gradients_.size() + r] || !table().trains(role.id),
                  "no pass wrote the gradient of role {} of {}", role.role.order,
                  table()[role.id].name);
  }
}

void GradientStore::join(Context& context, const SharedSum& sum, const SharedSum::Run& run) {
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

void GradientStore::join_all(Context& context) {
  for (const SharedSum& sum : shared_) {
    PHALANX_CHECK(sum.holders == 1, "{} has other holders", table()[sum.id].name);
    join(context, sum, sum.runs.front());
  }
}

}  // namespace phalanx
