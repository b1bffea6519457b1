// Cases that the case table does not reach: long keys (several blocks and both passes), extreme
// numbers, generation, and agreement of the two attentions.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "phalanx/ops/cases/compare.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/ref_backend.h"

namespace phalanx::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Extents {
  std::int64_t sq = 1, sk = 1, b = 1, heads = 1, groups = 1, d = 16;
};

// Operands and results in f32; results are NaN before a run.
class Attention {
 public:
  explicit Attention(const Extents& extents)
      : e_(extents), arena_("operands", 64 << 20), workspace_("workspace", 256 << 20) {
    in.query = random({e_.sq, e_.b, e_.heads, e_.d});
    in.key = random({e_.sk, e_.b, e_.groups, e_.d});
    in.value = random({e_.sk, e_.b, e_.groups, e_.d});
    in.query_rows = rows(e_.sq, e_.sk - e_.sq);
    in.key_rows = rows(e_.sk, 0);
    in.mask.causal = true;
    in.scale = 1.0 / std::sqrt(static_cast<double>(e_.d));
    dout = random({e_.sq, e_.b, e_.heads, e_.d});
    out = poisoned(dout.shape);
    lse = poisoned({e_.b, e_.heads, e_.sq});
    delta = poisoned(lse.shape);
    dquery = poisoned(in.query.shape);
    dkey = poisoned(in.key.shape);
    dvalue = poisoned(in.value.shape);
  }

  void add_bias() {
    in.bias = random({e_.heads, e_.sq, e_.sk});
    dbias = random(in.bias.shape);
  }

  void run_forward(Backend& backend) {
    Context context{.backend = backend, .workspace = workspace_};
    ops::attention_forward(context, {out, lse, in});
  }
  void run(Backend& backend) {
    run_forward(backend);
    Context context{.backend = backend, .workspace = workspace_};
    ops::attention_delta(context, {delta, out, dout});
    ops::attention_backward(context, {dquery, dkey, dvalue, dbias, dout, lse, delta, in});
  }
  void run_unfused(Backend& backend) {
    Context context{.backend = backend, .workspace = workspace_};
    const Tensor probabilities = poisoned({e_.b, e_.heads, e_.sq, e_.sk});
    ops::unfused_attention_forward(context, {out, probabilities, in});
    ops::unfused_attention_backward(context,
                                    {dquery, dkey, dvalue, dbias, dout, probabilities, in});
  }

  // Output and gradients, one after the other.
  std::vector<float> results() const {
    std::vector<float> all;
    for (const Tensor& tensor : {out, dquery, dkey, dvalue, dbias}) {
      if (!tensor) continue;
      all.insert(all.end(), tensor.span<float>().begin(), tensor.span<float>().end());
    }
    return all;
  }

  ops::AttentionInputs in;
  Tensor dout, out, lse, delta, dquery, dkey, dvalue, dbias;

 private:
  Tensor random(const Shape& shape) {
    const Tensor tensor = arena_.allocate(DType::kF32, shape);
    for (float& x : tensor.span<float>()) {
      x = static_cast<float>(4.0 * uniform_double(philox4x32({1, 2}, {counter_++, 0, 0, 0})[0], 0) -
                             2.0);
    }
    return tensor;
  }
  Tensor poisoned(const Shape& shape) {
    const Tensor tensor = arena_.allocate(DType::kF32, shape);
    for (float& x : tensor.span<float>()) x = kNan;
    return tensor;
  }
  RowCoordinates rows(std::int64_t s, std::int64_t first) {
    const RowCoordinates result{arena_.allocate(DType::kI64, {s, e_.b}),
                                arena_.allocate(DType::kI32, {s, e_.b}),
                                arena_.allocate(DType::kI32, {s, e_.b})};
    for (std::int64_t i = 0; i < s * e_.b; ++i) {
      result.sample.as<std::int64_t>()[i] = (std::int64_t{5} << 32) + i % e_.b;
      result.position.as<std::int32_t>()[i] = static_cast<std::int32_t>(first + i / e_.b);
      result.document.as<std::int32_t>()[i] = 0;
    }
    return result;
  }

  Extents e_;
  Arena arena_;
  Arena workspace_;
  std::uint32_t counter_ = 0;
};

std::unique_ptr<Backend> cpu_backend(int threads) {
  return make_cpu_backend(threads, ProductPrecision::kFp32);
}

void expect_near(const std::vector<float>& got, const std::vector<float>& expected, double bound) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], expected[i], bound) << "element " << i;
  }
}

// Few heads and many keys, so that the backward runs two passes. With a bias gradient it also takes
// one sample after the other.
struct LongCase {
  Extents extents;
  bool causal, bias;
};
class LongAttention : public testing::TestWithParam<LongCase> {
 protected:
  static void prepare(Attention& attention) {
    attention.in.mask.causal = GetParam().causal;
    attention.in.dropout = {.probability = 0.1, .key = {3, 4}, .site = 7 << 16};
    if (GetParam().bias) attention.add_bias();
  }
};

TEST_P(LongAttention, MatchesTheReference) {
  Attention got(GetParam().extents);
  prepare(got);
  got.run(*cpu_backend(2));
  Attention expected(GetParam().extents);
  prepare(expected);
  expected.run(*make_ref_backend());
  expect_near(got.results(), expected.results(), 5e-5);
}

TEST_P(LongAttention, UnfusedAgreesWithFused) {
  Attention fused(GetParam().extents);
  prepare(fused);
  fused.run(*cpu_backend(2));
  Attention unfused(GetParam().extents);
  prepare(unfused);
  unfused.run_unfused(*cpu_backend(2));
  expect_near(unfused.results(), fused.results(), 5e-5);
}

TEST_P(LongAttention, BitsDoNotDependOnThreads) {
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 2, 3}) {
    Attention attention(GetParam().extents);
    prepare(attention);
    attention.run(*cpu_backend(threads));
    results.push_back(attention.results());
    ASSERT_EQ(
        std::memcmp(results[0].data(), results.back().data(), results[0].size() * sizeof(float)), 0)
        << threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, LongAttention,
    testing::Values(
        LongCase{{.sq = 520, .sk = 520, .heads = 1, .d = 24}, true, false},
        LongCase{{.sq = 300, .sk = 1100, .b = 2, .heads = 3, .groups = 1, .d = 8}, true, false},
        LongCase{{.sq = 5, .sk = 777, .heads = 2, .d = 20}, false, false},
        LongCase{{.sq = 70, .sk = 530, .b = 3, .heads = 2, .groups = 2, .d = 8}, false, true}));

TEST(CpuAttention, OneQueryAtATimeGivesTheSameRows) {
  const Extents all{.sq = 150, .sk = 150, .b = 2, .heads = 4, .groups = 2, .d = 32};
  const auto backend = cpu_backend(1);
  Attention whole(all);
  whole.run_forward(*backend);
  for (const std::int64_t query : {0, 1, 63, 64, 149}) {
    Attention one(all);
    one.in.query = one.in.query.slice(0, query, 1);
    one.out = one.out.slice(0, query, 1);
    one.lse = one.lse.slice(2, query, 1);
    for (Tensor* rows :
         {&one.in.query_rows.sample, &one.in.query_rows.position, &one.in.query_rows.document}) {
      *rows = rows->slice(0, query, 1);
    }
    one.run_forward(*backend);
    const Tensor expected = whole.out.slice(0, query, 1);
    for (std::int64_t i = 0; i < expected.count(); ++i) {
      ASSERT_NEAR(one.out.as<float>()[i], expected.as<float>()[i], 2e-6) << "query " << query;
    }
  }
}

// Context parallelism: some queries of a sample, in order, against all keys have the bits that they
// have among all queries.
struct SomeQueriesCase {
  Extents extents;
  ops::AttentionMask mask;
  std::int64_t first_skipped;  // and all behind it, but for the last ones
  std::int64_t step;           // between queries that are kept
};
class SomeQueries : public testing::TestWithParam<SomeQueriesCase> {
 protected:
  static std::vector<std::int64_t> kept() {
    const SomeQueriesCase& c = GetParam();
    std::vector<std::int64_t> rows;
    for (std::int64_t i = 0; i < c.extents.sq; i += c.step) {
      const bool skipped = i >= c.first_skipped && i < c.extents.sq - c.first_skipped;
      if (!skipped) rows.push_back(i);
    }
    return rows;
  }
  static void prepare(Attention& attention) {
    attention.in.mask = GetParam().mask;
    const std::int64_t b = GetParam().extents.b;
    for (const RowCoordinates* rows : {&attention.in.query_rows, &attention.in.key_rows}) {
      std::int64_t i = 0;
      for (std::int32_t& document : rows->document.span<std::int32_t>()) {
        document = static_cast<std::int32_t>(i++ / b / 97);
      }
    }
    // Rows of the first sample that are no key of anybody.
    for (std::int64_t i = 40; i < 50; ++i) {
      attention.in.key_rows.document.as<std::int32_t>()[i * b] = -1;
    }
  }
  static std::vector<double> rows_of(const Tensor& tensor, int dim,
                                     const std::vector<std::int64_t>& rows) {
    std::vector<double> values;
    for (const std::int64_t row : rows) {
      const ref::Array part = ref::read(tensor.slice(dim, row, 1));
      values.insert(values.end(), part.values.begin(), part.values.end());
    }
    return values;
  }
};

TEST_P(SomeQueries, HaveTheBitsOfAllQueries) {
  const std::vector<std::int64_t> rows = kept();
  Attention whole(GetParam().extents);
  prepare(whole);
  whole.run(*cpu_backend(2));
  Attention some(GetParam().extents);
  prepare(some);
  // The rows that are kept, moved to the front.
  const auto keep = [&](Tensor& tensor, int dim) {
    std::int64_t n = 0;
    for (const std::int64_t row : rows) {
      const Tensor from = tensor.slice(dim, row, 1);
      const Tensor to = tensor.slice(dim, n++, 1);
      if (is_floating(tensor.dtype)) {
        ref::write(to, ref::read(from));
      } else {
        ref::write_integers(to, ref::read_integers(from));
      }
    }
    tensor = tensor.slice(dim, 0, n);
  };
  for (Tensor* tensor : {&some.in.query, &some.dout, &some.in.query_rows.sample,
                         &some.in.query_rows.position, &some.in.query_rows.document}) {
    keep(*tensor, 0);
  }
  std::vector<std::int64_t> front(rows.size());
  for (std::size_t i = 0; i < front.size(); ++i) front[i] = static_cast<std::int64_t>(i);
  for (Tensor* tensor : {&some.out, &some.dquery}) *tensor = tensor->slice(0, 0, front.size());
  for (Tensor* tensor : {&some.lse, &some.delta}) *tensor = tensor->slice(2, 0, front.size());
  for (const int threads : {1, 4}) {
    some.run(*cpu_backend(threads));
    EXPECT_EQ(rows_of(some.out, 0, front), rows_of(whole.out, 0, rows));
    EXPECT_EQ(rows_of(some.lse, 2, front), rows_of(whole.lse, 2, rows));
    EXPECT_EQ(rows_of(some.dquery, 0, front), rows_of(whole.dquery, 0, rows));
  }
}

constexpr ops::AttentionMask kCausalMask{.causal = true};
INSTANTIATE_TEST_SUITE_P(
    Shapes, SomeQueries,
    testing::Values(
        SomeQueriesCase{{.sq = 64, .sk = 64, .b = 2, .heads = 2, .groups = 2}, kCausalMask, 16, 1},
        SomeQueriesCase{
            {.sq = 600, .sk = 600, .heads = 4, .groups = 2, .d = 24}, kCausalMask, 150, 1},
        SomeQueriesCase{{.sq = 600, .sk = 600, .heads = 3, .d = 20}, kCausalMask, 600, 7},
        SomeQueriesCase{{.sq = 530, .sk = 530, .b = 2, .heads = 2, .d = 40},
                        {.causal = true, .documents = true},
                        130,
                        1},
        SomeQueriesCase{
            {.sq = 530, .sk = 530, .heads = 2, .d = 16}, {.causal = true, .window = 70}, 100, 3},
        SomeQueriesCase{{.sq = 520, .sk = 520, .heads = 2, .d = 32}, {.documents = true}, 65, 1}));

// Tensor parallelism: a rank has some heads, not always from head 0 on.
class SomeHeads : public testing::TestWithParam<std::int64_t> {
 protected:
  static constexpr std::int64_t kHeads = 4;

  static Extents extents(std::int64_t heads) {
    return {.sq = 70, .sk = 90, .b = 2, .heads = heads, .groups = heads, .d = 24};
  }
  static Tensor heads_of(const Tensor& tensor) {
    return tensor.slice(2, GetParam(), kHeads - GetParam());
  }
  static void expect_equal(const Attention& part, const Attention& whole) {
    const auto same = [](const Tensor& got, const Tensor& all) {
      EXPECT_EQ(ref::read(got).values, ref::read(heads_of(all)).values);
    };
    same(part.out, whole.out);
    same(part.dquery, whole.dquery);
    same(part.dkey, whole.dkey);
    same(part.dvalue, whole.dvalue);
  }

  SomeHeads() : whole(extents(kHeads)), part(extents(kHeads - GetParam())) {
    whole.in.dropout = {.probability = 0.3, .key = {3, 4}, .site = 7 << 16};
    part.in = whole.in;
    part.in.query = heads_of(whole.in.query);
    part.in.key = heads_of(whole.in.key);
    part.in.value = heads_of(whole.in.value);
    part.dout = heads_of(whole.dout);
    part.in.dropout.site += static_cast<std::uint32_t>(GetParam());
  }

  Attention whole, part;
};

TEST_P(SomeHeads, HaveTheBitsOfAllHeads) {
  const auto backend = cpu_backend(2);
  whole.run(*backend);
  part.run(*backend);
  expect_equal(part, whole);
}

TEST_P(SomeHeads, HaveTheBitsOfAllHeadsUnfused) {
  for (const auto& backend : {cpu_backend(1), make_ref_backend()}) {
    whole.run_unfused(*backend);
    part.run_unfused(*backend);
    expect_equal(part, whole);
  }
}

INSTANTIATE_TEST_SUITE_P(First, SomeHeads, testing::Values(1, 2));

TEST(CpuAttention, LargeScoresStayFinite) {
  Attention attention({.sq = 70, .sk = 70, .heads = 2, .d = 16});
  attention.in.scale = 1e4;
  attention.run(*cpu_backend(2));
  EXPECT_THAT(attention.results(),
              testing::Each(testing::Truly([](float x) { return std::isfinite(x); })));
}

TEST(CpuAttention, ContentOfPaddingIsIgnored) {
  const Extents extents{.sq = 40, .sk = 90, .heads = 2, .d = 16};
  Attention clean(extents);
  Attention dirty(extents);
  for (Attention* attention : {&clean, &dirty}) {
    for (std::int64_t key = 60; key < 90; ++key) {
      attention->in.key_rows.document.as<std::int32_t>()[key] = -1;
    }
  }
  for (const Tensor& tensor : {dirty.in.key, dirty.in.value}) {
    for (float& x : tensor.span<float>().subspan(60 * 16)) x = kNan;
  }
  clean.run(*cpu_backend(2));
  dirty.run(*cpu_backend(2));
  EXPECT_EQ(clean.results(), dirty.results());
}

// Keys of another document lie between visible keys, in whole groups and in part of one.
TEST(CpuAttention, DocumentsMayAlternate) {
  const Extents extents{.sq = 20, .sk = 48, .heads = 2, .d = 16};
  Attention got(extents);
  Attention expected(extents);
  for (Attention* attention : {&got, &expected}) {
    attention->in.mask = {.documents = true};
    for (std::int64_t key = 0; key < 48; ++key) {
      const bool other = (key >= 16 && key < 32) || key == 33;
      attention->in.key_rows.document.as<std::int32_t>()[key] = other ? 1 : 0;
    }
  }
  got.run(*cpu_backend(1));
  expected.run(*make_ref_backend());
  expect_near(got.results(), expected.results(), 1e-5);
}

TEST(CpuAttention, AnInfiniteBiasHidesKeys) {
  const Extents extents{.sq = 33, .sk = 33, .heads = 1, .d = 8};
  Attention attention(extents);
  attention.in.mask.causal = false;
  attention.add_bias();
  for (float& x : attention.in.bias.span<float>().subspan(4 * 33, 33)) x = -kInfinity;
  attention.run(*cpu_backend(1));
  EXPECT_EQ(attention.lse.as<float>()[4], -kInfinity);
  for (std::int64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(attention.out.as<float>()[4 * 8 + i], 0.0F);
    EXPECT_EQ(attention.dquery.as<float>()[4 * 8 + i], 0.0F);
  }
}

TEST(CpuAttention, NanReachesTheOutput) {
  Attention attention({.sq = 33, .sk = 33, .heads = 1, .d = 8});
  attention.in.key.as<float>()[20 * 8] = kNan;
  attention.run_forward(*cpu_backend(1));
  EXPECT_TRUE(std::isfinite(attention.out.as<float>()[19 * 8]));
  EXPECT_TRUE(std::isnan(attention.out.as<float>()[20 * 8]));
  EXPECT_TRUE(std::isnan(attention.out.as<float>()[32 * 8]));
}

// NaN with every possible payload bit, in every second query row.
TEST(CpuAttention, NanWithAnyPayloadReachesItsRows) {
  constexpr std::int64_t kRows = 96, kWidth = 8;
  Attention attention({.sq = kRows, .sk = kRows, .heads = 1, .d = kWidth});
  for (std::int64_t row = 1; row < kRows; row += 2) {
    const auto payload = 1U << (row / 4 % 23);
    const auto sign = row % 4 == 1 ? 0x7f800000U : 0xff800000U;
    attention.in.query.as<float>()[row * kWidth] = std::bit_cast<float>(sign | payload);
  }
  const auto expect_rows = [](const Tensor& tensor) {
    for (std::int64_t i = 0; i < tensor.count(); ++i) {
      ASSERT_EQ(std::isnan(tensor.as<float>()[i]), i / kWidth % 2 == 1) << "row " << i / kWidth;
    }
  };
  attention.run(*cpu_backend(2));
  expect_rows(attention.out);
  expect_rows(attention.dquery);
  std::ranges::fill(attention.dquery.span<float>(), 0.0F);
  attention.run_unfused(*cpu_backend(2));
  expect_rows(attention.out);
  expect_rows(attention.dquery);
}

// Calls check(row) for attention's rows of the case table, if kernels multiply bf16 here.
template <typename Check>
void for_each_bf16_case(const Check& check) {
  if (active_target() < Target::kAvx512Bf16) {
    GTEST_SKIP() << "target " << name_of(active_target()) << " has no products of bf16";
  }
  int rows = 0;
  for (const ops::Case& row : ops::make_case_table().tests) {
    if (row.op.find("attention") == std::string::npos) continue;
    check(row);
    ++rows;
  }
  EXPECT_GT(rows, 0);
}

TEST(CpuAttentionBf16Products, MatchTheReference) {
  const auto backend = make_cpu_backend(2, ProductPrecision::kBf16);
  for_each_bf16_case([&](const ops::Case& row) {
    EXPECT_EQ(ops::compare_with_reference(row, DType::kBF16, {*backend}), "");
  });
}

TEST(CpuAttentionBf16Products, GiveTheSameBitsForAnyThreads) {
  const auto one = make_cpu_backend(1, ProductPrecision::kBf16);
  const auto five = make_cpu_backend(5, ProductPrecision::kBf16);
  for_each_bf16_case([&](const ops::Case& row) {
    EXPECT_EQ(ops::compare_bits(row, DType::kBF16, {*one}, {*five}), "");
  });
}

// Products of bf16 are used for bf16 storage only.
TEST(CpuAttentionBf16Products, AreUsedForBf16StorageOnly) {
  const auto fp32 = make_cpu_backend(1, ProductPrecision::kFp32);
  const auto bf16 = make_cpu_backend(1, ProductPrecision::kBf16);
  int different = 0;
  for_each_bf16_case([&](const ops::Case& row) {
    EXPECT_EQ(ops::compare_bits(row, DType::kF32, {*fp32}, {*bf16}), "");
    EXPECT_EQ(ops::compare_bits(row, DType::kF16, {*fp32}, {*bf16}), "");
    different += ops::compare_bits(row, DType::kBF16, {*fp32}, {*bf16}).empty() ? 0 : 1;
  });
  if (active_target() >= Target::kAvx512Bf16) {
    EXPECT_GT(different, 0);
  }
}

TEST(CpuAttention, RefusesRowsThatAreNotDense) {
  Attention attention({.sq = 2, .sk = 2, .heads = 1, .d = 8});
  attention.in.query.strides[3] = 2;
  EXPECT_THROW(attention.run_forward(*cpu_backend(1)), InternalError);
}

}  // namespace
}  // namespace phalanx::cpu
