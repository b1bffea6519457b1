// Planned memory against the published formulas, to the byte, and docs/memory.md against both.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "activation_formulas.h"
#include "message_formulas.h"
#include "phalanx/base/file.h"
#include "phalanx/base/numeric.h"
#include "phalanx/families/family.h"
#include "phalanx/flag_table/test_support.h"
#include "phalanx/pipeline/simulator.h"
#include "phalanx/rehearsal/memory_plan.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/settings/config_views.h"
#include "tests/paths.h"

namespace phalanx {
namespace {

// What makes sense of one layer on t ranks.
std::vector<LayerCase> schemes_of(const LayerCase& layer) {
  std::vector<LayerCase> cases;
  const auto add = [&](std::int64_t t, bool sequence, SavingScheme scheme) {
    LayerCase c = layer;
    c.t = t;
    c.sequence_parallel = sequence;
    c.scheme = scheme;
    cases.push_back(c);
  };
  using enum SavingScheme;
  for (const auto scheme : {kEverything, kFused, kSelective, kFull}) add(1, false, scheme);
  for (const auto scheme : {kEverything, kFused, kSelective, kFull, kDistributed}) {
    add(layer.t, false, scheme);
  }
  for (const auto scheme : {kEverything, kFused, kSelective, kFull}) add(layer.t, true, scheme);
  return cases;
}

constexpr LayerCase kGpt3Like{.s = 2048, .b = 1, .h = 12288, .a = 96, .t = 8};
constexpr LayerCase kSmall{.s = 1024, .b = 4, .h = 768, .a = 12, .t = 4};

TEST(ActivationMemory, IsThePublishedFormulaButForTheNamedTerms) {
  for (const LayerCase& layer :
       {kGpt3Like, kSmall, LayerCase{.s = 64, .b = 3, .h = 40, .a = 8, .t = 2}}) {
    for (const LayerCase& c : schemes_of(layer)) {
      SCOPED_TRACE(fmt::format("{} (h {})", name_of(c), c.h));
      std::int64_t expected = published_bytes(c).bytes;
      for (const SavingTerm& term : saving_terms(c)) expected -= term.bytes;
      EXPECT_EQ(saved_bytes(c), expected);
    }
  }
}

// The paper's own example, in GB.
TEST(ActivationMemory, PublishedFormulasGiveThePublishedNumbers) {
  LayerCase c = kGpt3Like;
  EXPECT_NEAR(static_cast<double>(published_bytes(c).bytes), 0.579e9, 1e6);
  c.sequence_parallel = true;
  EXPECT_NEAR(static_cast<double>(published_bytes(c).bytes), 0.359e9, 1e6);
  c.scheme = SavingScheme::kSelective;
  EXPECT_NEAR(static_cast<double>(published_bytes(c).bytes), 0.107e9, 1e6);
  c = kGpt3Like;
  c.t = 1;
  EXPECT_NEAR(static_cast<double>(published_bytes(c).bytes), 2.87e9, 1e7);
  c.scheme = SavingScheme::kFull;
  EXPECT_NEAR(static_cast<double>(published_bytes(c).bytes), 0.050e9, 1e6);
}

std::vector<GatedLayer> gated_layers() {
  const GatedLayer llama2{
      .name = "Llama-2 7B", .h = 4096, .heads = 32, .groups = 32, .head_size = 128, .f = 11008};
  const GatedLayer llama3{
      .name = "Llama-3 8B", .h = 4096, .heads = 32, .groups = 8, .head_size = 128, .f = 14336};
  const GatedLayer large{
      .name = "Llama-3 70B", .h = 8192, .heads = 64, .groups = 8, .head_size = 128, .f = 28672};
  std::vector<GatedLayer> layers;
  const auto add = [&](GatedLayer layer, std::int64_t t, bool sequence) {
    layer.t = t;
    layer.sequence_parallel = sequence;
    layers.push_back(layer);
  };
  for (const GatedLayer& layer : {llama2, llama3, large}) {
    add(layer, 1, false);
    add(layer, 8, false);
    add(layer, 8, true);
  }
  // Fewer groups than ranks.
  add(llama3, 16, false);
  add(large, 16, false);
  return layers;
}

TEST(ActivationMemory, OfAGatedLayerIsItsFormula) {
  for (const GatedLayer& layer : gated_layers()) {
    SCOPED_TRACE(fmt::format("{}, t {}, sequence parallel {}", layer.name, layer.t,
                             layer.sequence_parallel));
    EXPECT_EQ(saved_bytes_of_token(layer), formula_bytes(layer));
  }
  // Where heads are wider than the stream, and the one group of queries is everywhere.
  const GatedLayer odd{
      .name = "odd", .h = 48, .heads = 4, .groups = 1, .head_size = 16, .f = 40, .t = 4};
  EXPECT_EQ(saved_bytes_of_token(odd), formula_bytes(odd));
}

TEST(ActivationMemory, AMicrobatchIsItsLayersAndTheHead) {
  constexpr std::int64_t kVocabulary = 5000;
  for (const LayerCase& c : schemes_of({.s = 64, .b = 3, .h = 64, .a = 8, .t = 4})) {
    SCOPED_TRACE(name_of(c));
    const TrainConfig config = config_of(c);
    const auto model = make_model(config, kVocabulary);
    const std::int64_t rows = c.s * c.b;
    const std::int64_t shards = c.sequence_parallel ? c.t : 1;
    // The final norm's input and statistics, the gradient of the logits.
    const std::int64_t head =
        (2 * rows * c.h + 8 * rows) / shards + 2 * rows * model->vocabulary().padded / c.t;
    EXPECT_EQ(plan_memory(config, *model, step_programs(config), 0, {cpu::ProductPrecision::kFp32})
                  .saved_per_microbatch.front(),
              2 * saved_bytes(c) + head);
  }
}

struct StateCase {
  bool bf16 = false;
  std::int64_t data = 1;
  bool distributed_optimizer = false;
};

TrainConfig config_of(const StateCase& c, bool tied) {
  TrainConfig config =
      with_flags({},
                 "--num-layers 3 --hidden-size 96 --num-attention-heads 4 --seq-length 32 "
                 "--max-position-embeddings 32 --micro-batch-size 1 --threads-per-rank 1");
  config.model.untie_embeddings_and_output_weights = !tied;
  config.model.bf16 = c.bf16;
  config.layout.world_size = c.data;
  config.layout.use_distributed_optimizer = c.distributed_optimizer;
  resolve(config, false);
  return config;
}

constexpr std::int64_t kStateVocabulary = 500;

MemoryPlan planned(const TrainConfig& config) {
  return plan_memory(config, *make_model(config, kStateVocabulary), step_programs(config), 0,
                     {cpu::ProductPrecision::kFp32});
}

std::int64_t allocated(std::int64_t bytes) { return round_up(bytes, kArenaAlignment); }

TEST(ModelStateMemory, IsThePublishedBytesPerParameterWithThePadding) {
  for (const StateCase& c :
       {StateCase{}, StateCase{.data = 8}, StateCase{.data = 8, .distributed_optimizer = true},
        StateCase{.bf16 = true}, StateCase{.bf16 = true, .data = 3},
        StateCase{.bf16 = true, .data = 3, .distributed_optimizer = true},
        StateCase{.bf16 = true, .data = 64, .distributed_optimizer = true}}) {
    const TrainConfig config = config_of(c, false);
    const MemoryPlan plan = planned(config);
    const FlatSizes flat = flat_sizes(config, kStateVocabulary);
    SCOPED_TRACE(fmt::format("bf16 {} d {} zero {}", c.bf16, c.data, c.distributed_optimizer));
    const std::int64_t shards = c.distributed_optimizer ? c.data : 1;
    const std::int64_t shard = flat.elements / shards;
    EXPECT_EQ(plan.bytes["parameters"], allocated((c.bf16 ? 2 : 4) * flat.elements));
    EXPECT_EQ(plan.bytes["main_parameters"], c.bf16 ? allocated(4 * shard) : 0);
    EXPECT_EQ(plan.bytes["gradients"], allocated(4 * flat.elements));
    EXPECT_EQ(plan.bytes["optimizer"], 2 * allocated(4 * shard));

    // The same as one number: 16, 18, 8 + 8/d, 6 + 12/d.
    const double published =
        c.bf16 ? (c.distributed_optimizer ? 6.0 + 12.0 / static_cast<double>(c.data) : 18.0)
               : (c.distributed_optimizer ? 8.0 + 8.0 / static_cast<double>(c.data) : 16.0);
    const auto bytes =
        static_cast<double>(plan.bytes["parameters"] + plan.bytes["main_parameters"] +
                            plan.bytes["gradients"] + plan.bytes["optimizer"]);
    EXPECT_NEAR(bytes, published * static_cast<double>(flat.elements), 5.0 * kArenaAlignment);
    // Padding: each parameter to 64 elements, the vocabulary, the end to d blocks of 4096.
    const std::int64_t padding = flat.elements - plan.model_parameters;
    EXPECT_GE(padding, 0);
    EXPECT_LT(padding, 64 * flat.parameters + 2 * 128 * 96 + shards * 4096);
  }
}

TEST(ModelStateMemory, ATiedEmbeddingHasRowsForItsInputSide) {
  const TrainConfig config = config_of(StateCase{}, true);
  const std::int64_t table = padded_vocabulary(kStateVocabulary, 128, 1);
  const std::int64_t rows = std::min<std::int64_t>(table, config.data.seq_length);
  EXPECT_EQ(planned(config).bytes["gradients"],
            allocated(4 * flat_sizes(config, kStateVocabulary).elements) + allocated(4 * table) +
                allocated(4 * rows) + allocated(4) + allocated(4 * rows * 96));
}

TEST(ModelStateMemory, SequenceParallelismHasABufferForItsGradientSum) {
  TrainConfig config =
      with_flags(config_of(StateCase{}, true),
                 "--world-size 4 --tensor-model-parallel-size 4 --sequence-parallel");
  resolve(config, false);
  EXPECT_EQ(planned(config).bytes["communication"], allocated(4 * (6 * 96 * 3 + 2 * 96)));
  config.layout.sequence_parallel = false;
  EXPECT_EQ(planned(config).bytes["communication"], 0);
}

// Pipelines -------------------------------------------------------------------------------------

struct PipelineCase {
  std::string schedule;
  std::int64_t pipeline = 4;
  std::int64_t microbatches = 8;
  std::int64_t chunks = 0;
};

TrainConfig config_of(const PipelineCase& c) {
  TrainConfig config = with_flags(config_of(StateCase{}, true), "--num-layers 24");
  config.layout.world_size = c.pipeline;
  config.layout.pipeline_model_parallel_size = c.pipeline;
  config.layout.pipeline_schedule = c.schedule;
  config.layout.num_virtual_stages_per_pipeline_rank = c.chunks;
  config.layout.global_batch_size = c.microbatches;
  resolve(config, false);
  return config;
}

std::vector<MemoryPlan> plans_by_rank(const TrainConfig& config, const StepPrograms& programs) {
  std::vector<MemoryPlan> plans;
  for (int rank = 0; rank < config.layout.world_size; ++rank) {
    plans.push_back(plan_memory(config, *make_model(config, kStateVocabulary), programs, rank,
                                {cpu::ProductPrecision::kFp32}));
  }
  return plans;
}

// What a weight gradient that is computed alone waits with, over what its forward pass left: inputs
// of layers and gradients of their outputs.
double share_kept_for_weight_gradients(const TrainConfig& config) {
  nn::ParamTable table;
  const Chunk layers = build_gpt_chunk(
      gpt_config(config, kStateVocabulary),
      {.first_layer = 0, .num_layers = 2, .embedding = false, .head = false}, table);
  const nn::BatchShape shape{.sequence = config.data.seq_length,
                             .micro_batch = config.layout.micro_batch_size};
  double before = 0.0, behind = 0.0;  // the pass that makes the input gradient
  for (const SavedTensor& block : layers.saved_tensors(shape, false)) {
    const auto bytes = static_cast<double>(block.bytes());
    const bool waits = block.last.pass == nn::PassKind::kBackwardWeight;
    if (block.born.pass == nn::PassKind::kForward && block.last.pass != nn::PassKind::kForward) {
      before += bytes;
    }
    if (waits && block.born.pass != nn::PassKind::kBackwardWeight) behind += bytes;
  }
  return behind / before;
}

// Every synchronous kind, and some with other numbers.
std::vector<PipelineCase> cases_of_every_schedule() {
  std::vector<PipelineCase> cases = {{"1f1b", 4, 2}, {"interleaved", 4, 8, 3}, {"zb-h2", 4, 12}};
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (kind.update == UpdateRule::kFlush && kind.directions() == 1) {
      cases.push_back({std::string(kind.name)});
    }
  }
  return cases;
}

// What is beside whole microbatches - of the pass in progress, of messages - is less than one.
TEST(PipelineMemory, IsThePeakOfTheSimulatedSchedule) {
  for (const PipelineCase& c : cases_of_every_schedule()) {
    const TrainConfig config = config_of(c);
    const StepPrograms programs = step_programs(config);
    const auto peaks = peak_activations(programs.training.at(programs.usual).schedule,
                                        share_kept_for_weight_gradients(config));
    const auto plans = plans_by_rank(config, programs);
    // Of a chunk: with embedding or head it is more than layers alone.
    std::vector<std::int64_t> chunks;
    for (const MemoryPlan& plan : plans) {
      chunks.insert(chunks.end(), plan.saved_per_microbatch.begin(),
                    plan.saved_per_microbatch.end());
    }
    const auto [least, most] = std::ranges::minmax(chunks);
    for (std::size_t rank = 0; rank < plans.size(); ++rank) {
      const MemoryPlan& plan = plans[rank];
      SCOPED_TRACE(fmt::format("{} m{} v{} rank {}: {} bytes, {} x {}", c.schedule, c.microbatches,
                               c.chunks, rank, plan.bytes["saved"], peaks[rank],
                               plan.saved_per_microbatch.front()));
      EXPECT_GE(static_cast<double>(plan.bytes["saved"]), peaks[rank] * static_cast<double>(least));
      EXPECT_LT(static_cast<double>(plan.bytes["saved"]),
                (peaks[rank] + 1) * static_cast<double>(most));
    }
  }
}

TEST(PipelineMemory, OneForwardOneBackwardHoldsAMicrobatchForEachStageFromItsOwnOn) {
  for (const std::int64_t microbatches : {2, 3, 8}) {
    const TrainConfig config = config_of(PipelineCase{"1f1b", 4, microbatches});
    const auto plans = plans_by_rank(config, step_programs(config));
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      SCOPED_TRACE(fmt::format("rank {} of 4, {} microbatches", rank, microbatches));
      const MemoryPlan& plan = plans[static_cast<std::size_t>(rank)];
      EXPECT_EQ(plan.bytes["saved"] / plan.saved_per_microbatch.front(),
                std::min(4 - rank, microbatches));
      EXPECT_EQ(plan.microbatches_in_flight.front(), std::min(4 - rank, microbatches));
    }
  }
}

// Each stage has its layers' parameters, the first and the last a word table too.
TEST(PipelineMemory, StagesShareTheModelState) {
  for (const bool tied : {true, false}) {
    TrainConfig config = config_of(PipelineCase{"1f1b"});
    config.model.untie_embeddings_and_output_weights = !tied;
    const auto plans = plans_by_rank(config, step_programs(config));
    std::int64_t parameters = 0;
    for (std::size_t rank = 0; rank < plans.size(); ++rank) {
      const FlatSizes flat = flat_sizes(config, kStateVocabulary, static_cast<int>(rank));
      EXPECT_EQ(plans[rank].bytes["parameters"], allocated(4 * flat.elements)) << rank;
      EXPECT_EQ(plans[rank].bytes["optimizer"], 2 * allocated(4 * flat.elements)) << rank;
      parameters += plans[rank].model_parameters;
    }
    set_flags(config, "--pipeline-model-parallel-size 1 --world-size 1");
    const std::int64_t copies = tied ? kStateVocabulary * config.model.hidden_size : 0;
    EXPECT_EQ(parameters, planned(config).model_parameters + copies);
  }
}

// docs/memory.md --------------------------------------------------------------------------------

const std::filesystem::path kDocument = source_path("docs/memory.md");

std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number < 0 ? -number : number);
  for (std::ptrdiff_t i = std::ssize(digits) - 3; i > 0; i -= 3) {
    digits.insert(static_cast<std::size_t>(i), ",");
  }
  return number < 0 ? "-" + digits : digits;
}

std::string tables_of(const LayerCase& layer) {
  const auto cases = schemes_of(layer);
  std::string bytes =
      "| layout | published formula | published | Phalanx | difference |\n"
      "|---|---|--:|--:|--:|\n";
  std::string terms = "| layout |";
  std::string rule = "|---|";
  for (const SavingTerm& term : saving_terms(layer)) {
    terms += " " + term.name + " |";
    rule += "--:|";
  }
  terms += "\n" + rule + "\n";
  for (const LayerCase& c : cases) {
    const PublishedBytes published = published_bytes(c);
    const std::int64_t ours = saved_bytes(c);
    bytes += fmt::format("| {} | {} | {} | {} | {} |\n", name_of(c), published.formula,
                         grouped(published.bytes), grouped(ours), grouped(published.bytes - ours));
    terms += "| " + name_of(c) + " |";
    for (const SavingTerm& term : saving_terms(c)) {
      terms += (term.bytes == 0 ? " " : " " + grouped(term.bytes) + " ") + "|";
    }
    terms += "\n";
  }
  return fmt::format(
      "s = {}, b = {}, h = {}, a = {}, t = {}. Bytes of one layer on one rank:\n\n{}\n"
      "The difference, term by term:\n\n{}",
      layer.s, layer.b, layer.h, layer.a, layer.t, bytes, terms);
}

std::string gated_table() {
  std::string table =
      "| layer | t | stream | everything kept | Phalanx |\n"
      "|---|--:|---|--:|--:|\n";
  for (const GatedLayer& layer : gated_layers()) {
    table += fmt::format("| {} | {} | {} | {} | {} |\n", layer.name, layer.t,
                         layer.sequence_parallel ? "cut" : "whole",
                         layer.t == 1 ? grouped(bytes_of_everything(layer)) : "",
                         grouped(saved_bytes_of_token(layer)));
  }
  return table;
}

// The document with its generated parts made anew: each lies between its marker and the next
// "<!-- end -->".
std::string with_tables(std::string text, const std::string& name, const std::string& tables) {
  const std::string begin = "<!-- generated: " + name + " -->\n", end = "<!-- end -->";
  const auto from = text.find(begin);
  const auto to = text.find(end, from);
  if (from == std::string::npos || to == std::string::npos) return "no marker " + begin;
  return text.replace(from + begin.size(), to - from - begin.size(), tables);
}

TEST(MemoryDocument, HasTheNumbersOfTheProgram) {
  const std::string text = read_file(kDocument);
  std::string expected = with_tables(text, "gpt3", tables_of(kGpt3Like));
  expected = with_tables(expected, "small", tables_of(kSmall));
  expected = with_tables(expected, "gated", gated_table());
  if (std::getenv("PHALANX_UPDATE_DOCS") != nullptr) {
    write_file_durably(kDocument, expected);
    return;
  }
  EXPECT_EQ(text, expected) << "write the tables of docs/memory.md anew: PHALANX_UPDATE_DOCS=1 "
                               "layouts_test --gtest_filter='MemoryDocument.*'";
}

}  // namespace
}  // namespace phalanx
