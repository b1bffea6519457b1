#include "phalanx/ops/reduce.h"

#include <cmath>
#include <limits>

#include "phalanx/ops/cases/segment_rows.h"

namespace phalanx::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Segments of which sums are asked: n elements from `lead` on, in three parts if they suffice. The
// sums of the last come first, and one sum is nobody's.
struct Summed {
  CaseTableRows rows;
  std::int64_t first = 0;
  std::int64_t sums = 0;
};
Summed summed_segments(Operands& operands, std::int64_t lead, std::int64_t n) {
  const std::int64_t third = n / 3;
  std::vector<Segment> segments = {{.begin = lead, .count = n}};
  if (n >= 65) {
    segments = {{.begin = lead, .count = third},
                {.begin = lead + third + 1, .count = third - 1},
                {.begin = lead + 2 * third, .count = n - 2 * third}};
  }
  Summed summed{.rows = {}, .first = lead};
  for (std::size_t i = segments.size(); i-- > 0;) {
    segments[i].group = summed.sums;
    summed.sums += blocks_of(segments[i]);
  }
  ++summed.sums;
  summed.rows = case_segments(operands, std::move(segments));
  return summed;
}

Job squares(Operands& operands, std::int64_t lead, std::int64_t n) {
  const Summed summed = summed_segments(operands, lead, n);
  const SquareSumSegments op{.sums = operands.output(DType::kF64, {summed.sums}),
                             .x = operands.uniform(DType::kF32, {n}),
                             .table = summed.rows.table,
                             .first = summed.first};
  return make_segments_job(op, summed.rows, square_sum_segments, {{op.sums, 1e-12}});
}

// About two of three elements are zero.
Job zeros(Operands& operands, std::int64_t lead, std::int64_t n) {
  const Summed summed = summed_segments(operands, lead, n);
  const ZeroCountSegments op{.counts = operands.output(DType::kF64, {summed.sums}),
                             .x = operands.uniform(DType::kF32, {n}),
                             .table = summed.rows.table,
                             .first = summed.first};
  if (operands.has_contents()) {
    for (float& x : op.x.span<float>()) x = std::trunc(1.5F * x);
  }
  return make_segments_job(op, summed.rows, zero_count_segments, {{op.counts, 0.0}});
}

// Of three parameters, or of one, and one total that is nobody's.
Job totals(Operands& operands, std::int64_t n) {
  const std::int64_t third = n / 3;
  std::vector<Segment> segments = {{.begin = 0, .count = n, .group = 1}};
  if (n >= 17) {
    segments = {{.begin = 0, .count = third, .group = 3},
                {.begin = third + 1, .count = 1, .group = 0},
                {.begin = third + 2, .count = n - third - 2, .group = 2}};
  }
  const CaseTableRows rows = case_segments(operands, std::move(segments));
  const TotalSegments op{.totals = operands.output(DType::kF64, {4}),
                         .x = operands.uniform(DType::kF64, {n}),
                         .table = rows.table};
  return make_segments_job(op, rows, total_segments, {{op.totals, 0.0}});
}

// In order: nothing may differ.
Job sum_of(Operands& operands, std::int64_t n) {
  const Total op{.sum = operands.output(DType::kF64, {1}), .x = operands.uniform(DType::kF64, {n})};
  return make_job(op, total, {{op.sum, 0.0}});
}

struct Factor {
  const char* description;
  double clip;
  double tokens;       // negative: absent
  double first_sum;    // of the squares
  double loss = -1.0;  // the last of those that are checked; negative: none is
};

constexpr Factor kFactors[] = {
    {"no clipping", 0.0, 1000.0, 1.0},
    {"clipped", 0.01, 1000.0, 1.0},
    {"below the clip", 100.0, 1000.0, 1.0},
    {"no token count", 0.01, -1.0, 1.0},
    {"no token", 1.0, 0.0, 1.0},
    {"infinite", 1.0, 1000.0, kInfinity},
    {"infinite, no clipping", 0.0, 1000.0, kInfinity},
    {"not a number", 1.0, 1000.0, -kInfinity},
    {"checked losses", 1.0, 1000.0, 1.0, 3.0},
    {"a loss that is infinite", 1.0, 1000.0, 1.0, kInfinity},
    {"a loss that is no number", 0.0, 1000.0, 1.0, std::numeric_limits<double>::quiet_NaN()}};

Job factor(Operands& operands, std::int64_t n, const Factor& which) {
  GradientFactor op;
  op.norm = operands.output(DType::kF32, {1});
  op.factor = operands.output(DType::kF32, {1});
  op.skip = operands.output(DType::kF32, {1});
  op.square_sums = operands.uniform(DType::kF64, {n}, 0.0, 4.0);
  if (operands.has_contents()) op.square_sums.as<double>()[0] = which.first_sum;
  if (which.tokens >= 0.0) op.tokens = operands.filled(DType::kF64, {1}, which.tokens);
  op.loss_scale = operands.filled(DType::kF32, {1}, 8.0);
  op.expected_tokens = operands.filled(DType::kF64, {1}, 1024.0);
  // A comparison with NaN is false.
  if (!(which.loss < 0.0)) {
    op.checked = operands.uniform(DType::kF64, {4});
    if (operands.has_contents()) op.checked.as<double>()[3] = which.loss;
  }
  op.clip = which.clip;
  // With a norm that is not a number the step is skipped, and the factor is not used.
  const bool is_finite = which.first_sum >= 0.0 && std::isfinite(which.loss);
  const double of_factor = is_finite ? 0x1p-21 : kInfinity;
  return make_job(op, gradient_factor, {near(op.norm, 4), {op.factor, of_factor}, {op.skip, 0.0}});
}

}  // namespace

void add_reduce_cases(CaseTable& table) {
  for (const std::int64_t n : {1, 3, 17, 65, 257, 4096, 4099, 100003}) {
    for (const std::int64_t lead : {0, 1, 4090, 4095}) {
      const std::string name = fmt::format("{} from {}", n, lead);
      table.test("square_sum", name, kFullPrecision, squares, lead, n);
      table.test("zero_count", name, kFullPrecision, zeros, lead, n);
    }
    table.test("total", fmt::format("{}", n), kFullPrecision, sum_of, n);
    table.test("total_segments", fmt::format("{}", n), kFullPrecision, totals, n);
  }
  for (const std::int64_t n : kOddColumns) {
    table.test("square_sum", fmt::format("{}", n), kFullPrecision, squares, 0, n);
  }
  for (const std::int64_t n : {1, 17, 148}) {
    for (const Factor& which : kFactors) {
      table.test("gradient_factor", fmt::format("{} sums, {}", n, which.description),
                 kFullPrecision, factor, n, which);
    }
  }
  // One layer of GPT-2 124M, its table of words, and the blocks of the model.
  constexpr std::int64_t kLayer = 7087872;
  constexpr std::int64_t kWords = 50304 * 768;
  constexpr std::int64_t kModelBlocks = 30382;
  const auto add = [&](const char* op, std::int64_t n, auto... build) {
    table.time(op, fmt::format("{}", n), kFullPrecision, build...);
  };
  add("square_sum", kLayer, squares, 0, kLayer);
  add("square_sum", kWords, squares, 0, kWords);
  add("zero_count", kLayer, zeros, 0, kLayer);
  add("total", kModelBlocks, sum_of, kModelBlocks);
}

}  // namespace phalanx::ops
