#include "phalanx/inference/inference_model.h"

#include "phalanx/base/machine.h"
#include "phalanx/base/threads.h"
#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/pipeline/saved_plan.h"
#include "phalanx/pipeline/schedules/no_pipelining.h"
#include "phalanx/rehearsal/memory_check.h"

namespace phalanx {

InferenceArenas InferenceArenas::planning() {
  return {Arena::planning("parameters"), Arena::planning("constants"),
          Arena::planning("key/value cache"), Arena::planning("transient"),
          Arena::planning("workspace")};
}

InferenceArenas InferenceArenas::sized() const {
  const auto like = [](const Arena& arena) { return Arena(arena.name(), arena.high_water()); };
  return {like(parameters), like(constants), like(cache), like(transient), like(workspace)};
}

std::int64_t InferenceArenas::bytes() const {
  return parameters.high_water() + constants.high_water() + cache.high_water() +
         transient.high_water() + workspace.high_water();
}

InferenceModel::InferenceModel(const Model& model, std::unique_ptr<Backend> backend,
                               InferenceArenas arenas, Communicator* group)
    : backend_(std::move(backend)),
      arenas_(std::move(arenas)),
      context_{
          .backend = *backend_, .workspace = arenas_.workspace, .queue = {}, .recorder = nullptr},
      region_(model.transformer().tensor, group),
      chunk_(model.build_chunk(model.whole(), table_)),
      parameters_(StateLayout(table_, {.updates = false}), arenas_.parameters, arenas_.parameters),
      constants_(table_.constants(), context_, arenas_.constants),
      padded_vocabulary_(model.vocabulary().padded) {}

void InferenceModel::load(const CheckpointReader& checkpoint) {
  parameters_.clear(context_);
  for (ParamId id = 0; id < table_.size(); ++id) {
    checkpoint.read(global_tensor(table_[id], parameters_.weight(id)), DTypeMatch::kConvert);
  }
}

void InferenceModel::initialise(PhiloxKey key) { parameters_.initialise(context_, key); }

std::vector<Tensor> InferenceModel::place(const nn::BatchShapes& shapes) {
  const std::vector<std::vector<SavedTensor>> blocks = {chunk_.saved_tensors(shapes, true)};
  const SavedPlan plan(forward_only(1), blocks);
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < blocks[0].size(); ++i) {
    const SavedTensor& block = blocks[0][i];
    // What is carried past units has one place.
    const std::size_t own = block.same_as < 0 ? i : static_cast<std::size_t>(block.same_as);
    tensors.push_back(arenas_.transient.place(plan.offsets(0, 0)[own], block.dtype, block.shape));
  }
  return tensors;
}

std::span<const Tensor> InferenceModel::placed(const nn::BatchShapes& shapes) {
  const nn::BatchShape& first = shapes.of[0];
  if (first.sequence != 1 || shapes.of[1].sequence != 0) return last_ = place(shapes);
  const auto found = steps_.find(first.micro_batch);
  if (found != steps_.end()) return found->second;
  return steps_.emplace(first.micro_batch, place(shapes)).first->second;
}

void InferenceModel::infer(const nn::Batch& batch, const Results& results) {
  nn::BatchShapes shapes;
  for (std::size_t i = 0; i < batch.rows.size(); ++i) {
    const Tensor& position = batch.rows[i].position;
    if (position) shapes.of[i] = {.sequence = position.shape[0], .micro_batch = position.shape[1]};
  }
  const nn::Weights weights = parameters_.weights();
  nn::Pass pass{.ops = context_,
                .weights = weights,
                .batch = batch,
                .shapes = shapes,
                .region = region_,
                .training = false,
                .loss_settings = {},
                .losses = results.losses,
                .constants = constants_.tensors()};
  nn::InferencePass inference{.pass = pass,
                              .caches = results.caches,
                              .logits = results.logits,
                              .row_losses = results.row_losses};
  chunk_.infer(inference, placed(shapes));
}

RowCoordinates allocate_rows(Arena& arena, std::int64_t rows) {
  return {.sample = arena.allocate(DType::kI64, {rows, 1}),
          .position = arena.allocate(DType::kI32, {rows, 1}),
          .document = arena.allocate(DType::kI32, {rows, 1})};
}

void expect_room(const TrainConfig& config, const InferenceArenas& planned,
                 std::string_view remedy) {
  check_memory(config.run.allow_overcommit, planned.bytes(), available_memory(), remedy);
  expect_threads(static_cast<int>(config.layout.threads_per_rank) - 1);
}

}  // namespace phalanx
