// Golden numbers of attention to keys in parts, from a computation in double; results in full
// precision.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/ops/cases/operands.h"
#include "phalanx/ops/cpu/precision.h"
#include "phalanx/ops/parts_test_support.h"

namespace phalanx::ops::parts {
namespace {

using cpu::ProductPrecision;

Sample golden_sample() {
  Sample sample(8, 1, 2, 1, 2);
  sample.scale = 1.0 / std::sqrt(2.0);
  for (std::int64_t i = 0; i < 8; ++i) {
    for (std::int64_t c = 0; c < 2; ++c) {
      const auto row = static_cast<double>(i);
      const auto column = static_cast<double>(c);
      sample.key(i, 0, 0, c) = std::cos(0.4 * row + 0.6 * column);
      sample.value(i, 0, 0, c) = std::sin(0.3 * row * (column + 1.0) + 0.4);
      for (std::int64_t h = 0; h < 2; ++h) {
        const auto head = static_cast<double>(h);
        sample.query(i, 0, h, c) = std::sin(0.7 * row + 1.3 * head + 0.5 * column);
        sample.dout(i, 0, h, c) = std::cos(0.5 * row + 0.8 * head - 0.3 * column);
      }
    }
  }
  return sample;
}
Sample golden_documents() {
  Sample sample = golden_sample();
  sample.document = {0, 0, 0, 1, 1, 1, 1, -1};
  sample.mask.documents = true;
  return sample;
}

// The numbers of head 0 of [s, 1, heads, d], or of [1, heads, s].
Numbers first_head(const Array& x) {
  const bool statistics = x.shape.rank() == 3;
  Numbers numbers;
  const std::int64_t rows = statistics ? x.shape[2] : x.shape[0];
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t c = 0; c < (statistics ? 1 : x.shape[3]); ++c) {
      numbers.push_back(statistics ? x(0, 0, i) : x(i, 0, 0, c));
    }
  }
  return numbers;
}

void expect_numbers(const Numbers& got, const Numbers& expected, double bound, const char* what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (expected[i] == kUnseen) {
      EXPECT_EQ(got[i], kUnseen) << what << " " << i;
    } else {
      EXPECT_NEAR(got[i], expected[i], bound) << what << " " << i;
    }
  }
}

// The sum of x_m cos(m) over all elements, -infinity as 0.
double check_sum(const Array& x) {
  double sum = 0.0;
  for (std::size_t m = 0; m < x.values.size(); ++m) {
    if (x.values[m] != kUnseen) sum += x.values[m] * std::cos(static_cast<double>(m));
  }
  return sum;
}
Numbers check_sums(const Results& results) {
  return {check_sum(results.out), check_sum(results.lse), check_sum(results.dquery),
          check_sum(results.dkey), check_sum(results.dvalue)};
}

constexpr double kDigits7 = 5.1e-8;
constexpr double kDigits9 = 5.1e-10;

void expect_two_ranks(RingMachine machine, double bound) {
  Parts parts;
  const Results joined = machine.ring(golden_sample(), 2, parts);
  const auto expect_forward = [&](const Part& part, const Numbers& lse, const Numbers& out) {
    expect_numbers(first_head(part.lse), lse, bound, "lse of a part");
    expect_numbers(first_head(part.out), out, bound, "out of a part");
  };
  expect_forward(parts[0][0], {.2797929, 1.5869593, 1.3507509, 1.9229463},
                 {.3894183, .3894183, .5026205, .5902562, .7593304, -.507184, .6793938, -.7248216});
  expect_forward(parts[0][1], {kUnseen, kUnseen, 1.6917014, 1.6058304},
                 {0, 0, 0, 0, .9532875, .229911, .9525826, .2407924});
  expect_forward(parts[1][0], {.5992089, 1.0210681, 1.2045793, 1.5962058},
                 {.841471, .9995736, .8919736, .9205326, .9326484, .7242419, .9484916, .3276115});
  expect_forward(parts[1][1], {1.8268896, 1.5312227, .8445281, .0931905},
                 {.5012432, .5878126, .5071491, .5982905, .5176522, .6169246, .5277546, .6348478});
  const auto expect_dkey = [&](const Part& part, const Numbers& expected) {
    expect_numbers(first_head(part.dkey), expected, bound, "dkey of a part");
  };
  expect_dkey(parts[0][0], {-.1239263, -.136815, .1881518, .1713174, -.3234874, -.2427029,
                            -.1700762, -.1026179});
  expect_dkey(parts[1][1], {-.1814268, -.2193429, .0582361, .0474972, 0, 0, 0, 0});
  expect_dkey(parts[1][0],
              {.1557676, .1778524, .1199627, .1526958, .0021869, .0007425, -.1547265, -.1594451});
  expect_dkey(parts[0][1],
              {.1256503, .0723112, .1717457, .1183976, .1489962, .1190379, -.0170542, .0010716});

  Numbers lse = {.2797929,  1.5869593, 2.0838325, 2.001478,  1.7338187, 1.7970697,
                 2.2288344, 2.4700535, 1.2496764, 1.6033645, 1.3415742, 1.1208884,
                 1.3343512, 1.7556145, 1.9450284, 2.0097259};
  expect_numbers(joined.lse.values, lse, bound, "lse");
  expect_numbers(first_head(joined.out),
                 {.3894183, .3894183, .5026205, .5902562, .5783346, .6811126, .6515188, .7191819,
                  .7621069, .6801401, .8719275, .3835212, .8726831, -.0764099, .7945098, -.3179323},
                 bound, "out");
  expect_numbers(
      first_head(joined.delta),
      {.7614439, 1.0195814, .8334191, .3066878, -.4047807, -.9242418, -.7948696, -.4266338}, bound,
      "delta");
  expect_numbers(first_head(joined.dquery),
                 {0, 0, -.0091873, -.0331735, -.0217432, -.0513308, -.0099417, -.0205626, .0192657,
                  .0307689, -.0452015, -.0297134, -.1927734, -.1426967, -.2831251, -.1803893},
                 bound, "dquery");
  expect_numbers(
      joined.dvalue.values,
      {1.9276465, 2.6495329, -.0277601, .5040525, -.7772484, -.4389275, -1.1403946, -.9269566,
       -1.3394533, -1.2259629, -1.2410091, -1.2268891, -.8060919, -.8549446, -.3015483, -.3457752},
      bound, "dvalue");
}

void expect_four_ranks(RingMachine machine, double bound) {
  Parts parts;
  (void)machine.ring(golden_sample(), 4, parts);
  Numbers row7, row3;
  for (std::size_t i = 0; i < 4; ++i) {
    row7.push_back(parts[0][i].lse(0, 0, 1));
    row3.push_back(parts[3][i].lse(0, 0, 0));
  }
  expect_numbers(row7, {1.2758246, .8275832, .9911057, 1.1815526}, bound, "row 7");
  expect_numbers(row3, {.1383579, .4872122, .7591463, .911228}, bound, "row 3");
}

void expect_documents(RingMachine machine, double bound) {
  Parts parts;
  (void)machine.ring(golden_documents(), 2, parts);
  const auto lse = [&](std::size_t r, std::size_t i) { return first_head(parts[r][i].lse); };
  expect_numbers(lse(0, 0), {.2797929, 1.5869593, 1.1544303, kUnseen}, bound, "rank 0, step 0");
  expect_numbers(lse(0, 1), {kUnseen, kUnseen, 1.5792883, kUnseen}, bound, "rank 0, step 1");
  expect_numbers(lse(1, 1), {1.8268896, kUnseen, kUnseen, kUnseen}, bound, "rank 1, step 1");
}

void expect_check_sums(RingMachine machine, double bound) {
  Sample window = golden_sample();
  window.mask.window = 3;
  const std::vector<std::pair<Sample, Numbers>> cases = {
      {golden_sample(), {.299845279, .362202503, .054352948, -.871673415, 2.574643716}},
      {golden_documents(), {.769892951, 1.630608147, -.104128077, -.466859114, 1.936377894}},
      {window, {-.074830597, .883086450, .013749212, -.801750660, 2.783755540}}};
  Parts parts;
  for (const auto& [sample, expected] : cases) {
    for (const std::int64_t ranks : {1, 2, 4}) {
      expect_numbers(check_sums(machine.ring(sample, ranks, parts)), expected, bound, "check sum");
    }
    expect_numbers(check_sums(machine.dense(sample)), expected, bound, "check sum, dense");
  }
}

TEST(AttentionInParts, OfTwoRanksHasTheGoldenNumbers) {
  expect_two_ranks(in_double(), kDigits7);
  expect_two_ranks(in_float(), 1e-5);
}

TEST(AttentionInParts, OfFourRanksHasTheGoldenNumbers) {
  expect_four_ranks(in_double(), kDigits7);
  expect_four_ranks(in_float(), 1e-5);
}

TEST(AttentionInParts, OfDocumentsHasTheGoldenNumbers) {
  expect_documents(in_double(), kDigits7);
  expect_documents(in_float(), 1e-5);
}

TEST(AttentionInParts, HasTheGoldenCheckSums) {
  expect_check_sums(in_double(), kDigits9);
  expect_check_sums(in_float(), 1e-5);
}

// Beside operands of 16 bits they are what storage would round; dquery gets it added once.
TEST(AttentionInParts, FullPrecisionIsWhatStorageRounds) {
  for (const ProductPrecision products :
       {ProductPrecision::kFp32, ProductPrecision::kBf16, ProductPrecision::kAmx}) {
    if (!cpu::has_products(products)) continue;
    const auto backend = make_cpu_backend(2, products);
    Arena memory("operands", 16 << 20), workspace("workspace", 16 << 20);
    Context context{.backend = *backend, .workspace = workspace};
    Operands operands(memory, DType::kBF16, context);
    const Shape heads{70, 2, 4, 24}, groups{300, 2, 2, 24}, statistics{2, 4, 70};
    AttentionInputs in;
    in.query = operands.uniform(heads);
    in.key = operands.uniform(groups);
    in.value = operands.uniform(groups);
    in.query_rows = operands.rows(70, 2);
    in.key_rows = operands.rows(300, 2);
    in.scale = 0.2;
    const Tensor dout = operands.uniform(heads);
    const Tensor delta = operands.output(DType::kF32, statistics);
    const auto run = [&](DType type, bool adds) {
      const Tensor out = operands.output(type, heads);
      const Tensor lse = operands.output(DType::kF32, statistics);
      const Tensor dquery = operands.filled(type, heads, 0.25);
      const Tensor dkey = operands.output(type, groups);
      const Tensor dvalue = operands.output(type, groups);
      attention_forward(context, {out, lse, in});
      if (type == DType::kBF16) attention_delta(context, {delta, out, dout});
      attention_backward(context, {dquery, dkey, dvalue, {}, dout, lse, delta, in, adds});
      return std::vector<Array>{ref::read(out), ref::read(dquery), ref::read(dkey),
                                ref::read(dvalue)};
    };
    const auto stored = run(DType::kBF16, false);
    const auto full = run(DType::kF32, false);
    const auto added = run(DType::kF32, true);
    for (std::size_t i = 0; i < stored.size(); ++i) {
      int rounded = 0;
      for (std::size_t n = 0; n < stored[i].values.size(); ++n) {
        const double exact = full[i].values[n];
        ASSERT_EQ(ref::round_to(DType::kBF16, exact), stored[i].values[n]);
        rounded += exact != stored[i].values[n] ? 1 : 0;
        const float before = i == 1 ? 0.25F : 0.0F;
        ASSERT_EQ(added[i].values[n], before + static_cast<float>(exact));
      }
      EXPECT_GT(rounded, 0);
    }
  }
}

TEST(AttentionInParts, OnlyDqueryInFullPrecisionIsAddedTo) {
  const auto backend = make_ref_backend();
  Arena memory("operands", 1 << 20), workspace("workspace", 1 << 20);
  Context context{.backend = *backend, .workspace = workspace};
  Operands operands(memory, DType::kBF16, context);
  AttentionBackward op;
  op.in.query = op.in.key = op.in.value = op.dout = operands.uniform({4, 1, 1, 8});
  op.in.query_rows = op.in.key_rows = operands.rows(4, 1);
  op.dquery = op.dkey = op.dvalue = operands.output({4, 1, 1, 8});
  op.lse = op.delta = operands.filled(DType::kF32, {1, 1, 4}, 0.0);
  EXPECT_NO_THROW(attention_backward(context, op));
  op.adds_to_dquery = true;
  EXPECT_THROW(attention_backward(context, op), InternalError);
}

}  // namespace
}  // namespace phalanx::ops::parts
