#include "phalanx/ops/cross_entropy.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "phalanx/ops/cases/case.h"
#include "phalanx/ops/ref/access.h"

namespace phalanx::ops {
namespace {

struct CrossEntropySize {
  std::int64_t rows, columns, vocabulary;
};

enum class Kind {
  kInPlace,           // logits of the storage type, dlogits over them
  kSeparate,          // logits of the storage type
  kFullLogits,        // f32 logits, dlogits of the storage type
  kEvaluation,        // no gradient, no mask
  kMaskedEvaluation,  // no gradient
};
constexpr Kind kEveryKind[] = {Kind::kInPlace, Kind::kSeparate, Kind::kFullLogits,
                               Kind::kEvaluation, Kind::kMaskedEvaluation};
bool evaluates(Kind kind) { return kind == Kind::kEvaluation || kind == Kind::kMaskedEvaluation; }

const char* cross_entropy_name(Kind kind) {
  constexpr const char* kKinds[] = {"in place", "separate", "f32 logits", "evaluation",
                                    "masked evaluation"};
  return kKinds[static_cast<std::size_t>(kind)];
}
std::string cross_entropy_name(const CrossEntropySize& size, Kind kind) {
  return fmt::format("{}x{} of {}, {}", size.rows, size.vocabulary, size.columns,
                     cross_entropy_name(kind));
}

// Rows of mask 0 get targets that are no tokens, each in its turn: -1, the first number behind the
// vocabulary, and the ends of the type.
void spoil_targets(const Operands& operands, const Tensor& targets, const Tensor& mask,
                   std::int64_t vocabulary) {
  if (!operands.has_contents()) return;
  const std::int32_t bad[] = {-1, static_cast<std::int32_t>(vocabulary),
                              std::numeric_limits<std::int32_t>::min(),
                              std::numeric_limits<std::int32_t>::max()};
  std::size_t next = 0;
  for (std::int64_t r = 0; r < targets.count(); ++r) {
    if (ref::load(mask.data() + r * size_of(DType::kF32), DType::kF32) != 0.0) continue;
    std::memcpy(targets.data() + r * size_of(DType::kI32), &bad[next++ % std::size(bad)],
                sizeof(std::int32_t));
  }
}

// The logits of rows of mask 0 are not read.
void spoil_logits(Operands& operands, const Tensor& logits, const Tensor& mask) {
  if (!operands.has_contents()) return;
  for (std::int64_t r = 0; r < logits.shape[0]; ++r) {
    if (ref::load(mask.data() + r * size_of(DType::kF32), DType::kF32) != 0.0) continue;
    operands.poison(logits.slice(0, r, 1));
  }
}

// The padding holds garbage: it must not be read.
CrossEntropy make_op(Operands& operands, const CrossEntropySize& size, Kind kind, double range) {
  const Shape shape{size.rows, size.columns};
  CrossEntropy op;
  op.vocabulary = size.vocabulary;
  op.logits = operands.uniform(kind == Kind::kFullLogits ? operands.full() : operands.storage(),
                               shape, -range, range);
  operands.poison(op.logits.slice(1, size.vocabulary, size.columns - size.vocabulary));
  op.loss = operands.output(operands.full(), {size.rows});
  op.targets = operands.integers({size.rows}, 0, size.vocabulary);
  if (kind == Kind::kEvaluation) return op;
  op.mask = operands.loss_mask(size.rows);
  spoil_targets(operands, op.targets, op.mask, size.vocabulary);
  if (evaluates(kind)) return op;
  op.dlogits = kind == Kind::kInPlace ? op.logits : operands.output(shape);
  op.seed = operands.filled(operands.full(), {1}, 0.37);
  return op;
}

Job loss(Operands& operands, const CrossEntropySize& size, Kind kind, double range) {
  const CrossEntropy op = make_op(operands, size, kind, range);
  if (op.mask) spoil_logits(operands, op.logits, op.mask);
  std::vector<Output> outputs = {near(op.loss, 16)};
  if (op.dlogits) outputs.push_back(near(op.dlogits, 32));
  return make_job(op, cross_entropy, outputs);
}

GradientJob gradients(Operands& operands, const CrossEntropySize& size) {
  const CrossEntropy op = make_op(operands, size, Kind::kSeparate, 2.0);
  // The loss that dlogits belongs to is seed * sum(mask * loss).
  const Tensor cotangent = operands.filled(DType::kF64, {size.rows}, 0.0);
  GradientJob job;
  job.forward = call_of(cross_entropy, op);
  for (std::int64_t r = 0; r < size.rows; ++r) {
    cotangent.as<double>()[r] = op.seed.as<double>()[0] * op.mask.as<float>()[r];
  }
  job.backward = job.forward;
  job.outputs = {{op.loss, cotangent}};
  job.operands = {
      {op.logits.slice(1, 0, size.vocabulary), op.dlogits.slice(1, 0, size.vocabulary)}};
  return job;
}

// One rank's columns of a vocabulary that `ranks` ranks share; the last ones have padding.
struct Part {
  std::int64_t rows, columns, vocabulary, ranks, rank;

  std::int64_t first_column() const { return rank * columns; }
};

std::string cross_entropy_name(const Part& part) {
  return fmt::format("{}x{} of {}, rank {} of {}", part.rows, part.columns, part.vocabulary,
                     part.rank, part.ranks);
}

Tensor make_logits(Operands& operands, const Part& part, DType dtype, double range) {
  const Tensor logits = operands.uniform(dtype, {part.rows, part.columns}, -range, range);
  const std::int64_t tokens =
      std::clamp<std::int64_t>(part.vocabulary - part.first_column(), 0, part.columns);
  operands.poison(logits.slice(1, tokens, part.columns - tokens));
  return logits;
}

CrossEntropyStatistics statistics_op(Operands& operands, const Part& part, DType dtype,
                                     double range) {
  return {.statistics = operands.output(operands.full(), {3, part.rows}),
          .logits = make_logits(operands, part, dtype, range),
          .targets = operands.integers({part.rows}, 0, part.vocabulary),
          .first_column = part.first_column(),
          .vocabulary = part.vocabulary};
}

// The operands of a masked loss over a part.
void add_mask(Operands& operands, const Part& part, CrossEntropyStatistics& op) {
  op.mask = operands.loss_mask(part.rows);
  spoil_targets(operands, op.targets, op.mask, part.vocabulary);
  spoil_logits(operands, op.logits, op.mask);
}

Job statistics(Operands& operands, const Part& part, bool full, bool masked, double range) {
  const DType dtype = full ? operands.full() : operands.storage();
  CrossEntropyStatistics op = statistics_op(operands, part, dtype, range);
  if (masked) add_mask(operands, part, op);
  return make_job(op, cross_entropy_statistics,
                  {{op.statistics.select(0, 0), 0.0},
                   near(op.statistics.select(0, 1), 16),
                   {op.statistics.select(0, 2), 0.0}});
}

// The statistics of all ranks, computed on logits of their own but for those of `own`.
Tensor gather_statistics(Operands& operands, const Part& part, const CrossEntropyStatistics& own,
                         double range) {
  const Tensor all = operands.output(operands.full(), {part.ranks, 3, part.rows});
  for (std::int64_t rank = 0; rank < part.ranks; ++rank) {
    CrossEntropyStatistics op = own;
    if (rank != part.rank) {
      const Part other{part.rows, part.columns, part.vocabulary, part.ranks, rank};
      op.logits = make_logits(operands, other, operands.full(), range);
      op.first_column = other.first_column();
    }
    op.statistics = all.select(0, rank);
    cross_entropy_statistics(operands.preparation(), op);
  }
  return all;
}

Job parallel_loss(Operands& operands, const Part& part, Kind kind, double range) {
  const DType dtype = kind == Kind::kFullLogits ? operands.full() : operands.storage();
  CrossEntropyStatistics own = statistics_op(operands, part, dtype, range);
  if (kind != Kind::kEvaluation) add_mask(operands, part, own);
  VocabularyParallelCrossEntropy op;
  op.loss = operands.output(operands.full(), {part.rows});
  op.logits = own.logits;
  op.statistics = gather_statistics(operands, part, own, range);
  op.targets = own.targets;
  op.mask = own.mask;
  op.first_column = own.first_column;
  op.vocabulary = own.vocabulary;
  std::vector<Output> outputs = {near(op.loss, 16)};
  if (!evaluates(kind)) {
    op.dlogits = kind == Kind::kInPlace ? op.logits : operands.output(op.logits.shape);
    op.seed = operands.filled(operands.full(), {1}, 0.37);
    outputs.push_back(near(op.dlogits, 32));
  }
  return make_job(op, vocabulary_parallel_cross_entropy, outputs);
}

// Two ranks and the gradient of both.
GradientJob parallel_gradients(Operands& operands, const Part& first) {
  const Tensor mask = operands.loss_mask(first.rows);
  const Tensor seed = operands.filled(DType::kF64, {1}, 0.37);
  const Tensor loss = operands.output(DType::kF64, {first.rows});
  const Tensor all = operands.output(DType::kF64, {first.ranks, 3, first.rows});
  const Tensor targets = operands.integers({first.rows}, 0, first.vocabulary);
  spoil_targets(operands, targets, mask, first.vocabulary);
  std::vector<CrossEntropyStatistics> statistics;
  std::vector<VocabularyParallelCrossEntropy> losses;
  GradientJob job;
  for (Part part = first; part.rank < part.ranks; ++part.rank) {
    CrossEntropyStatistics own = statistics_op(operands, part, DType::kF64, 2.0);
    own.statistics = all.select(0, part.rank);
    own.targets = targets;
    own.mask = mask;
    statistics.push_back(own);
    losses.push_back({.loss = loss,
                      .dlogits = operands.output(own.logits.shape),
                      .logits = own.logits,
                      .statistics = all,
                      .targets = targets,
                      .mask = mask,
                      .seed = seed,
                      .first_column = own.first_column,
                      .vocabulary = own.vocabulary});
    const std::int64_t tokens = std::min(part.columns, part.vocabulary - own.first_column);
    job.operands.push_back(
        {own.logits.slice(1, 0, tokens), losses.back().dlogits.slice(1, 0, tokens)});
  }
  const Tensor cotangent = operands.filled(DType::kF64, {first.rows}, 0.0);
  for (std::int64_t r = 0; r < first.rows; ++r) {
    cotangent.as<double>()[r] = seed.as<double>()[0] * mask.as<float>()[r];
  }
  job.forward = [=](Context& context) {
    for (const auto& op : statistics) cross_entropy_statistics(context, op);
    for (const auto& op : losses) vocabulary_parallel_cross_entropy(context, op);
  };
  job.backward = job.forward;
  job.outputs = {{loss, cotangent}};
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

Job labelled(Operands& operands, std::int64_t rows) {
  const LabelMask op{.mask = operands.output(DType::kF32, {rows}),
                     .labels = operands.integers({rows}, -2, 3)};
  return make_job(op, label_mask, {{op.mask, 0.0}});
}

Job sums(Operands& operands, std::int64_t rows) {
  const LossAccumulate op{.sum = operands.filled(DType::kF64, {1}, 12.5),
                          .count = operands.filled(DType::kF64, {1}, 3.0),
                          .loss = operands.uniform(DType::kF32, {rows}, 0.0, 11.0),
                          .mask = operands.loss_mask(rows)};
  return make_job(op, loss_accumulate, {{op.sum, 1e-13}, {op.count, 0.0}});
}

void add_vocabulary_parallel_cases(CaseTable& table) {
  const auto add = [&](const char* op, const std::string& description, auto... build) {
    table.test(op, description, kStorageTypes, build...);
  };
  // The columns of the last two are all padding.
  for (const Part& part :
       {Part{1, 1, 1, 1, 0}, Part{3, 9, 17, 2, 1}, Part{17, 65, 130, 3, 0},
        Part{9, 1024, 2001, 2, 1}, Part{17, 65, 130, 3, 2}, Part{5, 8, 3, 4, 3}}) {
    for (const double range : {4.0, 3e4}) {
      const std::string description =
          cross_entropy_name(part) + (range > 4.0 ? ", |logits| to 3e4" : "");
      for (const bool full : {false, true}) {
        for (const bool masked : {false, true}) {
          add("cross_entropy_statistics",
              description + (full ? ", f32 logits" : "") + (masked ? ", mask" : ""), statistics,
              part, full, masked, range);
        }
      }
      for (const Kind kind : kEveryKind) {
        add("vocabulary_parallel_cross_entropy", description + ", " + cross_entropy_name(kind),
            parallel_loss, part, kind, range);
      }
    }
  }
  table.differentiate("vocabulary_parallel_cross_entropy", "5x4 of 7, 2 ranks", parallel_gradients,
                      Part{5, 4, 7, 2, 0});
  const Part half{1024, 25152, 50257, 2, 1};
  table.time("cross_entropy_statistics", cross_entropy_name(half), kTimedTypes, statistics, half,
             false, false, 4.0);
  table.time("vocabulary_parallel_cross_entropy", cross_entropy_name(half) + ", in place",
             kTimedTypes, parallel_loss, half, Kind::kInPlace, 4.0);
}

}  // namespace

void add_cross_entropy_cases(CaseTable& table) {
  for (const CrossEntropySize& size :
       {CrossEntropySize{1, 1, 1}, CrossEntropySize{3, 17, 17}, CrossEntropySize{17, 65, 50},
        CrossEntropySize{65, 257, 257}, CrossEntropySize{9, 1024, 1001}}) {
    for (const Kind kind : kEveryKind) {
      table.test("cross_entropy", cross_entropy_name(size, kind), kStorageTypes, loss, size, kind,
                 4.0);
      table.test("cross_entropy", cross_entropy_name(size, kind) + ", |logits| to 3e4",
                 kStorageTypes, loss, size, kind, 3e4);
    }
  }
  for (const std::int64_t vocabulary : kOddColumns) {
    const CrossEntropySize size{2, vocabulary + 2, vocabulary};
    for (const Kind kind : {Kind::kInPlace, Kind::kEvaluation}) {
      table.test("cross_entropy", cross_entropy_name(size, kind), kStorageTypes, loss, size, kind,
                 4.0);
    }
  }
  for (const std::int64_t rows : {1, 17, 257, 1024}) {
    for (const Mask kind : {Mask::kNone, Mask::kSome, Mask::kAllZero}) {
      constexpr const char* kMasks[] = {"no mask", "mask", "all masked"};
      table.test("loss_seed",
                 fmt::format("{} rows, {}", rows, kMasks[static_cast<std::size_t>(kind)]),
                 kFullPrecision, seed, rows, kind);
    }
    table.test("label_mask", fmt::format("{} rows", rows), kFullPrecision, labelled, rows);
    table.test("loss_accumulate", fmt::format("{} rows", rows), kFullPrecision, sums, rows);
  }
  table.differentiate("cross_entropy", "5x7 of 9", gradients, CrossEntropySize{5, 9, 7});

  add_vocabulary_parallel_cases(table);

  const CrossEntropySize large{1024, 50304, 50257};
  for (const Kind kind : {Kind::kInPlace, Kind::kEvaluation}) {
    table.time("cross_entropy", cross_entropy_name(large, kind), kTimedTypes, loss, large, kind,
               4.0);
  }
}

}  // namespace phalanx::ops
