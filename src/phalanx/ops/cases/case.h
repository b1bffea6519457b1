#pragma once
// The case table: one list of op calls that drives three modes.
//   test         every backend against the reference on odd shapes and all types (cases/compare.h)
//   gradient     backward ops against finite differences in double (cases/differentiate.h)
//   performance  the shapes of GPT-2 124M at 4 x 256 tokens, timed against their cost
//                (bench/bench_ops.cc)
// To add an op: its rows in the file of its family.

#include <fmt/core.h>

#include <array>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/ops/cases/operands.h"

namespace phalanx::ops {

// What an op writes, and how far a backend may be from the reference: |difference| relative to the
// scale, which is the largest finite |reference|, or the floor if that is larger (where the terms
// of a sum may cancel altogether). A tolerance of 0 means equal, infinity anything. What is not
// listed must stay as it was.
struct Output {
  Tensor tensor;
  double tolerance = 0.0;
  double floor = 0.0;
};

// A call ready to run on the arena where it was built; it may run many times.
struct Job {
  std::function<void(Context&)> run;
  OpCost cost;
  std::vector<Output> outputs;
};

struct Case {
  std::string op;           // "linear_forward"
  std::string description;  // "257x65x17, bias"
  std::span<const DType> storage;
  std::function<Job(Operands&)> build;
  bool product = false;  // a matrix product, tested with every family of products
};

// A forward pass and its backward, everything in f64. The loss is the sum of output * cotangent;
// backward leaves its derivative by every operand in the tensor beside it.
struct GradientJob {
  struct Pair {
    Tensor value, gradient;
  };
  std::function<void(Context&)> forward;
  std::function<void(Context&)> backward;
  std::vector<Pair> outputs;   // with their cotangents
  std::vector<Pair> operands;  // with their derivatives
};

struct GradientCase {
  std::string op;
  std::string description;
  std::function<GradientJob(Operands&)> build;
};

// Operands of the largest performance row fit.
inline constexpr std::int64_t kPerformanceArenaBytes = std::int64_t{1} << 30;

// A case whose job is build(operands, arguments...).
template <typename Build, typename... Arguments>
Case case_of(std::string op, std::string description, std::span<const DType> storage, Build build,
             Arguments... arguments) {
  return {std::move(op), std::move(description), storage,
          [=](Operands& operands) { return build(operands, arguments...); }};
}

struct CaseTable {
  std::vector<Case> tests;
  std::vector<Case> performance;
  std::vector<GradientCase> gradients;

  // Rows of the three modes, as in case_of().
  template <typename... Row>
  void test(const Row&... row) {
    tests.push_back(case_of(row...));
  }
  template <typename... Row>
  void time(const Row&... row) {
    performance.push_back(case_of(row...));
  }
  template <typename Build, typename... Arguments>
  void differentiate(std::string op, std::string description, Build build, Arguments... arguments) {
    gradients.push_back({std::move(op), std::move(description),
                         [=](Operands& operands) { return build(operands, arguments...); }});
  }
};

CaseTable make_case_table();

// Fused causal attention of a training step, of any size: op "attention_forward" or
// "attention_backward", for timing.
struct AttentionSize {
  std::int64_t rows, batch, heads, groups, head_size;

  friend bool operator==(const AttentionSize&, const AttentionSize&) = default;
};
Case attention_case(const std::string& op, const AttentionSize& size);

// One function per family, in the file of its name.
void add_linear_cases(CaseTable& table);
void add_grouped_linear_cases(CaseTable& table);
void add_grouped_activation_cases(CaseTable& table);
void add_permute_cases(CaseTable& table);
void add_norm_cases(CaseTable& table);
void add_activation_cases(CaseTable& table);
void add_dropout_cases(CaseTable& table);
void add_embedding_cases(CaseTable& table);
void add_attention_cases(CaseTable& table);
void add_relative_bias_cases(CaseTable& table);
void add_rotary_cases(CaseTable& table);
void add_cross_entropy_cases(CaseTable& table);
void add_optimizer_cases(CaseTable& table);
void add_reduce_cases(CaseTable& table);
void add_elementwise_cases(CaseTable& table);
void add_random_cases(CaseTable& table);
void add_router_cases(CaseTable& table);
void add_balance_cases(CaseTable& table);

inline constexpr std::array kStorageTypes = {DType::kF32, DType::kBF16, DType::kF16};
inline constexpr std::array kFullPrecision = {DType::kF32};
// Of rows with an f32 residual stream beside 16-bit operands.
inline constexpr std::array k16BitTypes = {DType::kBF16, DType::kF16};
// Columns around the borders of vectors, of groups of vectors and of blocks.
inline constexpr std::array<std::int64_t, 12> kOddColumns = {7,  15,  16,  17,   63,   64,
                                                             65, 100, 129, 4095, 4096, 4097};
inline constexpr std::array kActivationKinds = {ActivationKind::kGeluTanh, ActivationKind::kGeluErf,
                                                ActivationKind::kRelu, ActivationKind::kSquaredRelu,
                                                ActivationKind::kSilu};
// Of performance rows.
inline constexpr std::array kTimedTypes = {DType::kF32, DType::kBF16};

// A tolerance of so many units in the last place of f32, and where the output is stored in 16 bits
// also so many of those.
inline double units(const Tensor& output, double full, double storage = 1.0) {
  const double f32 = full * 0x1p-23;
  switch (output.dtype) {
    case DType::kBF16:
      return f32 + storage * 0x1p-7;
    case DType::kF16:
      return f32 + storage * 0x1p-10;
    default:
      return f32;
  }
}

inline Output near(const Tensor& tensor, double full, double storage = 1.0, double floor = 0.0) {
  return {tensor, units(tensor, full, storage), floor};
}

template <typename Op>
std::function<void(Context&)> call_of(void (*front)(Context&, const Op&), const Op& op) {
  return [op, front](Context& context) { front(context, op); };
}

template <typename Op>
Job make_job(const Op& op, void (*front)(Context&, const Op&), std::vector<Output> outputs) {
  return {call_of(front, op), cost(op), std::move(outputs)};
}

}  // namespace phalanx::ops
