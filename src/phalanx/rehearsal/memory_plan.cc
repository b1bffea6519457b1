#include "phalanx/rehearsal/memory_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/machine.h"
#include "phalanx/base/threads.h"
#include "phalanx/comm/meta/meta_communicator.h"
#include "phalanx/ops/meta/meta_backend.h"
#include "phalanx/rank/reading_ahead.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

// The program and its libraries, and a stack and allocator arena per thread.
constexpr std::int64_t kLibraryBytes = 160LL << 20;
constexpr std::int64_t kLibraryBytesPerThread = 16LL << 20;

// The ranks of a part share what they have in common; a thread takes one part after the other, for
// some stages are more work.
constexpr std::size_t kPlansOfAPart = 8;
constexpr int kPartsOfAThread = 4;

std::vector<std::int64_t> planned(const MemoryPlan& plan) {
  return {plan.parameters, plan.main_parameters, plan.gradients, plan.optimizer, plan.saved,
          plan.workspace,  plan.communication,   plan.constants, plan.staging};
}

void raise_to(std::vector<std::int64_t>& marks, const std::vector<std::int64_t>& others) {
  for (std::size_t i = 0; i < marks.size(); ++i) marks[i] = std::max(marks[i], others[i]);
}

}  // namespace

MemoryPlan plan_memory(const TrainConfig& config, const Model& model, const StepPrograms& programs,
                       int number, const PlannedKernels& kernels, Rank::Shared* shared) {
  const RankGrid grid = rank_grid(config.layout);
  const auto world = make_meta_world(number, grid.world_size());
  const RankCommunicators ranks(grid, *world);
  RankArenas arenas = RankArenas::planning();
  const auto backend = make_meta_backend(kernels.device(config.layout));
  Rank rank(config, model, programs, ranks, *backend, arenas, shared);
  const RankRehearsal rehearsal = rehearse(rank);
  std::vector<std::int64_t> marks = rehearsal.made;
  for (const ProgramMemory& program : rehearsal.programs) raise_to(marks, program.bytes);
  MemoryPlan plan{.parameters = marks[0],
                  .main_parameters = marks[1],
                  .gradients = marks[2],
                  .optimizer = marks[3],
                  .saved = marks[4],
                  .workspace = marks[5],
                  .communication = marks[6],
                  .constants = marks[7],
                  .staging = marks[8],
                  .total = std::accumulate(marks.begin(), marks.end(), std::int64_t{0}),
                  .library_bound = kLibraryBytes +
                                   config.layout.threads_per_rank * kLibraryBytesPerThread +
                                   bytes_read_ahead(config, model.batch_schema()),
                  .process_bound = kLibraryBytes,
                  .made = rehearsal.made,
                  .programs = rehearsal.programs,
                  .largest = rehearsal.largest,
                  .saved_per_microbatch = rehearsal.saved_per_microbatch,
                  .microbatches_in_flight = rehearsal.microbatches_in_flight,
                  .flops_per_step = rehearsal.flops_per_step,
                  .largest_unit = rehearsal.largest_unit,
                  .lent = rehearsal.lent,
                  .messages = rehearsal.messages,
                  .transfers = rehearsal.transfers,
                  .file_bytes = rank.file_bytes()};
  for (const ParamSpec& spec : rank.table().specs()) plan.model_parameters += true_count(spec);
  return plan;
}

std::vector<RankPlan> plan_ranks(const TrainConfig& config, const Model& model,
                                 const StepPrograms& programs, const PlannedKernels& kernels) {
  std::vector<int> ranks(static_cast<std::size_t>(config.layout.world_size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return plan_ranks(config, model, programs, kernels, ranks);
}

std::vector<RankPlan> plan_ranks(const TrainConfig& config, const Model& model,
                                 const StepPrograms& programs, const PlannedKernels& kernels,
                                 std::span<const int> ranks) {
  const RankGrid grid = rank_grid(config.layout);
  std::vector<RankPlan> plans;
  std::vector<int> stages;  // by plan
  std::map<std::pair<int, int>, std::size_t> plan_of_place;
  for (const int rank : ranks) {
    const GridCoordinates at = grid.coordinates(rank);
    const auto [found, is_new] = plan_of_place.try_emplace({at.pipeline, at.tensor}, plans.size());
    if (is_new) {
      plans.emplace_back();
      stages.push_back(at.pipeline);
    }
    plans[found->second].ranks.push_back(rank);
  }
  // Neighbours have most in common: a part are places that follow each other.
  const int threads = usable_cores().count;
  const std::size_t parts = std::clamp<std::size_t>(
      plans.size() / kPlansOfAPart, 1, static_cast<std::size_t>(kPartsOfAThread * threads));
  run_parallel(parts, threads, [&](std::size_t part) {
    Rank::Shared shared;
    const std::size_t begin = plans.size() * part / parts;
    const std::size_t end = plans.size() * (part + 1) / parts;
    for (std::size_t i = begin; i < end; ++i) {
      if (i > begin && stages[i] != stages[i - 1]) shared.saved.forget_unused();
      plans[i].memory =
          plan_memory(config, model, programs, plans[i].ranks.front(), kernels, &shared);
    }
  });
  return plans;
}

std::int64_t process_bytes(std::span<const RankPlan> plans) {
  std::int64_t bytes = 0;
  std::int64_t once = 0;
  for (const RankPlan& plan : plans) {
    const MemoryPlan& memory = plan.memory;
    bytes += (memory.total + memory.library_bound - memory.process_bound) * std::ssize(plan.ranks);
    once = std::max(once, memory.process_bound);
  }
  return bytes + once;
}

RankArenas allocate_arenas(const MemoryPlan& plan) {
  return {.parameters = Arena("parameters", plan.parameters),
          .main_parameters = Arena("main parameters", plan.main_parameters),
          .gradients = Arena("gradients", plan.gradients),
          .optimizer = Arena("optimizer", plan.optimizer),
          .saved = Arena("saved", plan.saved),
          .workspace = Arena("workspace", plan.workspace),
          .communication = Arena("communication", plan.communication),
          .constants = Arena("constants", plan.constants),
          .staging = Arena("staging", plan.staging)};
}

void check_high_water(const MemoryPlan& plan, const RankArenas& arenas) {
  const auto expected = planned(plan);
  const auto used = arenas.all();
  for (std::size_t i = 0; i < used.size(); ++i) {
    PHALANX_CHECK(used[i]->high_water() == expected[i],
                  "the {} arena was planned with {} bytes and used {}", used[i]->name(),
                  expected[i], used[i]->high_water());
  }
}

HighWaterCheck::HighWaterCheck(const MemoryPlan& plan, const RankArenas& arenas)
    : plan_(plan), arenas_(arenas), reached_(plan.made.size(), 0) {}

void HighWaterCheck::after(const ProgramSize& size) {
  const auto program = std::ranges::find(plan_.programs, size, &ProgramMemory::size);
  PHALANX_CHECK(program != plan_.programs.end(), "no program of {} x {} microbatches was planned",
                size.iterations, size.microbatches);
  raise_to(reached_, program->bytes);
  const auto used = arenas_.all();
  for (std::size_t i = 0; i < used.size(); ++i) {
    // Weights that were loaded may have taken less than drawing them would have.
    const std::int64_t most = std::max(reached_[i], plan_.made[i]);
    const std::int64_t mark = used[i]->high_water();
    PHALANX_CHECK(mark >= reached_[i] && mark <= most,
                  "the {} arena was planned with {} bytes for what has run and used {}",
                  used[i]->name(), most, mark);
  }
}

}  // namespace phalanx
