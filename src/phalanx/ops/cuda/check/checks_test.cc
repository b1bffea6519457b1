// The digests that a device must have, and kernels whose barriers are dropped one by one. Needs no
// op, so that sanitizers can run it: it is a program of its own.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <set>

#include "phalanx/base/error.h"
#include "phalanx/cuda/emulated/driver_control.h"
#include "phalanx/cuda/emulated/machine.h"
#include "phalanx/cuda/emulated/sanitizer_test_support.h"
#include "phalanx/cuda/kernel.h"
#include "phalanx/ops/cuda/check/expected.h"
#include "phalanx/ops/cuda/embedding.h"
#include "phalanx/ops/cuda/fault-inl.h"
#include "phalanx/ops/cuda/grouped_linear.h"
#include "phalanx/ops/cuda/norm.h"
#include "tests/paths.h"

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_on_report(void* /*report*/) { ++phalanx::cuda::race_count(); }
extern "C" const char* __tsan_default_options() {
  return "exitcode=0:suppress_equal_stacks=0:suppress_equal_addresses=0";
}
#endif

namespace phalanx::cuda {
namespace {

constexpr std::int64_t kBenchBytes = std::int64_t{16} << 20;
constexpr std::int64_t kScratchBytes = std::int64_t{1} << 20;

Expected stored_digests() {
  return read_expected(source_path("src/phalanx/ops/cuda/check/expected.txt"));
}

// A change of a kernel's bits is told: build/release/check_device_emulated --record
// src/phalanx/ops/cuda/check/expected.txt writes the new ones, and a device is checked against
// them.
TEST(CudaChecks, HaveTheStoredDigests) {
  emulated_machine().set_seed(2);
  const Expected expected = stored_digests();
  Workbench bench(0, kBenchBytes, kScratchBytes);
  std::set<std::string> names;
  for (const ExactCheck& check : all_exact_checks()) {
    bench.clear();
    names.insert(check.name);
    const auto entry = expected.find(check.name);
    ASSERT_NE(entry, expected.end()) << check.name;
    EXPECT_EQ(digest_parts(check.run(bench)).parts, entry->second.parts) << check.name;
  }
  for (const auto& [name, digest] : expected) EXPECT_TRUE(names.contains(name)) << name;
  EXPECT_EQ(take_races(), 0);
}

TEST(CudaChecks, FunctionsAndProductsAreNearDouble) {
  Workbench bench(0, kBenchBytes, kScratchBytes);
  for (const ApproximateCheck& check : all_approximate_checks()) {
    bench.clear();
    EXPECT_LE(check.error(bench), check.tolerance) << check.name;
  }
  EXPECT_EQ(take_races(), 0);
}

// A device is compared between -4 and 4 alone. Values near the smallest floats lose digits.
TEST(CudaFunctions, ErfcAtItsEnds) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (int i = -12000; i <= 12000; ++i) {
    const float x = static_cast<float>(i) / 1000.0F;
    const double truth = std::erfc(static_cast<double>(x));
    EXPECT_NEAR(erfc_of(x), truth, 0x1p-20 * truth + 0x1p-120) << x;
  }
  EXPECT_EQ(erfc_of(0.0F), erfc_of(-0.0F));
  EXPECT_EQ(erfc_of(kInfinity), 0.0F);
  EXPECT_EQ(erfc_of(-kInfinity), 2.0F);
  EXPECT_TRUE(std::isnan(erfc_of(std::numeric_limits<float>::quiet_NaN())));
}

// The heads of a row, with gaps between rows, are as many rows with the same weight. Statistics lie
// place by place.
TEST(CudaNorms, PlacesAreRows) {
  Workbench bench(0, kBenchBytes, kScratchBytes);
  constexpr std::int64_t kRows = 7;
  constexpr std::int64_t kPlaces = 3;
  constexpr std::int64_t kColumns = 40;
  constexpr std::int64_t kWide = 160;  // elements between rows
  constexpr std::int64_t kAll = kRows * kPlaces;
  const std::vector<float> numbers = bench.uniform_floats(kAll * kColumns, -1, 2);
  const std::vector<float> gradients = bench.uniform_floats(kAll * kColumns, -1, 1);
  const auto spread = [&](const std::vector<float>& dense) {
    std::vector<float> wide(kRows * kWide, 99.0F);
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::size_t i = 0; i < kPlaces * kColumns; ++i) {
        wide[r * kWide + i] = dense[r * kPlaces * kColumns + i];
      }
    }
    return wide;
  };
  const auto typed = [](float* at) {
    return TypedAddress{reinterpret_cast<std::byte*>(at), DType::kF32};
  };
  const TypedAddress weight = bench.uniform(DType::kF32, kColumns, -1, 1);
  // y, rstd, dx, dweight of both ways.
  const auto run = [&](bool by_place) {
    const std::int64_t row = by_place ? kWide : kColumns;
    const auto operand = [&](const std::vector<float>& dense) {
      return NormOperand{typed(bench.upload(by_place ? spread(dense) : dense)), row, kColumns};
    };
    NormForwardCall forward;
    forward.shape = {by_place ? kRows : kAll, by_place ? kPlaces : 1, kColumns};
    forward.y = operand(numbers);
    forward.x = operand(numbers);
    forward.weight = weight;
    forward.rstd = bench.output_floats(kAll);
    norm_forward(bench.context(), forward);
    NormBackwardCall backward;
    backward.shape = forward.shape;
    backward.dx = operand(numbers);
    backward.dweight = bench.output_floats(kColumns);
    backward.dy = operand(gradients);
    backward.x = forward.x;
    backward.rstd = forward.rstd;
    backward.weight = weight;
    norm_backward(bench.context(), backward);
    const std::int64_t n = by_place ? kRows * kWide : kAll * kColumns;
    return std::vector<std::vector<float>>{bench.read_floats(forward.y.data, n),
                                           bench.read_floats(typed(forward.rstd), kAll),
                                           bench.read_floats(backward.dx.data, n),
                                           bench.read_floats(typed(backward.dweight), kColumns)};
  };
  const auto by_row = run(false);
  const auto by_place = run(true);
  EXPECT_EQ(by_place[0], spread(by_row[0]));
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t place = 0; place < kPlaces; ++place) {
      EXPECT_EQ(by_place[1][place * kRows + row], by_row[1][row * kPlaces + place]);
    }
  }
  EXPECT_EQ(by_place[2], spread(by_row[2]));
  EXPECT_EQ(by_place[3], by_row[3]);
}

// Of ids with 1 to 700 rows, which warps and blocks add: the bits of a loop over the rows.
TEST(CudaEmbeddings, GradientsAddRowsInOrder) {
  constexpr std::int64_t kRows = 2000;
  constexpr std::int64_t kTable = 90;
  Workbench bench(0, kBenchBytes, kScratchBytes);
  for (const DType type : {DType::kF32, DType::kBF16}) {
    for (const std::int64_t columns : {std::int64_t{264}, std::int64_t{13}}) {
      bench.clear();
      std::vector<std::int32_t> ids;
      for (const float x : bench.uniform_floats(kRows, 0, 1)) {
        ids.push_back(3 + static_cast<std::int32_t>(x * x * x * x * (kTable - 1)));
        // The frequent ids are not the first ones.
        if (ids.size() % 40 == 7) ids.back() = static_cast<std::int32_t>(ids.size() % 3);
      }
      const TypedAddress dy = bench.uniform(type, kRows * columns, -1, 1);
      const TypedAddress dtable = bench.uniform(DType::kF32, kTable * columns, -1, 1);
      const std::vector<float> rows = bench.read_floats(dy, kRows * columns);
      std::vector<float> expected = bench.read_floats(dtable, kTable * columns);
      const IdRows batch{bench.upload(ids), kRows, columns};
      const SparseSlots sparse{
          .slots = bench.upload(std::vector<std::int32_t>(kTable, -1)),
          .rows = reinterpret_cast<std::int32_t*>(bench.output(DType::kI32, kTable).at),
          .count = bench.upload(std::vector<std::int32_t>{0}),
          .most = kTable,
          .values = {bench.output(DType::kF32, kTable * columns), columns}};
      embedding_gradient(bench.context(), batch, {{dtable, columns}, kTable, 0}, dy);
      sparse_embedding_gradient(bench.context(), batch, sparse, kTable, 0, dy);

      std::vector<std::int32_t> slots(kTable, -1);
      std::vector<float> values;
      for (std::size_t r = 0; r < ids.size(); ++r) {
        if (ids[r] >= kTable) continue;
        const auto id = static_cast<std::size_t>(ids[r]);
        const float* row = rows.data() + r * static_cast<std::size_t>(columns);
        if (slots[id] < 0) {
          slots[id] = static_cast<std::int32_t>(values.size()) / static_cast<std::int32_t>(columns);
          values.insert(values.end(), row, row + columns);
        } else {
          float* value = values.data() + slots[id] * columns;
          for (std::int64_t i = 0; i < columns; ++i) value[i] += row[i];
        }
        float* sum = expected.data() + id * static_cast<std::size_t>(columns);
        for (std::int64_t i = 0; i < columns; ++i) sum[i] += row[i];
      }
      EXPECT_EQ(bench.read_floats(dtable, kTable * columns), expected);
      std::vector<float> found = bench.read_floats(sparse.values.data, kTable * columns);
      found.resize(values.size());
      EXPECT_EQ(found, values);
    }
  }
  EXPECT_EQ(take_races(), 0);
}

// Kernels that know a pattern look at no coordinate, pass over tiles, and have the same bits.
TEST(CudaAttention, PatternsChangeNoBit) {
  Workbench bench(0, kBenchBytes, kScratchBytes);
  for (const DType type : {DType::kF32, DType::kBF16}) {
    for (const std::int64_t window : {0, 70}) {
      for (const bool unfused : {false, true}) {
        bench.clear();
        const auto expected = attention_bytes(bench, type, window, unfused, false);
        bench.clear();
        EXPECT_TRUE(attention_bytes(bench, type, window, unfused, true) == expected)
            << name_of(type) << ", window " << window << (unfused ? ", unfused" : "");
      }
    }
  }
  EXPECT_EQ(take_races(), 0);
}

// The products of a group: alone, and among others. Small groups have other tiles than large ones.
class GroupedResults {
 public:
  static constexpr std::int64_t kN = 72;
  static constexpr std::int64_t kK = 104;
  static constexpr std::int64_t kRows = 150;

  explicit GroupedResults(DType type)
      : type_(type),
        x_(bench_.uniform_floats(kRows * kK, -1, 1)),
        dy_(bench_.uniform_floats(kRows * kN, -1, 1)),
        weight_(bench_.uniform_floats(kN * kK, -1, 1)) {}

  // Of the last group of these, whose rows are the last ones.
  std::vector<std::vector<std::byte>> of_last(const std::vector<std::int32_t>& offsets) {
    bench_.clear();
    const std::int64_t groups = std::ssize(offsets) - 1;
    const std::int64_t rows = offsets.back();
    const std::int64_t first = rows - kRows;
    const GroupedRows all{bench_.upload(offsets), groups, rows};
    const TypedRows x{stored(x_, first * kK), kK};
    const TypedRows dy{stored(dy_, first * kN), kN};
    const std::int64_t before = (groups - 1) * kN * kK;
    const GroupedMatrices weight{stored(weight_, before), kN * kK, kN, kK};
    const TypedRows y{bench_.output(type_, rows * kN), kN};
    const TypedRows dx{bench_.output(type_, rows * kK), kK};
    const GroupedMatrices dweight{bench_.output(DType::kF32, before + kN * kK), kN * kK, kN, kK};
    grouped_linear_forward(bench_.context(), all, y, x, weight, {}, nullptr);
    grouped_linear_input_gradient(bench_.context(), all, dx, dy, weight);
    grouped_linear_weight_gradient(bench_.context(), all, dweight, dy, x, false);
    return {last(y.data, rows * kN, kRows * kN), last(dx.data, rows * kK, kRows * kK),
            last(dweight.data, before + kN * kK, kN * kK)};
  }

 private:
  // Numbers behind so many others.
  TypedAddress stored(const std::vector<float>& numbers, std::int64_t behind) {
    std::vector<float> all = bench_.uniform_floats(behind, -1, 1);
    all.insert(all.end(), numbers.begin(), numbers.end());
    const auto upload = [&](auto first) {
      std::vector<decltype(first)> halves;
      for (const float number : all) halves.push_back(round_to<decltype(first)>(number));
      return TypedAddress{reinterpret_cast<std::byte*>(bench_.upload(halves)), type_};
    };
    return type_ == DType::kBF16 ? upload(bf16()) : upload(fp16());
  }
  std::vector<std::byte> last(TypedAddress data, std::int64_t all, std::int64_t n) {
    const std::vector<std::byte> bytes = bench_.read(data, all);
    return {bytes.end() - n * size_of(data.type), bytes.end()};
  }

  DType type_;
  Workbench bench_{0, kBenchBytes, kScratchBytes};
  std::vector<float> x_, dy_, weight_;
};

TEST(CudaGroupedProducts, RowsHaveTheBitsThatTheyHaveAlone) {
  for (const DType type : {DType::kBF16, DType::kF16}) {
    GroupedResults results(type);
    emulated_machine().take_conflicts();
    const auto alone = results.of_last({0, GroupedResults::kRows});
    EXPECT_EQ(emulated_machine().take_conflicts(), 0);
    // Groups that begin elsewhere in their tiles; with 40 of them the last one is not among those
    // that a warp looks at first.
    std::vector<std::int32_t> many = {0};
    for (int group = 0; group < 40; ++group) many.push_back(many.back() + group % 3);
    many.push_back(many.back() + static_cast<std::int32_t>(GroupedResults::kRows));
    EXPECT_TRUE(results.of_last({0, 130, 131, 281}) == alone) << name_of(type);
    EXPECT_TRUE(results.of_last(many) == alone) << name_of(type);
    EXPECT_EQ(emulated_machine().take_conflicts(), 0);
  }
  EXPECT_EQ(take_races(), 0);
}

// Rows whose number is negative are at fault.
struct FaultyRows {
  static constexpr int kThreads = 64;
  struct Params {
    std::uint64_t* words;
    const std::int32_t* rows;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t r = t.block() * kThreads + t.index();
    if (p.rows[r] < 0) report_fault(t, {p.words, 3}, r, p.rows[r], 1000 + r);
  }
};

}  // namespace
}  // namespace phalanx::cuda

PHALANX_KERNEL(phalanx::cuda::FaultyRows)

namespace phalanx::cuda {
namespace {

TEST(CudaFaults, TheSmallestStaysInEveryOrder) {
  std::vector<std::int32_t> rows(256, 1);
  for (const int r : {201, 77, 78}) rows[static_cast<std::size_t>(r)] = -r;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    emulated_machine().set_seed(seed);
    emulated_machine().set_backwards(seed % 2 == 1);
    Workbench bench(0, kBenchBytes, kScratchBytes);
    std::uint64_t* words = bench.upload(std::vector<std::uint64_t>(kFaultWords, kNoFault));
    launch<FaultyRows>(bench.queue(), {4}, {words, bench.upload(rows)});
    std::uint64_t found[kFaultWords];
    const std::vector<std::byte> bytes = bench.read(words, sizeof(found));
    std::memcpy(found, bytes.data(), sizeof(found));
    EXPECT_EQ(found[0], fault_key(3, 77));
    EXPECT_EQ(found[1], fault_detail(3, 77, -77));
    EXPECT_EQ(static_cast<std::int32_t>(found[1]), -77);
    EXPECT_EQ(static_cast<std::int32_t>(found[2]), 1077);
  }
  emulated_machine().set_backwards(false);
  EXPECT_EQ(take_races(), 0);
}

// Barriers that nothing has seen the absence of, with the reason why they stand there. Empty: none.
const std::set<std::string> kSurvivors = {};

std::string name_of(const BarrierPlace& place) {
  return fmt::format("{} of {}:{}", place.kind, place.file, place.line);
}

class CudaMutants : public testing::Test {
 protected:
  CudaMutants() { reset(); }
  ~CudaMutants() override {
    emulated_machine().drop_nothing();
    bench_.reset();
    reset_driver();
    take_races();
  }

  void reset() {
    bench_.reset();
    reset_driver();
    bench_ = std::make_unique<Workbench>(0, kBenchBytes, kScratchBytes);
  }

  // Whether the result is another, or the machine or ThreadSanitizer says what is wrong.
  bool is_seen(const std::function<bool(Workbench&)>& is_right) {
    take_races();
    try {
      bench_->clear();
      if (!is_right(*bench_)) return true;
    } catch (const InternalError&) {
      reset();
      return true;
    }
    return take_races() > 0;
  }

  std::unique_ptr<Workbench> bench_;
};

TEST_F(CudaMutants, EveryDroppedBarrierIsSeen) {
  Machine& machine = emulated_machine();
  const Expected expected = stored_digests();
  // Whether a check has its result, and the places that it meets.
  std::vector<std::function<bool(Workbench&)>> checks;
  std::map<std::string, std::pair<BarrierPlace, std::vector<std::size_t>>> met;
  const auto add = [&](std::function<bool(Workbench&)> is_right) {
    for (const BarrierPlace& place : machine.take_places()) {
      auto& entry = met[name_of(place)];
      entry.first = place;
      entry.second.push_back(checks.size());
    }
    checks.push_back(std::move(is_right));
  };
  machine.set_seed(0);
  machine.take_places();
  for (const ExactCheck& check : all_exact_checks()) {
    bench_->clear();
    check.run(*bench_);
    add([run = check.run, parts = expected.at(check.name).parts](Workbench& bench) {
      return digest_parts(run(bench)).parts == parts;
    });
  }
  std::vector<ApproximateCheck> near_double = loss_checks();
  for (ApproximateCheck& check : attention_checks()) {
    // Kernels with and without tensor cores.
    if (check.name.find("attention bf16") != std::string::npos ||
        check.name.find("attention f32 of 70") != std::string::npos) {
      near_double.push_back(std::move(check));
    }
  }
  for (ApproximateCheck& check : grouped_checks()) near_double.push_back(std::move(check));
  for (const ApproximateCheck& check : near_double) {
    bench_->clear();
    const double error = check.error(*bench_);
    add([run = check.error, error](Workbench& bench) { return run(bench) == error; });
  }
  EXPECT_GE(met.size(), 8U);
  for (const auto& [name, entry] : met) {
    machine.drop(entry.first);
    bool seen = false;
    for (std::uint64_t seed = 1; seed < 6 && !seen; ++seed) {
      machine.set_seed(seed);
      for (const std::size_t i : entry.second) {
        seen = is_seen(checks[i]);
        if (seen) break;
      }
    }
    machine.drop_nothing();
    EXPECT_EQ(seen, !kSurvivors.contains(name)) << name;
  }
}

}  // namespace
}  // namespace phalanx::cuda
