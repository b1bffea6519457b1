// Attention to keys that come in parts, as ranks of a ring have them: the rows of a sample are cut
// into 2 P chunks, a rank has chunks r and 2 P - 1 - r, and meets the keys of all ranks one after
// the other. Joined, the parts are attention to all keys.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/ops/attention.h"
#include "phalanx/ops/backend.h"
#include "phalanx/ops/cases/operands.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/cpu/precision.h"
#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/ref_backend.h"

namespace phalanx::ops {
namespace {

using cpu::ProductPrecision;
using ref::Array;
using Numbers = std::vector<double>;
using RowList = std::vector<std::int64_t>;

constexpr double kUnseen = -std::numeric_limits<double>::infinity();

// The rows of rank r of P.
RowList zigzag(std::int64_t s, std::int64_t ranks, std::int64_t r) {
  const std::int64_t chunk = s / (2 * ranks);
  RowList rows;
  for (const std::int64_t first : {r * chunk, (2 * ranks - 1 - r) * chunk}) {
    for (std::int64_t i = 0; i < chunk; ++i) rows.push_back(first + i);
  }
  return rows;
}

// A sample's attention in doubles; arrays are [s, b, heads, d], statistics [b, heads, s].
struct Sample {
  Sample(std::int64_t s, std::int64_t b, std::int64_t heads, std::int64_t groups, std::int64_t d)
      : query({s, b, heads, d}),
        key({s, b, groups, d}),
        value({s, b, groups, d}),
        dout({s, b, heads, d}),
        document(static_cast<std::size_t>(s * b), 0) {}

  std::int64_t rows() const { return query.shape[0]; }

  Array query, key, value, dout;
  std::vector<std::int32_t> document;  // [s, b]
  AttentionMask mask{.causal = true};
  double scale = 1.0;
  Dropout dropout;
};

struct Results {
  Array out, lse, delta, dquery, dkey, dvalue;
};

// What a rank computes of the keys of another rank.
struct Part {
  Array out{Shape{0}}, lse{Shape{0}}, dkey{Shape{0}}, dvalue{Shape{0}};
};
// parts[r][i]: of rank r in step i.
using Parts = std::vector<std::vector<Part>>;

Array select_rows(const Array& from, const RowList& rows, int dim = 0) {
  Shape shape = from.shape;
  std::int64_t inner = 1;
  for (int i = dim + 1; i < shape.rank(); ++i) inner *= shape[i];
  const std::int64_t extent = shape[dim];
  shape[dim] = static_cast<std::int64_t>(rows.size());
  Array to(shape);
  for (std::size_t n = 0; n < to.values.size(); ++n) {
    const auto at = static_cast<std::int64_t>(n) / inner;
    const auto count = static_cast<std::int64_t>(rows.size());
    const std::int64_t row = rows[static_cast<std::size_t>(at % count)];
    const std::int64_t place =
        (at / count * extent + row) * inner + static_cast<std::int64_t>(n) % inner;
    to.values[n] = from.values[static_cast<std::size_t>(place)];
  }
  return to;
}

void put_rows(const Array& from, const RowList& rows, Array& to, int dim = 0) {
  Array numbers(to.shape);
  for (std::size_t n = 0; n < numbers.values.size(); ++n) {
    numbers.values[n] = static_cast<double>(n);
  }
  const Array places = select_rows(numbers, rows, dim);
  for (std::size_t n = 0; n < from.values.size(); ++n) {
    to.values[static_cast<std::size_t>(places.values[n])] = from.values[n];
  }
}

// Computes on a backend, in a storage type beside which results are in full precision.
class RingMachine {
 public:
  RingMachine(std::unique_ptr<Backend> backend, DType storage)
      : backend_(std::move(backend)), storage_(storage) {}

  Results dense(const Sample& sample) {
    RowList all;
    for (std::int64_t i = 0; i < sample.rows(); ++i) all.push_back(i);
    Parts parts;
    return ring(sample, std::vector<RowList>{all}, parts);
  }
  Results ring(const Sample& sample, std::int64_t ranks, Parts& parts) {
    std::vector<RowList> rows;
    for (std::int64_t r = 0; r < ranks; ++r) rows.push_back(zigzag(sample.rows(), ranks, r));
    return ring(sample, rows, parts);
  }

 private:
  DType full() const { return storage_ == DType::kF64 ? DType::kF64 : DType::kF32; }

  Tensor tensor_of(const Array& values, DType dtype) {
    const Tensor tensor = memory_.allocate(dtype, values.shape);
    ref::write(tensor, values);
    return tensor;
  }
  Tensor integers(DType dtype, const Shape& shape, const auto& value) {
    const Tensor tensor = memory_.allocate(dtype, shape);
    ref::Integers values(shape);
    for (std::size_t n = 0; n < values.values.size(); ++n) values.values[n] = value(n);
    ref::write_integers(tensor, values);
    return tensor;
  }
  RowCoordinates coordinates(const Sample& sample, const RowList& rows, bool keys) {
    const std::int64_t b = sample.query.shape[1];
    const Shape shape{static_cast<std::int64_t>(rows.size()), b};
    const auto batch = static_cast<std::size_t>(b);
    RowCoordinates result;
    // Nobody asks for the samples of keys.
    if (!keys) {
      result.sample = integers(DType::kI64, shape, [&](std::size_t n) { return n % batch + 7; });
    }
    result.position = integers(DType::kI32, shape, [&](std::size_t n) { return rows[n / batch]; });
    result.document = integers(DType::kI32, shape, [&](std::size_t n) {
      return sample.document[static_cast<std::size_t>(rows[n / batch]) * batch + n % batch];
    });
    return result;
  }

  AttentionInputs inputs(const Sample& sample, const RowList& queries, const RowList& keys) {
    AttentionInputs in;
    in.query = tensor_of(select_rows(sample.query, queries), storage_);
    in.key = tensor_of(select_rows(sample.key, keys), storage_);
    in.value = tensor_of(select_rows(sample.value, keys), storage_);
    in.query_rows = coordinates(sample, queries, false);
    in.key_rows = coordinates(sample, keys, true);
    in.mask = sample.mask;
    in.scale = sample.scale;
    in.dropout = sample.dropout;
    return in;
  }

  Results ring(const Sample& sample, const std::vector<RowList>& rows, Parts& parts) {
    const std::size_t ranks = rows.size();
    Results all{Array(sample.query.shape),
                Array({sample.query.shape[1], sample.query.shape[2], sample.rows()}),
                Array({sample.query.shape[1], sample.query.shape[2], sample.rows()}),
                Array(sample.query.shape),
                Array(sample.key.shape),
                Array(sample.key.shape)};
    parts.assign(ranks, std::vector<Part>(ranks));
    for (std::size_t r = 0; r < ranks; ++r) rank(sample, rows, r, parts[r], all);
    // At the owner s in the order s, s + 1, ...
    for (std::size_t s = 0; s < ranks; ++s) {
      Array dkey = parts[s][0].dkey;
      Array dvalue = parts[s][0].dvalue;
      for (std::size_t i = 1; i < ranks; ++i) {
        const Part& part = parts[(s + i) % ranks][i];
        for (std::size_t n = 0; n < dkey.values.size(); ++n) {
          dkey.values[n] += part.dkey.values[n];
          dvalue.values[n] += part.dvalue.values[n];
        }
      }
      put_rows(dkey, rows[s], all.dkey);
      put_rows(dvalue, rows[s], all.dvalue);
    }
    return all;
  }

  void rank(const Sample& sample, const std::vector<RowList>& rows, std::size_t r,
            std::vector<Part>& parts, Results& all) {
    const WorkspaceScope scope(memory_);
    Context context{.backend = *backend_, .workspace = workspace_};
    const std::size_t ranks = rows.size();
    const auto owner = [&](std::size_t i) { return (r + ranks - i) % ranks; };
    const Array rounded_dout = select_rows(sample.dout, rows[r]);
    const Shape heads = rounded_dout.shape;
    const Shape statistics{heads[1], heads[2], heads[0]};
    const Tensor out = memory_.allocate(full(), heads);
    const Tensor lse = memory_.allocate(full(), statistics);
    std::vector<AttentionInputs> in;
    for (std::size_t i = 0; i < ranks; ++i) {
      in.push_back(inputs(sample, rows[r], rows[owner(i)]));
      AttentionForward forward{out, lse, in[i]};
      if (i > 0) {
        forward.out = memory_.allocate(full(), heads);
        forward.lse = memory_.allocate(full(), statistics);
      }
      attention_forward(context, forward);
      parts[i].out = ref::read(forward.out);
      parts[i].lse = ref::read(forward.lse);
      if (i > 0) attention_merge(context, {out, lse, forward.out, forward.lse});
    }
    const Tensor stored = tensor_of(ref::read(out), storage_);
    const Tensor dout = tensor_of(rounded_dout, storage_);
    const Tensor delta = memory_.allocate(full(), statistics);
    attention_delta(context, {delta, stored, dout});
    const Tensor dquery = tensor_of(Array(heads), full());
    for (std::size_t i = 0; i < ranks; ++i) {
      AttentionBackward backward;
      backward.dquery = dquery;
      backward.dkey = memory_.allocate(full(), in[i].key.shape);
      backward.dvalue = memory_.allocate(full(), in[i].key.shape);
      backward.dout = dout;
      backward.lse = lse;
      backward.delta = delta;
      backward.in = in[i];
      backward.adds_to_dquery = true;
      attention_backward(context, backward);
      parts[i].dkey = ref::read(backward.dkey);
      parts[i].dvalue = ref::read(backward.dvalue);
    }
    put_rows(ref::read(out), rows[r], all.out);
    put_rows(ref::read(lse), rows[r], all.lse, 2);
    put_rows(ref::read(delta), rows[r], all.delta, 2);
    put_rows(ref::read(dquery), rows[r], all.dquery);
  }

  std::unique_ptr<Backend> backend_;
  DType storage_;
  Arena memory_{"operands", 64 << 20};
  Arena workspace_{"workspace", 64 << 20};
};

// ---- Golden numbers, from a computation in double

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

RingMachine in_double() { return {make_ref_backend(), DType::kF64}; }
RingMachine in_float() { return {make_cpu_backend(1, ProductPrecision::kFp32), DType::kF32}; }

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

// ---- The ring against all keys at once

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

TEST(AttentionInParts, IsThatOfAllKeys) {
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
TEST(AttentionInParts, IsThatOfAllKeysOnTheProcessor) {
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

// ---- Results in full precision

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
}  // namespace phalanx::ops
