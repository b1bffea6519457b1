#include "harness.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>

#include "phalanx/base/log.h"
#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/families/family.h"
#include "phalanx/mesh/global_tensor.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/elementwise.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/settings/trained_parameters.h"
#include "tiny_batches.h"

namespace phalanx {
namespace {

constexpr int kMeasuredStep = 1;  // the second: the first one's gathers are behind it

// The family that is named, also where the processor has no tiles: then the twin of their program
// computes its bits.
cpu::ProductPrecision products_of(const TrainConfig& config) {
  using Family = cpu::ProductPrecision;
  for (const Family family : {Family::kBf16, Family::kAmx}) {
    if (config.model.matmul_precision == name_of(family)) return family;
  }
  return Family::kFp32;
}

// What each of the model's losses counts in these batches.
std::vector<double> loss_counts(const Model& model, const std::vector<HostBatch>& batches) {
  std::vector<double> counts;
  for (const LossSpec& loss : model.losses()) {
    double count = 0.0;
    for (const HostBatch& batch : batches) {
      if (loss.mask.empty()) {
        count += static_cast<double>(batch.samples());
      } else {
        const auto mask = batch.column<float>(loss.mask);
        count = std::accumulate(mask.begin(), mask.end(), count);
      }
    }
    counts.push_back(count);
  }
  return counts;
}

// Which elements of a parameter's local part the global one has.
std::vector<char> elements_that_exist(const ParamSpec& spec) {
  const std::int64_t columns = matrix_columns(spec.local_shape);
  std::vector<char> exists(static_cast<std::size_t>(spec.local_shape.count()), false);
  for (const ParamBox& box : spec.boxes) {
    for (std::int64_t r = 0; r < box.rows; ++r) {
      std::fill_n(exists.begin() + (box.local_row + r) * columns + box.local_column, box.columns,
                  true);
    }
  }
  return exists;
}

bool is_padded(const ParamSpec& spec) {
  std::int64_t count = 0;
  for (const ParamBox& box : spec.boxes) count += box.rows * box.columns;
  return count != spec.local_shape.count();
}

float element(const Tensor& tensor, std::int64_t index) {
  const std::byte* from = tensor.data() + index * size_of(tensor.dtype);
  if (tensor.dtype != DType::kF32) {
    return static_cast<float>(element_as_double(tensor.dtype, from));
  }
  float value = 0.0F;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

bool agree(const StepResult& a, const StepResult& b) {
  const auto same = [](double x, double y) {
    return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
  };
  const bool same_losses =
      std::ranges::equal(a.losses, b.losses, [&](const LossResult& x, const LossResult& y) {
        return same(x.mean, y.mean) && same(x.count, y.count);
      });
  return same_losses && same(a.grad_norm, b.grad_norm) && a.skipped == b.skipped;
}

// Faults of all ranks.
class Faults {
 public:
  void add(std::string fault) {
    const std::lock_guard lock(mutex_);
    faults_.push_back(std::move(fault));
  }
  std::vector<std::string> take() { return std::move(faults_); }

 private:
  std::mutex mutex_;
  std::vector<std::string> faults_;
};

// Global tensors, put together from parts that many ranks bring. What several bring must have the
// same bits.
class Assembly {
 public:
  Assembly(std::string what, Faults& faults) : what_(std::move(what)), faults_(faults) {}

  // The elements of `spec` from `begin` on.
  void add(const ParamSpec& spec, const Tensor& local, std::int64_t begin = 0) {
    const GlobalTensor part = shard_tensor(spec, local, begin);
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[spec.name];
    const auto size = static_cast<std::size_t>(spec.global_shape.count());
    entry.values.resize(size);
    entry.present.resize(size, false);
    for (const ParamBox& box : part.boxes) add_box(part, box, entry);
    check_padding(spec, local, begin);
  }

  GlobalValues take() {
    GlobalValues values;
    for (auto& [name, entry] : entries_) {
      const auto missing = std::ranges::count(entry.present, false);
      if (missing > 0) faults_.add(fmt::format("{} of {}: {} are missing", what_, name, missing));
      values[name] = std::move(entry.values);
    }
    return values;
  }

 private:
  struct Entry {
    std::vector<float> values;
    std::vector<char> present;
  };

  void add_box(const GlobalTensor& part, const ParamBox& box, Entry& entry) {
    const std::int64_t columns = matrix_columns(part.global_shape);
    std::int64_t different = 0;
    for (std::int64_t r = 0; r < box.rows; ++r) {
      const std::int64_t from = part.local_element(box, r);
      for (std::int64_t c = 0; c < box.columns; ++c) {
        const auto to =
            static_cast<std::size_t>((box.global_row + r) * columns + box.global_column + c);
        const float value = element(part.local, from + c);
        if (entry.present[to] &&
            std::bit_cast<std::uint32_t>(entry.values[to]) != std::bit_cast<std::uint32_t>(value)) {
          ++different;
        }
        entry.values[to] = value;
        entry.present[to] = true;
      }
    }
    if (different > 0) {
      faults_.add(
          fmt::format("{} of {}: ranks disagree about {} elements", what_, part.name, different));
    }
  }

  void check_padding(const ParamSpec& spec, const Tensor& local, std::int64_t begin) {
    if (!is_padded(spec)) return;
    const auto exists = elements_that_exist(spec);
    for (std::int64_t i = 0; i < local.count(); ++i) {
      if (exists[static_cast<std::size_t>(begin + i)] || element(local, i) == 0.0F) continue;
      faults_.add(fmt::format("{} of {}: the padding is not zero", what_, spec.name));
      return;
    }
  }

  std::string what_;
  Faults& faults_;
  std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

// What all ranks of a run fill in.
class Training {
 public:
  Training(const TrainConfig& config, int steps, LeftGradients left)
      : config_(config),
        steps_(steps),
        left_(left),
        grids_(parallel_grids(config.layout)),
        model_(make_model(config, kVocabulary)),
        schema_(model_->batch_schema()),
        programs_(step_programs(config)),
        plans_(static_cast<std::size_t>(grids_.world_size())),
        results_(plans_.size()),
        measured_(results_.size()) {
    for (const RankPlan& plan : plan_ranks(config, *model_, programs_, {products_of(config)})) {
      for (const int rank : plan.ranks) plans_[static_cast<std::size_t>(rank)] = plan.memory;
    }
  }

  TrainingResult run() {
    run_local_ranks(grids_.world_size(),
                    {.threads_per_rank = 1, .timeout = std::chrono::minutes(5)},
                    [&](Communicator& world) { run_rank(world); });
    return result();
  }

 private:
  void run_rank(Communicator& world);
  void leave_gradients(Rank& rank) const;
  StepResult train_step(Rank& rank, int step);
  StepResult measured_step(Rank& rank, int step);
  // What the rank updates, in memory and in files.
  static void add_gradients(Rank& rank, Assembly& to);
  static void add_weights(Rank& rank, Assembly& to);
  static void add_stored_weights(Rank& rank, Assembly& to);
  static void add_moments(Rank& rank, std::string_view name, Assembly& to);
  TrainingResult result();
  // Of the only loss, masked or not, in a global batch.
  double rows_of_loss() const {
    const BatchColumn& mask = schema_.columns()[schema_.index(model_->losses().front().mask)];
    return static_cast<double>(config_.layout.global_batch_size * mask.extents[0]);
  }

  const TrainConfig& config_;
  int steps_;
  LeftGradients left_;
  ParallelGrids grids_;
  std::shared_ptr<const Model> model_;
  BatchSchema schema_;
  StepPrograms programs_;
  std::vector<MemoryPlan> plans_;
  std::vector<std::vector<StepResult>> results_;  // by rank, by step
  std::vector<MeasuredStep> measured_;
  RoutingRecord routing_;
  Faults faults_;
  Assembly initial_{"initial weights", faults_}, initial_stored_{"initial stored weights", faults_},
      first_gradients_{"gradients", faults_}, first_weights_{"weights of step 1", faults_},
      first_exp_avg_{"moments of step 1", faults_}, weights_{"weights", faults_},
      stored_{"stored weights", faults_}, exp_avg_{"first moments", faults_},
      exp_avg_sq_{"second moments", faults_};
};

void Training::run_rank(Communicator& world) {
  const auto me = static_cast<std::size_t>(world.rank());
  const RankCommunicators ranks(grids_, world);
  RankArenas arenas(plans_[me].bytes);
  arenas.folders = open_folders(config_.layout, "layouts", world.rank());
  const auto backend = make_cpu_backend(1, products_of(config_));
  Rank rank(config_, *model_, programs_, ranks, *backend, arenas);
  rank.initialise();
  const bool trains_all = !frozen_parameters(config_);
  HighWaterCheck marks(plans_[me], arenas);
  add_weights(rank, initial_);
  add_stored_weights(rank, initial_stored_);
  for (int step = 0; step < steps_; ++step) {
    // What microbatches leave, weights that were gathered for them among it, is of no use to a
    // step.
    if (left_ == LeftGradients::kNan) {
      std::memset(arenas["saved"].base(), 0xff,
                  static_cast<std::size_t>(arenas["saved"].capacity()));
    }
    leave_gradients(rank);
    results_[me].push_back(step == kMeasuredStep ? measured_step(rank, step)
                                                 : train_step(rank, step));
    // A stage that trains nothing may need more memory for an evaluation, which is not run here.
    if (trains_all) {
      check_high_water(plans_[me], arenas);
    } else {
      marks.after(programs_.usual);
    }
    if (step > 0) continue;
    add_gradients(rank, first_gradients_);
    add_weights(rank, first_weights_);
    add_moments(rank, "exp_avg", first_exp_avg_);
  }
  rank.finish_gather();
  add_stored_weights(rank, stored_);
  add_weights(rank, weights_);
  add_moments(rank, "exp_avg", exp_avg_);
  add_moments(rank, "exp_avg_sq", exp_avg_sq_);
}

void Training::add_gradients(Rank& rank, Assembly& to) {
  const TileAccess access = rank.gradients().access(true, false);
  rank.visit({&access, 1}, [&](const auto& tile, auto tensors) {
    for (const Segment& s : tile.segments) {
      to.add(rank.table()[s.id], rank.gradients().gradient(s, tensors[0]), s.begin);
    }
  });
}

void Training::add_weights(Rank& rank, Assembly& to) {
  const auto accesses = rank.parameters().accesses(true, false);
  rank.visit(accesses, [&](const auto& tile, auto tensors) {
    for (const Segment& s : tile.segments) {
      to.add(rank.table()[s.id], rank.parameters().main(s, tensors), s.begin);
    }
  });
}

void Training::add_stored_weights(Rank& rank, Assembly& to) {
  const ParameterStore& parameters = rank.parameters();
  for (ParamId id = 0; id < rank.table().size(); ++id) {
    if (parameters.weight(id)) to.add(rank.table()[id], parameters.weight(id));
  }
  const TileAccess access{.file = parameters.weight_file(), .writes = false};
  rank.visit({&access, 1}, [&](const auto& tile, auto tensors) {
    for (const Segment& s : tile.segments) {
      if (parameters.weight(s.id)) continue;
      to.add(rank.table()[s.id],
             tensors[0] ? part_of(tensors[0], parameters.states(), s) : parameters.weight(s),
             s.begin);
    }
  });
}

void Training::add_moments(Rank& rank, std::string_view name, Assembly& to) {
  const TileAccess access{.column = &rank.optimizer().state(name), .writes = false};
  rank.visit({&access, 1}, [&](const auto& tile, auto tensors) {
    for (const Segment& s : tile.segments) {
      to.add(rank.table()[s.id], part_of(tensors[0], rank.parameters().states(), s), s.begin);
    }
  });
}

// A gradient that no pass of a step wrote shows.
void Training::leave_gradients(Rank& rank) const {
  const double left = left_ == LeftGradients::kNan ? std::numeric_limits<double>::quiet_NaN() : 0.0;
  ops::fill(rank.context(), {.x = rank.gradients().flat(), .value = left});
  const TileAccess access = rank.gradients().access(false, true);
  if (access.column == nullptr || access.column->file() == nullptr) return;
  rank.visit({&access, 1}, [&](const auto& /*tile*/, auto tensors) {
    ops::fill(rank.context(), {.x = tensors[0], .value = left});
  });
}

StepResult Training::train_step(Rank& rank, int step) {
  const std::int64_t first = step * config_.layout.global_batch_size;
  // As the sampler hands them out: the ranks of a microbatch follow each other.
  std::vector<HostBatch> batches;
  for (std::int64_t m = 0; m < num_microbatches(config_.layout); ++m) {
    const std::int64_t index =
        m * data_parallel_size(config_.layout) + rank.ranks().coordinates.data;
    batches.push_back(
        rows_of_rank(tiny_batch(config_, schema_, first + index * config_.layout.micro_batch_size),
                     context_cut(config_.layout), rank.ranks().coordinates.context));
  }
  StepSchedule schedule{.lr = kLearningRate,
                        .weight_decay = kWeightDecay,
                        .adam_step = step + 1,
                        .loss_scale = loss_scaler(config_).scale()};
  if (rank.wants_loss_counts()) schedule.loss_counts = loss_counts(*model_, batches);
  const BatchSource source = [&](int microbatch) -> const HostBatch& {
    return batches[static_cast<std::size_t>(microbatch)];
  };
  return rank.train({&schedule, 1}, source, nullptr, &routing_).front();
}

StepResult Training::measured_step(Rank& rank, int step) {
  Communicator& world = *rank.ranks().world;
  const auto me = static_cast<std::size_t>(world.rank());
  const auto bytes_read = [&] {
    rank.finish_gather();
    world.barrier(rank.context());
    const std::int64_t bytes = local_bytes_read(world)[me];
    world.barrier(rank.context());
    return bytes;
  };
  const std::int64_t before = bytes_read();
  Recorder recorder;
  rank.record_to(&recorder);
  StepResult result = train_step(rank, step);
  rank.record_to(nullptr);
  measured_[me] = {.planned = plans_[me].messages,
                   .recorded = {},
                   .planned_transfers = plans_[me].transfers,
                   .transfers = {},
                   .bytes_moved = 0,
                   .trace = recorder.events()};
  measured_[me].recorded.add(recorder.messages());
  measured_[me].transfers.add(recorder.transfers());
  measured_[me].bytes_moved = bytes_read() - before;
  return result;
}

TrainingResult Training::result() {
  TrainingResult result;
  for (int step = 0; step < steps_; ++step) {
    const auto s = static_cast<std::size_t>(step);
    const StepResult& first = results_[0][s];
    for (const LossResult& loss : first.losses) result.losses.push_back(loss.mean);
    result.grad_norms.push_back(first.grad_norm);
    result.skipped.push_back(first.skipped);
    for (const auto& results : results_) {
      if (!agree(results[s], first)) {
        faults_.add(fmt::format("step {}: ranks disagree about loss or norm", step + 1));
      }
    }
  }
  result.initial_weights = initial_.take();
  result.initial_stored = initial_stored_.take();
  const bool divides_itself = model_->losses().size() > 1 || !model_->auxiliary_losses().empty() ||
                              config_.optimizer.loss_average == "microbatch";
  if (!divides_itself) {
    result.first_factor = rows_of_loss() / results_[0].front().tokens();
  }
  result.first_gradients = first_gradients_.take();
  result.first_weights = first_weights_.take();
  result.first_exp_avg = first_exp_avg_.take();
  result.weights = weights_.take();
  result.stored_weights = stored_.take();
  result.exp_avg = exp_avg_.take();
  result.exp_avg_sq = exp_avg_sq_.take();
  result.routing = routing_.take();
  result.measured = std::move(measured_);
  result.faults = faults_.take();
  return result;
}

}  // namespace

TrainingResult train(const TrainConfig& config, int steps, LeftGradients left) {
  // Folders say what disk they are on.
  set_log_level(LogLevel::kError);
  return Training(config, steps, left).run();
}

}  // namespace phalanx
