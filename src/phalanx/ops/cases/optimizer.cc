#include "phalanx/ops/optimizer.h"

#include "phalanx/ops/cases/segment_rows.h"

namespace phalanx::ops {
namespace {

// Where the elements lie in the buffers, and how they are cut.
struct Place {
  std::int64_t n = 0;
  std::int64_t first = 0;
};

// One segment of few elements; else three of different settings, with gaps around the second.
CaseTableRows segments_of(Operands& operands, const Place& place) {
  const auto [n, first] = place;
  if (n < 17) return case_segments(operands, {{.begin = first, .count = n, .group = 1}});
  const std::int64_t third = n / 3;
  return case_segments(operands,
                       {{.begin = first, .count = third, .group = 1},
                        {.begin = first + third + 1, .count = third - 3, .group = 0},
                        {.begin = first + 2 * third, .count = n - 2 * third, .group = 2}});
}

// Of three groups.
Tensor settings_of(Operands& operands, double decay) {
  return operands.values(DType::kF64, {3, 2},
                         std::array{0.003, 0.0, 0.01, decay, 0.02, 2.0 * decay});
}

struct Update {
  Place place;
  double weights = 1.0;  // the largest |weight| (0 shows the update alone)
  std::int64_t step = 1;
  double decay = 0.1;
  bool skip = false;
  bool has_gradient = true;  // else it is 0 from the start: m = v = 0 leaves weights to their decay
};

// A 16-bit storage type adds the rounded parameters.
Job adam(Operands& operands, const Update& update) {
  const std::int64_t n = update.place.n;
  const double all = update.has_gradient ? 1.0 : 0.0;
  const CaseTableRows rows = segments_of(operands, update.place);
  AdamSegments op;
  op.table = rows.table;
  op.first = update.place.first;
  op.weight = operands.uniform(operands.full(), {n}, -update.weights, update.weights);
  if (size_of(operands.storage()) == 2) op.storage = operands.output({n});
  op.gradient = operands.uniform(operands.full(), {n}, -3.0 * all, 3.0 * all);
  op.exp_avg = operands.uniform(operands.full(), {n}, -0.1 * all, 0.1 * all);
  op.exp_avg_sq = operands.uniform(operands.full(), {n}, 0.0, 0.1 * all);
  op.settings = settings_of(operands, update.decay);
  op.corrections =
      operands.values(DType::kF64, {2}, adam_corrections(op.beta1, op.beta2, update.step));
  op.factor = operands.filled(DType::kF32, {1}, 0.3);
  op.skip = operands.filled(DType::kF32, {1}, update.skip ? 1.0 : 0.0);
  if (update.skip) operands.poison(op.gradient);
  std::vector<Output> outputs = {near(op.weight, 16), near(op.exp_avg, 4), near(op.exp_avg_sq, 4)};
  if (op.storage) outputs.push_back(near(op.storage, 16));
  // Not even the garbage in storage changes.
  if (update.skip) {
    for (Output& output : outputs) output.tolerance = 0.0;
  }
  return make_segments_job(op, rows, adam_segments, outputs);
}

struct Descent {
  Place place;
  double momentum = 0.9;
  bool begins = false;  // with a buffer of zeros, which becomes the gradient
  bool skip = false;
};

Job sgd(Operands& operands, const Descent& descent) {
  const std::int64_t n = descent.place.n;
  const double kept = descent.begins ? 0.0 : 1.0;
  const CaseTableRows rows = segments_of(operands, descent.place);
  SgdSegments op;
  op.table = rows.table;
  op.first = descent.place.first;
  op.weight = operands.uniform(operands.full(), {n}, -1.0, 1.0);
  if (size_of(operands.storage()) == 2) op.storage = operands.output({n});
  op.gradient = operands.uniform(operands.full(), {n}, -3.0, 3.0);
  if (descent.momentum > 0.0) {
    op.momentum_buffer = operands.uniform(operands.full(), {n}, -kept, kept);
  }
  op.settings = settings_of(operands, 0.1);
  op.factor = operands.filled(DType::kF32, {1}, 0.3);
  op.skip = operands.filled(DType::kF32, {1}, descent.skip ? 1.0 : 0.0);
  op.momentum = descent.momentum;
  if (descent.skip) operands.poison(op.gradient);
  std::vector<Output> outputs = {near(op.weight, 16)};
  if (op.momentum_buffer) outputs.push_back(near(op.momentum_buffer, 16));
  if (op.storage) outputs.push_back(near(op.storage, 16));
  if (descent.skip) {
    for (Output& output : outputs) output.tolerance = 0.0;
  }
  return make_segments_job(op, rows, sgd_segments, outputs);
}

// Around vectors, packs and blocks; buffers that begin anywhere in a block.
constexpr Place kPlaces[] = {{1, 0},   {3, 4095},   {17, 8192},    {65, 4},
                             {65, 77}, {257, 4090}, {20011, 8192}, {20011, 12285}};

void add_sgd_cases(CaseTable& table) {
  for (const Place& place : kPlaces) {
    const auto add = [&](const char* description, const Descent& descent) {
      table.test("sgd", fmt::format("{} from {}, {}", place.n, place.first, description),
                 kStorageTypes, sgd, descent);
    };
    add("no momentum", {.place = place, .momentum = 0.0});
    add("momentum", {.place = place});
    add("first step", {.place = place, .begins = true});
    add("skipped", {.place = place, .skip = true});
  }
}

void add_adam_cases(CaseTable& table) {
  for (const Place& place : kPlaces) {
    const auto add = [&](const std::string& description, const Update& update) {
      table.test("adam", fmt::format("{} from {}, {}", place.n, place.first, description),
                 kStorageTypes, adam, update);
    };
    for (const std::int64_t step : {1, 1000}) {
      add(fmt::format("step {}", step), {.place = place, .step = step});
      add(fmt::format("step {}, weights 0", step),
          {.place = place, .weights = 0.0, .step = step, .decay = 0.0});
    }
    add("skipped", {.place = place, .skip = true});
    add("no gradient", {.place = place, .has_gradient = false});
  }
}

}  // namespace

void add_optimizer_cases(CaseTable& table) {
  add_sgd_cases(table);
  add_adam_cases(table);
  // One layer of GPT-2 124M.
  constexpr Place kLayer{7087872, 0};
  table.time("sgd", "7087872", kTimedTypes, sgd, Descent{.place = kLayer});
  table.time("adam", "7087872", kTimedTypes, adam, Update{.place = kLayer, .step = 1000});
}

}  // namespace phalanx::ops
