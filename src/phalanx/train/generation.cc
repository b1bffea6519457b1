#include "phalanx/train/generation.h"

#include <algorithm>

#include "phalanx/base/machine.h"
#include "phalanx/base/threads.h"
#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/data_parallel/parameter_store.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/meta/meta_backend.h"
#include "phalanx/pipeline/saved_plan.h"
#include "phalanx/pipeline/schedules/no_pipelining.h"
#include "phalanx/train/memory_check.h"

namespace phalanx {
namespace {

struct GenerationArenas {
  Arena parameters, unused, cache, transient, workspace;

  static GenerationArenas planning() {
    return {Arena::planning("parameters"), Arena::planning("main parameters"),
            Arena::planning("key/value cache"), Arena::planning("transient"),
            Arena::planning("workspace")};
  }
  std::int64_t bytes() const {
    return parameters.high_water() + unused.high_water() + cache.high_water() +
           transient.high_water() + workspace.high_water();
  }
  GenerationArenas sized() const {
    const auto like = [](const Arena& arena) { return Arena(arena.name(), arena.high_water()); };
    return {like(parameters), like(unused), like(cache), like(transient), like(workspace)};
  }
};

RowCoordinates allocate_rows(Arena& arena, std::int64_t rows) {
  return {.sample = arena.allocate(DType::kI64, {rows, 1}),
          .position = arena.allocate(DType::kI32, {rows, 1}),
          .document = arena.allocate(DType::kI32, {rows, 1})};
}

template <typename T>
void upload(Context& context, const Tensor& destination, const std::vector<T>& source) {
  context.backend.upload(context.stream, destination, std::as_bytes(std::span(source)));
}

}  // namespace

// The model on one backend. Built on the planning backend first to size the arenas, as a training
// rank is.
struct Generator::Engine {
  Engine(const GptConfig& model, std::unique_ptr<Backend> the_backend, GenerationArenas the_arenas,
         std::int64_t capacity)
      : backend(std::move(the_backend)),
        arenas(std::move(the_arenas)),
        context{
            .backend = *backend, .workspace = arenas.workspace, .stream = {}, .recorder = nullptr},
        chunk(build_gpt_chunk(model, {0, model.transformer.num_layers, true, true}, table)),
        parameters(table, arenas.parameters, arenas.unused),
        padded_vocabulary(model.padded_vocabulary) {
    const auto& t = model.transformer;
    for (std::int64_t layer = 0; layer < t.num_layers; ++layer) {
      const Shape extents{capacity, 1, t.query_groups, t.head_size};
      cache.keys.push_back(arenas.cache.allocate(t.dtype, extents));
      cache.values.push_back(arenas.cache.allocate(t.dtype, extents));
    }
    cache.rows = allocate_rows(arenas.cache, capacity);
    std::vector<std::int64_t> samples(static_cast<std::size_t>(capacity), 0);
    std::vector<std::int32_t> positions(static_cast<std::size_t>(capacity));
    for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<std::int32_t>(i);
    upload(context, cache.rows.sample, samples);
    upload(context, cache.rows.position, positions);
    upload(context, cache.rows.document, std::vector<std::int32_t>(positions.size(), 0));
  }

  // The logits of the last of `fresh` tokens, which begin at position `begin`.
  void forward(std::span<const std::int32_t> fresh, std::int64_t begin, std::span<float> logits) {
    const WorkspaceScope scope(arenas.workspace);
    const auto count = static_cast<std::int64_t>(fresh.size());
    const nn::BatchShape shape{.sequence = count, .micro_batch = 1};
    const Tensor tokens = arenas.workspace.allocate(DType::kI32, {count, 1});
    upload(context, tokens, std::vector<std::int32_t>(fresh.begin(), fresh.end()));
    const nn::Batch batch{.tokens = tokens,
                          .position_ids = cache.rows.position.slice(0, begin, count),
                          .labels = {},
                          .loss_mask = {},
                          .rows = {.sample = cache.rows.sample.slice(0, begin, count),
                                   .position = cache.rows.position.slice(0, begin, count),
                                   .document = cache.rows.document.slice(0, begin, count)}};
    const std::vector<std::vector<SavedBlock>> blocks = {chunk.saved_blocks(shape, true)};
    const SavedPlan plan(forward_only(1), blocks);
    std::vector<Tensor> placed;
    for (std::size_t i = 0; i < blocks[0].size(); ++i) {
      placed.push_back(
          arenas.transient.place(plan.offsets(0, 0)[i], blocks[0][i].dtype, blocks[0][i].shape));
    }
    cache.length = begin;
    const Tensor last = arenas.workspace.allocate(DType::kF32, {1, padded_vocabulary});
    const nn::Weights weights = parameters.weights();
    nn::Pass pass{.ops = context,
                  .weights = weights,
                  .batch = batch,
                  .shape = shape,
                  .region = {},
                  .training = false,
                  .loss_settings = {},
                  .losses = {},
                  .cache = &cache,
                  .logits = last};
    nn::UnitHooks hooks;
    chunk.forward(pass, placed, hooks, 0);
    backend->read_back(context.stream, last.slice(1, 0, static_cast<std::int64_t>(logits.size())),
                       std::as_writable_bytes(logits));
  }

  std::unique_ptr<Backend> backend;
  GenerationArenas arenas;
  Context context;
  nn::ParamTable table;
  Chunk chunk;
  ParameterStore parameters;
  nn::KeyValueCache cache;
  std::int64_t padded_vocabulary;
};

Generator::Generator(const TrainConfig& config, const GptConfig& model,
                     const CheckpointReader& checkpoint, cpu::ProductPrecision products,
                     std::int64_t prompt_length, std::int64_t capacity)
    : vocabulary_(model.vocabulary), capacity_(std::min(capacity, model.max_positions)) {
  PHALANX_CHECK(prompt_length > 0 && prompt_length <= capacity_,
                "a generator for {} tokens in {} positions", prompt_length, capacity_);
  const auto threads = static_cast<int>(config.layout.threads_per_rank);
  Engine rehearsal(model, make_meta_backend(threads, products), GenerationArenas::planning(),
                   capacity_);
  // The prompt, and one token with a full cache.
  std::vector<float> none(static_cast<std::size_t>(vocabulary_));
  const std::vector<std::int32_t> prompt(static_cast<std::size_t>(prompt_length), 0);
  rehearsal.forward(prompt, 0, none);
  rehearsal.forward(std::span(prompt).first(1), capacity_ - 1, none);

  check_memory(config.run.allow_overcommit, rehearsal.arenas.bytes(), available_memory());
  expect_threads(threads - 1);
  engine_ = std::make_unique<Engine>(model, make_cpu_backend(threads, products),
                                     rehearsal.arenas.sized(), capacity_);
  engine_->parameters.clear(engine_->context);
  for (ParamId id = 0; id < engine_->table.size(); ++id) {
    checkpoint.read(global_tensor(engine_->table[id], engine_->parameters.weight(id)),
                    DTypeMatch::kConvert);
  }
}

Generator::~Generator() = default;

std::vector<float> Generator::logits(std::span<const std::int32_t> tokens, std::int64_t begin) {
  PHALANX_CHECK(begin < static_cast<std::int64_t>(tokens.size()) &&
                    static_cast<std::int64_t>(tokens.size()) <= capacity_,
                "tokens [{}, {}) of {} positions", begin, tokens.size(), capacity_);
  std::vector<float> result(static_cast<std::size_t>(vocabulary_));
  engine_->forward(tokens.subspan(static_cast<std::size_t>(begin)), begin, result);
  return result;
}

void Generator::generate(std::span<const std::int32_t> prompt, std::int64_t count,
                         const SamplingOptions& options,
                         const std::function<bool(std::int32_t)>& on_token) {
  std::vector<std::int32_t> tokens(prompt.begin(), prompt.end());
  std::int64_t cached = 0;
  for (std::int64_t i = 0; i < count && static_cast<std::int64_t>(tokens.size()) <= capacity_;
       ++i) {
    const auto next = sample_token(logits(tokens, cached), options, tokens.size());
    cached = static_cast<std::int64_t>(tokens.size());
    tokens.push_back(next);
    if (!on_token(next)) return;
  }
}

}  // namespace phalanx
