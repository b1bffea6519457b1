#include "phalanx/rehearsal/memory_plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/machine.h"
#include "phalanx/base/numeric.h"
#include "phalanx/base/threads.h"
#include "phalanx/data_parallel/pieces.h"
#include "phalanx/ops/driver_memory.h"
#include "phalanx/rank/reading_ahead.h"
#include "phalanx/rank/saved_tiles.h"
#include "phalanx/rehearsal/planning_rank.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

// The program and its libraries, and a stack and allocator arena per thread.
constexpr std::int64_t kLibraryBytes = 160LL << 20;
constexpr std::int64_t kLibraryBytesPerThread = 16LL << 20;

// The ranks of a part share what they have in common. A thread takes one part after the other,
// because some stages are more work than others.
constexpr std::size_t kPlansOfAPart = 8;
constexpr int kPartsOfAThread = 4;

// Sums of less take no memory of the group's (comm/ucx).
constexpr std::int64_t kFewBytes = 4096;

std::vector<int> groups_that_sum(const MessageTotals& messages, const GroupSizes& sizes) {
  std::vector<int> summing;
  for (const auto& [group, size] : sizes) {
    std::int64_t bytes = 0;
    for (const auto& [key, total] : messages.by_key()) {
      const auto& [name, op] = key;
      if (name == group && (op == "all_reduce" || op == "reduce_scatter")) bytes += total.bytes;
    }
    if (bytes > kFewBytes) summing.push_back(size);
  }
  return summing;
}

// What --memory-snapshot-interval keeps of a rank: its share of the states, twice.
std::int64_t snapshot_bytes(const TrainConfig& config, const Rank& rank) {
  if (config.run.memory_snapshot_interval == 0) return 0;
  const ParameterStore& parameters = rank.parameters();
  const bool has_mains = parameters.has_main_parameters();
  const auto states = std::ssize(rank.optimizer().state_names()) + (has_mains ? 1 : 0);
  std::int64_t bytes = 0, count = 0;
  for (const Piece& piece : pieces(parameters.states(), Writers::kAll)) {
    const DType dtype = rank.table()[piece.segment.id].dtype;
    const DType full = nn::full_precision(dtype);
    // Weights that are rounded from main parameters are left out.
    const bool has_weights = !has_mains || dtype == full;
    bytes += piece.segment.count * (states * size_of(full) + (has_weights ? size_of(dtype) : 0));
    count += states + 1;
  }
  const auto frozen =
      config.lora.has_base ? std::vector<Piece>() : frozen_pieces(parameters.states());
  for (const Piece& piece : frozen) {
    bytes += piece.segment.count * size_of(rank.table()[piece.segment.id].dtype);
    ++count;
  }
  constexpr std::int64_t kIndexOfPiece = 256;
  constexpr std::int64_t kBesides = std::int64_t{1} << 20;
  return 2 * (bytes + count * kIndexOfPiece + kBesides);
}

// What a rank takes of the host where it computes on a CUDA device, besides what every rank takes.
std::int64_t driver_bytes(const DeviceChoice& kernels) {
  const bool is_driven =
      kernels.named != nullptr || (kernels.cuda && kernels.cuda->machine == CudaMachine::kDevice);
  return is_driven ? kDriverBytesOfHost + kPinnedBytes : 0;
}

}  // namespace

MemoryPlan plan_memory(const TrainConfig& config, const Model& model, const StepPrograms& programs,
                       int number, const DeviceChoice& kernels, Rank::Shared* shared) {
  PlanningRank planning(config, model, programs, number, kernels, shared);
  Rank& rank = planning.rank();
  const RankRehearsal rehearsal = rehearse(rank);
  MemoryBytes bytes = rehearsal.made;
  for (const ProgramMemory& program : rehearsal.programs) bytes.raise_to(program.bytes);
  MemoryPlan plan{
      .bytes = bytes,
      .library_bound = kLibraryBytes + config.layout.threads_per_rank * kLibraryBytesPerThread +
                       bytes_read_ahead(config, model.batch_schema()) + driver_bytes(kernels),
      .snapshot_bytes = snapshot_bytes(config, rank),
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
      .summing = groups_that_sum(rehearsal.messages, planning.group_sizes()),
      .transfers = rehearsal.transfers,
      .file_bytes = rank.file_bytes()};
  for (const ParamSpec& spec : rank.table().specs()) {
    if (spec.is_state) continue;
    plan.model_parameters += true_count(spec);
    if (spec.domain == ReductionDomain::kExpert) plan.expert_parameters += true_count(spec);
  }
  if (config.run.async_save) {
    plan.saved_bytes = most_saved_bytes(
        rank, {.with_optimizer = !config.run.no_save_optim, .with_frozen = !config.lora.has_base});
    reserve_snapshot(plan, std::llround(config.run.snapshot_fraction.value_or(0.0) *
                                        static_cast<double>(plan.saved_bytes)));
  }
  return plan;
}

void reserve(MemoryPlan& plan, MemoryRow row, std::int64_t bytes) {
  const std::int64_t reserved = round_up(bytes, kArenaAlignment);
  plan.bytes[row] = reserved;
  plan.made[row] = reserved;
  for (ProgramMemory& program : plan.programs) program.bytes[row] = reserved;
}

void reserve_snapshot(MemoryPlan& plan, std::int64_t bytes) { reserve(plan, "snapshot", bytes); }

std::vector<RankPlan> plan_ranks(const TrainConfig& config, const Model& model,
                                 const StepPrograms& programs, const DeviceChoice& kernels) {
  std::vector<int> ranks(static_cast<std::size_t>(config.layout.world_size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return plan_ranks(config, model, programs, kernels, ranks);
}

std::vector<RankPlan> plan_ranks(const TrainConfig& config, const Model& model,
                                 const StepPrograms& programs, const DeviceChoice& kernels,
                                 std::span<const int> ranks) {
  const ParallelGrids grids = parallel_grids(config.layout);
  std::vector<RankPlan> plans;
  std::vector<int> stages;  // by plan
  std::map<PlaceInModel, std::size_t> plan_of_place;
  for (const int rank : ranks) {
    const PlaceInModel place = place_in_model(grids, rank);
    const auto [found, is_new] = plan_of_place.try_emplace(place, plans.size());
    if (is_new) {
      plans.emplace_back();
      stages.push_back(place.stage);
    }
    plans[found->second].ranks.push_back(rank);
  }
  // Neighbours have most in common: a part has consecutive places.
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
    bytes += (memory.bytes.total() + memory.library_bound + memory.snapshot_bytes -
              memory.process_bound) *
             std::ssize(plan.ranks);
    once = std::max(once, memory.process_bound);
  }
  return bytes + once;
}

void check_high_water(const MemoryPlan& plan, const RankArenas& arenas) {
  for (std::size_t row = 0; row < kMemoryRows.size(); ++row) {
    const Arena& arena = arenas.all()[row];
    PHALANX_CHECK(arena.high_water() == plan.bytes.rows[row],
                  "the {} arena was planned with {} bytes and used {}", arena.name(),
                  plan.bytes.rows[row], arena.high_water());
  }
}

HighWaterCheck::HighWaterCheck(const MemoryPlan& plan, const RankArenas& arenas)
    : plan_(plan), arenas_(arenas) {}

void HighWaterCheck::after(const ProgramSize& size) {
  const auto program = std::ranges::find(plan_.programs, size, &ProgramMemory::size);
  PHALANX_CHECK(program != plan_.programs.end(), "no program of {} x {} microbatches was planned",
                size.iterations, size.microbatches);
  reached_.raise_to(program->bytes);
  for (std::size_t row = 0; row < kMemoryRows.size(); ++row) {
    // Weights that were loaded may have taken less than drawing them would have.
    const std::int64_t reached = reached_.rows[row];
    const std::int64_t most = std::max(reached, plan_.made.rows[row]);
    const std::int64_t mark = arenas_.all()[row].high_water();
    PHALANX_CHECK(mark >= reached && mark <= most,
                  "the {} arena was planned with {} bytes for what has run and used {}",
                  arenas_.all()[row].name(), most, mark);
  }
}

}  // namespace phalanx
