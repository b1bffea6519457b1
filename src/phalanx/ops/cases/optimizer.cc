#include "phalanx/ops/optimizer.h"

#include "phalanx/ops/cases/case.h"

namespace phalanx::ops {
namespace {

// weights: the largest |weight| (0 shows the update alone). A 16-bit storage type adds the rounded
// parameter.
Adam make_adam(Operands& operands, std::int64_t n, double weights, bool skip) {
  Adam op;
  op.weight = operands.uniform(operands.full(), {n}, -weights, weights);
  if (size_of(operands.storage()) == 2) op.storage = operands.output({n});
  op.gradient = operands.uniform(operands.full(), {n}, -3.0, 3.0);
  op.exp_avg = operands.uniform(operands.full(), {n}, -0.1, 0.1);
  op.exp_avg_sq = operands.uniform(operands.full(), {n}, 0.0, 0.1);
  op.factor = operands.filled(DType::kF32, {1}, 0.3);
  op.skip = operands.filled(DType::kF32, {1}, skip ? 1.0 : 0.0);
  op.lr = 0.01;
  return op;
}

Job job(const Adam& op) {
  std::vector<Output> outputs = {near(op.weight, 16), near(op.exp_avg, 4), near(op.exp_avg_sq, 4)};
  if (op.storage) outputs.push_back(near(op.storage, 16));
  return make_job(op, adam, outputs);
}

Job step(Operands& operands, std::int64_t n, double weights, std::int64_t number, double decay) {
  Adam op = make_adam(operands, n, weights, false);
  op.step = number;
  op.weight_decay = decay;
  return job(op);
}

// Not even the garbage in storage changes.
Job unchanged(Job job) {
  for (Output& output : job.outputs) output.tolerance = 0.0;
  return job;
}

Job skipped(Operands& operands, std::int64_t n) {
  const Adam op = make_adam(operands, n, 1.0, true);
  operands.poison(op.gradient);
  return unchanged(job(op));
}

// A gradient that is 0 from the start: m = v = 0 leaves the weight to its decay.
Job unused(Operands& operands, std::int64_t n) {
  Adam op = make_adam(operands, n, 1.0, false);
  op.gradient = operands.filled(operands.full(), {n}, 0.0);
  op.exp_avg = operands.filled(operands.full(), {n}, 0.0);
  op.exp_avg_sq = operands.filled(operands.full(), {n}, 0.0);
  op.weight_decay = 0.1;
  return job(op);
}

Sgd make_sgd(Operands& operands, std::int64_t n, double momentum) {
  Sgd op;
  op.weight = operands.uniform(operands.full(), {n}, -1.0, 1.0);
  if (size_of(operands.storage()) == 2) op.storage = operands.output({n});
  op.gradient = operands.uniform(operands.full(), {n}, -3.0, 3.0);
  if (momentum > 0.0) op.momentum_buffer = operands.uniform(operands.full(), {n}, -1.0, 1.0);
  op.factor = operands.filled(DType::kF32, {1}, 0.3);
  op.skip = operands.filled(DType::kF32, {1}, 0.0);
  op.lr = 0.01;
  op.momentum = momentum;
  op.weight_decay = 0.1;
  return op;
}

Job job(const Sgd& op) {
  std::vector<Output> outputs = {near(op.weight, 16)};
  if (op.momentum_buffer) outputs.push_back(near(op.momentum_buffer, 16));
  if (op.storage) outputs.push_back(near(op.storage, 16));
  return make_job(op, sgd, outputs);
}

Job descent(Operands& operands, std::int64_t n, double momentum) {
  return job(make_sgd(operands, n, momentum));
}

// As when training begins: the buffer becomes the gradient.
Job first_descent(Operands& operands, std::int64_t n) {
  Sgd op = make_sgd(operands, n, 0.9);
  op.momentum_buffer = operands.filled(operands.full(), {n}, 0.0);
  return job(op);
}

Job skipped_descent(Operands& operands, std::int64_t n) {
  Sgd op = make_sgd(operands, n, 0.9);
  op.skip = operands.filled(DType::kF32, {1}, 1.0);
  operands.poison(op.gradient);
  return unchanged(job(op));
}

void add_sgd_cases(CaseTable& table) {
  const auto add = [&](const std::string& description, auto... build) {
    table.test("sgd", description, kStorageTypes, build...);
  };
  for (const std::int64_t n : {1, 3, 17, 65, 257, 20011}) {
    for (const double momentum : {0.0, 0.9}) {
      add(fmt::format("{}, momentum {}", n, momentum), descent, n, momentum);
    }
    add(fmt::format("{}, first step", n), first_descent, n);
    add(fmt::format("{}, skipped", n), skipped_descent, n);
  }
  table.time("sgd", "7087872", kTimedTypes, descent, 7087872, 0.9);
}

}  // namespace

void add_optimizer_cases(CaseTable& table) {
  add_sgd_cases(table);
  const auto add = [&](const std::string& description, auto... build) {
    table.test("adam", description, kStorageTypes, build...);
  };
  for (const std::int64_t n : {1, 3, 17, 65, 257, 20011}) {
    for (const std::int64_t number : {1, 1000}) {
      add(fmt::format("{}, step {}", n, number), step, n, 1.0, number, 0.1);
      add(fmt::format("{}, step {}, weights 0", n, number), step, n, 0.0, number, 0.0);
    }
    add(fmt::format("{}, skipped", n), skipped, n);
    add(fmt::format("{}, no gradient", n), unused, n);
  }
  // One layer of GPT-2 124M.
  table.time("adam", "7087872", kTimedTypes, step, 7087872, 1.0, 1000, 0.1);
}

}  // namespace phalanx::ops
