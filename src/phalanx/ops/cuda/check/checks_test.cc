// The digests that a device must have, and kernels whose barriers are dropped one by one. Needs no
// op, so that sanitizers can run it: it is a program of its own.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>

#include "phalanx/base/error.h"
#include "phalanx/cuda/emulated/driver_control.h"
#include "phalanx/cuda/emulated/machine.h"
#include "phalanx/cuda/emulated/sanitizer_test_support.h"
#include "phalanx/ops/cuda/check/expected.h"
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

Expected stored_digests() {
  return read_expected(source_path("src/phalanx/ops/cuda/check/expected.txt"));
}

// A change of a kernel's bits is told: build/release/check_device_emulated --record
// src/phalanx/ops/cuda/check/expected.txt writes the new ones, and a device is checked against
// them.
TEST(CudaChecks, HaveTheStoredDigests) {
  emulated_machine().set_seed(2);
  const Expected expected = stored_digests();
  Workbench bench(0, kBenchBytes);
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
  Workbench bench(0, kBenchBytes);
  for (const ApproximateCheck& check : approximate_checks()) {
    bench.clear();
    EXPECT_LE(check.error(bench), check.tolerance) << check.name;
  }
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
    bench_ = std::make_unique<Workbench>(0, kBenchBytes);
  }

  // Whether the result is another, or the machine or ThreadSanitizer says what is wrong.
  bool is_seen(const ExactCheck& check, const Digest& expected) {
    take_races();
    try {
      bench_->clear();
      if (digest_parts(check.run(*bench_)).parts != expected.parts) return true;
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
  const std::vector<ExactCheck> checks = all_exact_checks();
  std::map<std::string, std::pair<BarrierPlace, std::vector<const ExactCheck*>>> met;
  machine.take_places();
  for (const ExactCheck& check : checks) {
    machine.set_seed(0);
    bench_->clear();
    check.run(*bench_);
    for (const BarrierPlace& place : machine.take_places()) {
      auto& entry = met[name_of(place)];
      entry.first = place;
      entry.second.push_back(&check);
    }
  }
  EXPECT_GE(met.size(), 8U);
  for (const auto& [name, entry] : met) {
    machine.drop(entry.first);
    bool seen = false;
    for (std::uint64_t seed = 1; seed < 6 && !seen; ++seed) {
      machine.set_seed(seed);
      for (const ExactCheck* check : entry.second) {
        seen = is_seen(*check, expected.at(check->name));
        if (seen) break;
      }
    }
    machine.drop_nothing();
    EXPECT_EQ(seen, !kSurvivors.contains(name)) << name;
  }
}

}  // namespace
}  // namespace phalanx::cuda
