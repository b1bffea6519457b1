#include "phalanx/ops/cross_entropy.h"

#include "phalanx/ops/cases/case.h"

namespace phalanx::ops {
namespace {

struct Size {
  std::int64_t rows, columns, vocabulary;
};

enum class Kind {
  kInPlace,     // logits of the storage type, dlogits over them
  kSeparate,    // logits of the storage type
  kFullLogits,  // f32 logits, dlogits of the storage type
  kEvaluation,  // no gradient
};

std::string name(const Size& size, Kind kind) {
  constexpr const char* kKinds[] = {"in place", "separate", "f32 logits", "evaluation"};
  return fmt::format("{}x{} of {}, {}", size.rows, size.vocabulary, size.columns,
                     kKinds[static_cast<std::size_t>(kind)]);
}

// The padding holds garbage: nobody may look at it.
CrossEntropy make_op(Operands& operands, const Size& size, Kind kind, double range) {
  const Shape shape{size.rows, size.columns};
  CrossEntropy op;
  op.vocabulary = size.vocabulary;
  op.logits = operands.uniform(kind == Kind::kFullLogits ? operands.full() : operands.storage(),
                               shape, -range, range);
  operands.poison(op.logits.slice(1, size.vocabulary, size.columns - size.vocabulary));
  op.loss = operands.output(operands.full(), {size.rows});
  op.targets = operands.integers({size.rows}, 0, size.vocabulary);
  if (kind == Kind::kEvaluation) return op;
  op.dlogits = kind == Kind::kInPlace ? op.logits : operands.output(shape);
  op.mask = operands.loss_mask(size.rows);
  op.seed = operands.filled(operands.full(), {1}, 0.37);
  return op;
}

Job loss(Operands& operands, const Size& size, Kind kind, double range) {
  const CrossEntropy op = make_op(operands, size, kind, range);
  std::vector<Output> outputs = {near(op.loss, 16)};
  if (op.dlogits) outputs.push_back(near(op.dlogits, 32));
  return make_job(op, cross_entropy, outputs);
}

GradientJob gradients(Operands& operands, const Size& size) {
  const CrossEntropy op = make_op(operands, size, Kind::kSeparate, 2.0);
  // The loss that dlogits belongs to is seed * sum(mask * loss).
  const Tensor cotangent = operands.filled(DType::kF64, {size.rows}, 0.0);
  GradientJob job;
  job.forward = [op](Context& context) { cross_entropy(context, op); };
  for (std::int64_t r = 0; r < size.rows; ++r) {
    cotangent.as<double>()[r] = op.seed.as<double>()[0] * op.mask.as<float>()[r];
  }
  job.backward = job.forward;
  job.outputs = {{op.loss, cotangent}};
  job.operands = {
      {op.logits.slice(1, 0, size.vocabulary), op.dlogits.slice(1, 0, size.vocabulary)}};
  return job;
}

enum class Mask { kNone, kSome, kAllZero };

Job seed(Operands& operands, std::int64_t rows, Mask kind) {
  LossSeed op;
  op.seed = operands.output(DType::kF32, {1});
  op.loss_scale = operands.filled(DType::kF32, {1}, 1024.0);
  if (kind == Mask::kSome) op.mask = operands.loss_mask(rows);
  if (kind == Mask::kAllZero) op.mask = operands.filled(DType::kF32, {rows}, 0.0);
  op.factor = 1.0 / 3.0;
  return make_job(op, loss_seed, {near(op.seed, 2)});
}

Job sums(Operands& operands, std::int64_t rows) {
  const LossAccumulate op{.sum = operands.filled(DType::kF64, {1}, 12.5),
                          .count = operands.filled(DType::kF64, {1}, 3.0),
                          .loss = operands.uniform(DType::kF32, {rows}, 0.0, 11.0),
                          .mask = operands.loss_mask(rows)};
  return make_job(op, loss_accumulate, {{op.sum, 1e-13}, {op.count, 0.0}});
}

}  // namespace

void add_cross_entropy_cases(CaseTable& table) {
  for (const Size& size : {Size{1, 1, 1}, Size{3, 17, 17}, Size{17, 65, 50}, Size{65, 257, 257},
                           Size{9, 1024, 1001}}) {
    for (const Kind kind :
         {Kind::kInPlace, Kind::kSeparate, Kind::kFullLogits, Kind::kEvaluation}) {
      table.tests.push_back({"cross_entropy", name(size, kind), kStorageTypes,
                             [=](Operands& operands) { return loss(operands, size, kind, 4.0); }});
      table.tests.push_back({"cross_entropy", name(size, kind) + ", |logits| to 3e4", kStorageTypes,
                             [=](Operands& operands) { return loss(operands, size, kind, 3e4); }});
    }
  }
  for (const std::int64_t rows : {1, 17, 257, 1024}) {
    for (const Mask kind : {Mask::kNone, Mask::kSome, Mask::kAllZero}) {
      constexpr const char* kMasks[] = {"no mask", "mask", "all masked"};
      table.tests.push_back(
          {"loss_seed", fmt::format("{} rows, {}", rows, kMasks[static_cast<std::size_t>(kind)]),
           kFullPrecision, [=](Operands& operands) { return seed(operands, rows, kind); }});
    }
    table.tests.push_back({"loss_accumulate", fmt::format("{} rows", rows), kFullPrecision,
                           [=](Operands& operands) { return sums(operands, rows); }});
  }
  table.gradients.push_back({"cross_entropy", "5x7 of 9", [](Operands& operands) {
                               return gradients(operands, {5, 9, 7});
                             }});

  const Size large{1024, 50304, 50257};
  for (const Kind kind : {Kind::kInPlace, Kind::kEvaluation}) {
    table.performance.push_back(
        {"cross_entropy", name(large, kind), kTimedTypes,
         [=](Operands& operands) { return loss(operands, large, kind, 4.0); }});
  }
}

}  // namespace phalanx::ops
