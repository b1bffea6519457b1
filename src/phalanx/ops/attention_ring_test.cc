// Attention to keys in parts against attention to all keys at once.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/ops/cpu/precision.h"
#include "phalanx/ops/parts_test_support.h"

namespace phalanx::ops::parts {
namespace {

using cpu::ProductPrecision;

class RandomNumbers {
 public:
  explicit RandomNumbers(std::uint32_t seed) : seed_(seed) {}

  double uniform(double low, double high) {
    return low + (high - low) * uniform_double(philox4x32({seed_, 5}, {count_++, 0, 0, 0})[0], 0);
  }
  std::int64_t below(std::int64_t n) {
    return std::min(n - 1, static_cast<std::int64_t>(uniform(0.0, static_cast<double>(n))));
  }
  std::int64_t one_of(std::initializer_list<std::int64_t> values) {
    return values.begin()[below(static_cast<std::int64_t>(values.size()))];
  }

 private:
  std::uint32_t seed_;
  std::uint32_t count_ = 0;
};

// Documents of any lengths, padding at the end, windows, grouped heads, dropout.
Sample random_sample(RandomNumbers& random, std::int64_t s, std::int64_t d) {
  const std::int64_t groups = random.one_of({1, 2});
  Sample sample(s, random.one_of({1, 2}), groups * random.one_of({1, 3}), groups, d);
  for (Array* array : {&sample.query, &sample.key, &sample.value, &sample.dout}) {
    for (double& x : array->values) x = random.uniform(-2.0, 2.0);
  }
  sample.scale = 1.0 / std::sqrt(static_cast<double>(d));
  sample.mask.causal = random.below(4) > 0;
  sample.mask.documents = random.below(2) == 0;
  if (sample.mask.causal && random.below(2) == 0) sample.mask.window = 1 + random.below(s);
  const std::int64_t batch = sample.query.shape[1];
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t padding = random.below(3) == 0 ? random.below(s) : 0;
    std::int32_t document = 0;
    for (std::int64_t i = 0; i < s; ++i) {
      if (random.below(s) < 3) ++document;
      sample.document[static_cast<std::size_t>(i * batch + b)] = i < s - padding ? document : -1;
    }
  }
  if (random.below(3) == 0) {
    sample.dropout = {.probability = 0.3, .key = {3, 4}, .site = 7 << 16};
  }
  return sample;
}

void expect_near(const Array& got, const Array& expected, double bound, const std::string& what) {
  ASSERT_EQ(got.values.size(), expected.values.size());
  for (std::size_t i = 0; i < got.values.size(); ++i) {
    if (got.values[i] == expected.values[i]) continue;  // also where both are infinite
    ASSERT_NEAR(got.values[i], expected.values[i], bound) << what << " " << i;
  }
}

void expect_near(const Results& got, const Results& expected, double bound,
                 const std::string& name) {
  expect_near(got.lse, expected.lse, bound, name + "lse");
  expect_near(got.out, expected.out, bound, name + "out");
  expect_near(got.dquery, expected.dquery, bound, name + "dquery");
  expect_near(got.dkey, expected.dkey, bound, name + "dkey");
  expect_near(got.dvalue, expected.dvalue, bound, name + "dvalue");
}

TEST(AttentionRing, IsThatOfAllKeys) {
  RingMachine machine = in_double();
  Parts parts;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    RandomNumbers random(seed);
    const Sample sample = random_sample(random, random.one_of({8, 16, 24}), random.one_of({1, 3}));
    const Results dense = machine.dense(sample);
    for (const std::int64_t ranks : {1, 2, 4}) {
      const std::string name = "seed " + std::to_string(seed) + ", P " + std::to_string(ranks);
      expect_near(machine.ring(sample, ranks, parts), dense, 1e-13, name + ", ");
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// Several strips of queries and blocks of keys, in f32 and beside operands of 16 bits: products of
// floats, of bf16, and in tiles. With 16 bits, an output that lies between two numbers of storage
// may be rounded to either, and delta follows.
TEST(AttentionRing, IsThatOfAllKeysOnTheProcessor) {
  Parts parts;
  for (const DType storage : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const ProductPrecision products :
         {ProductPrecision::kFp32, ProductPrecision::kBf16, ProductPrecision::kAmx}) {
      if (products != ProductPrecision::kFp32 && storage != DType::kBF16) continue;
      if (!cpu::has_products(products)) continue;
      const double bound = storage == DType::kF32 ? 5e-5 : storage == DType::kF16 ? 5e-3 : 0.04;
      RingMachine machine(make_cpu_backend(1, products), storage);
      for (std::uint32_t seed = 0; seed < 3; ++seed) {
        RandomNumbers random(seed);
        const Sample sample = random_sample(random, random.one_of({160, 536}), 24);
        const Results dense = machine.dense(sample);
        for (const std::int64_t ranks : {2, 4}) {
          const std::string name = "seed " + std::to_string(seed) + ", P " + std::to_string(ranks);
          expect_near(machine.ring(sample, ranks, parts), dense, bound, name + ", ");
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

}  // namespace
}  // namespace phalanx::ops::parts
