// A vocabulary cut over ranks against the whole one.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <ostream>
#include <vector>

#include "phalanx/ops/cases/operands.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/ref_backend.h"

namespace phalanx::ops {
namespace {

struct Setting {
  const char* description;
  bool reference;
  std::int64_t columns, vocabulary;
  double range;  // of the logits
};
constexpr std::int64_t kRows = 13;

std::ostream& operator<<(std::ostream& out, const Setting& setting) {
  return out << (setting.reference ? "Ref" : "Cpu") << setting.description;
}

class CutVocabulary : public testing::TestWithParam<Setting> {
 protected:
  CutVocabulary() {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    whole_.vocabulary = GetParam().vocabulary;
    whole_.loss = operands_.output({kRows});
    whole_.logits = operands_.uniform(operands_.storage(), {kRows, GetParam().columns},
                                      -GetParam().range, GetParam().range);
    operands_.poison(
        whole_.logits.slice(1, whole_.vocabulary, GetParam().columns - whole_.vocabulary));
    // A row with all its probability in the last third, and one without any number for a loss.
    for (std::int64_t column = 0; column < GetParam().vocabulary * 2 / 3; ++column) {
      set(7, column, -kInfinity);
    }
    set(9, whole_.vocabulary / 2, kInfinity);
    set(10, whole_.vocabulary / 2, std::numeric_limits<double>::quiet_NaN());
    whole_.dlogits = operands_.output(whole_.logits.shape);
    whole_.targets = operands_.integers({kRows}, 0, whole_.vocabulary);
    whole_.targets.as<std::int32_t>()[7] = static_cast<std::int32_t>(whole_.vocabulary - 1);
    whole_.mask = operands_.filled(operands_.storage(), {kRows}, 1.0);
    ref::store(whole_.mask.slice(0, 4, 1).data(), whole_.mask.dtype, 0.0);
    whole_.seed = operands_.filled(operands_.storage(), {1}, 0.37);
    cross_entropy(context_, whole_);
  }

  void set(std::int64_t row, std::int64_t column, double value) {
    ref::store(whole_.logits.select(0, row).slice(0, column, 1).data(), whole_.logits.dtype, value);
  }

  // One rank's columns as a matrix of its own.
  Tensor columns_of(std::int64_t first, std::int64_t count) {
    const Tensor part = operands_.output({kRows, count});
    copy(context_, Copy{.destination = part, .source = whole_.logits.slice(1, first, count)});
    return part;
  }

  // Runs the ranks one after the other; their gradients come into dlogits.
  void run(std::int64_t ranks) {
    const std::int64_t columns = GetParam().columns / ranks;
    const Tensor all = operands_.output({ranks, 3, kRows});
    std::vector<Tensor> logits;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      logits.push_back(columns_of(rank * columns, columns));
      cross_entropy_statistics(context_, {.statistics = all.select(0, rank),
                                          .logits = logits.back(),
                                          .targets = whole_.targets,
                                          .first_column = rank * columns,
                                          .vocabulary = whole_.vocabulary});
    }
    dlogits = operands_.output(whole_.logits.shape);
    losses.clear();
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      losses.push_back(operands_.output({kRows}));
      const Tensor part = logits[static_cast<std::size_t>(rank)];
      vocabulary_parallel_cross_entropy(context_, {.loss = losses.back(),
                                                   .dlogits = part,
                                                   .logits = part,
                                                   .statistics = all,
                                                   .targets = whole_.targets,
                                                   .mask = whole_.mask,
                                                   .seed = whole_.seed,
                                                   .first_column = rank * columns,
                                                   .vocabulary = whole_.vocabulary});
      copy(context_,
           Copy{.destination = dlogits.slice(1, rank * columns, columns), .source = part});
    }
  }

  // Relative to the largest; what is not finite is equal.
  static void expect_near(const Tensor& got, const Tensor& expected) {
    const double tolerance = GetParam().reference ? 1e-14 : 1e-6;
    const auto a = ref::read(got).values;
    const auto b = ref::read(expected).values;
    double largest = 0.0;
    for (const double value : b) {
      if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    }
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
      EXPECT_NEAR(a[i], b[i], tolerance * largest) << i;
    }
  }

  const CrossEntropy& whole() const { return whole_; }
  Tensor dlogits;
  std::vector<Tensor> losses;

 private:
  std::unique_ptr<Backend> backend_ =
      GetParam().reference ? make_ref_backend() : make_cpu_backend(2, cpu::ProductPrecision::kFp32);
  Arena arena_{"operands", 4 << 20};
  Arena workspace_{"workspace", 1 << 20};
  Context context_{.backend = *backend_, .workspace = workspace_};
  Operands operands_{arena_, GetParam().reference ? DType::kF64 : DType::kF32, context_};
  CrossEntropy whole_;
};

TEST_P(CutVocabulary, EqualsTheWholeOne) {
  for (const std::int64_t ranks : {1, 2, 3}) {
    SCOPED_TRACE(ranks);
    run(ranks);
    for (const Tensor& loss : losses) {
      expect_near(loss, whole().loss);
      EXPECT_EQ(std::memcmp(loss.data(), losses.front().data(), whole().loss.bytes()), 0);
    }
    expect_near(dlogits, whole().dlogits);
  }
}

// With a vocabulary of 500 the last of two ranks, and the last of three, have padding alone.
std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const bool reference : {false, true}) {
    all.push_back({"Full", reference, 1200, 1200, 4.0});
    all.push_back({"Padded", reference, 1200, 1101, 4.0});
    all.push_back({"PaddingAlone", reference, 1200, 500, 4.0});
    all.push_back({"Extreme", reference, 1200, 1101, 3e4});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Ops, CutVocabulary, testing::ValuesIn(settings()),
                         testing::PrintToStringParamName());

// A label outside of the vocabulary is an error in a row that counts, and is ignored in others.
TEST(CrossEntropyLabels, AreLookedAtWhereTheMaskIsNotZero) {
  for (const bool reference : {false, true}) {
    const auto backend =
        reference ? make_ref_backend() : make_cpu_backend(1, cpu::ProductPrecision::kFp32);
    Arena arena("operands", 1 << 20);
    Arena workspace("workspace", 1 << 20);
    Context context{.backend = *backend, .workspace = workspace};
    Operands operands(arena, DType::kF32, context);
    for (const std::int32_t label : {-1, 5}) {
      CrossEntropy op;
      op.loss = operands.output({3});
      op.logits = operands.uniform({3, 7});
      op.targets = operands.integers({3}, 0, 5);
      op.targets.as<std::int32_t>()[1] = label;
      op.mask = operands.filled(DType::kF32, {3}, 1.0);
      op.vocabulary = 5;
      const CrossEntropyStatistics statistics{.statistics = operands.output({3, 3}),
                                              .logits = op.logits,
                                              .targets = op.targets,
                                              .mask = op.mask,
                                              .vocabulary = 5};
      EXPECT_THROW(cross_entropy(context, op), InternalError);
      EXPECT_THROW(cross_entropy_statistics(context, statistics), InternalError);
      op.mask.as<float>()[1] = 0.0F;
      cross_entropy(context, op);
      cross_entropy_statistics(context, statistics);
      EXPECT_EQ(op.loss.as<float>()[1], 0.0F);
      EXPECT_GT(op.loss.as<float>()[0], 0.0F);
    }
  }
}

// Kernels are compiled for these pairs alone.
TEST(CrossEntropyTypes, AreOneOrHaveLogitsInFullPrecision) {
  const auto backend = make_cpu_backend(1, cpu::ProductPrecision::kFp32);
  Arena arena("operands", 1 << 20);
  Arena workspace("workspace", 1 << 20);
  Context context{.backend = *backend, .workspace = workspace};
  Operands operands(arena, DType::kF32, context);
  CrossEntropy op;
  op.loss = operands.output({3});
  op.targets = operands.integers({3}, 0, 5);
  op.mask = operands.filled(DType::kF32, {3}, 1.0);
  op.seed = operands.filled(DType::kF32, {1}, 1.0);
  op.vocabulary = 5;
  for (const DType logits : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const DType gradient : {DType::kF32, DType::kBF16, DType::kF16}) {
      op.logits = operands.filled(logits, {3, 5}, 1.0);
      op.dlogits = operands.filled(gradient, {3, 5}, 0.0);
      if (logits == DType::kF32 || logits == gradient) {
        cross_entropy(context, op);
        EXPECT_NEAR(op.loss.as<float>()[0], std::log(5.0), 1e-6);
      } else {
        EXPECT_THROW(cross_entropy(context, op), InternalError);
      }
    }
  }
}

}  // namespace
}  // namespace phalanx::ops
