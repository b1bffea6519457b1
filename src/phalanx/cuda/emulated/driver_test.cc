#include "phalanx/cuda/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/cuda/emulated/driver_control.h"
#include "phalanx/cuda/emulated/sanitizer_test_support.h"
#include "phalanx/cuda/kernel.h"

namespace phalanx::cuda {
namespace {

// y = x + add, of 32 numbers.
struct AddNumber {
  static constexpr int kThreads = 32;
  struct Params {
    std::int32_t* y;
    const std::int32_t* x;
    std::int32_t add;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    p.y[t.index()] = p.x[t.index()] + p.add;
  }
};

struct Diverges {
  static constexpr int kThreads = 64;
  struct Params {};
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& /*p*/) {
    if (t.warp() == 0) t.sync();
  }
};

}  // namespace
}  // namespace phalanx::cuda

PHALANX_KERNEL(phalanx::cuda::AddNumber)
PHALANX_KERNEL(phalanx::cuda::Diverges)

namespace phalanx::cuda {
namespace {

constexpr std::int64_t kBytes = 128;

class Driver : public testing::Test {
 protected:
  Driver() { reset_driver(); }
  ~Driver() override {
    reset_driver();
    take_races();
  }

  static std::int32_t* device_numbers() {
    return reinterpret_cast<std::int32_t*>(allocate(0, kBytes));
  }
  static std::int32_t* pinned_numbers(std::int32_t value) {
    auto* numbers = reinterpret_cast<std::int32_t*>(allocate_pinned(kBytes));
    for (int i = 0; i < 32; ++i) numbers[i] = value;
    return numbers;
  }

  // How many runs of a hundred in each order have a wrong result; fewer where reports take long.
  static constexpr int kRuns = kUnderThreadSanitizer ? 10 : 100;
  template <typename Run>
  static std::vector<int> wrong_runs(const Run& run) {
    std::vector<int> wrong;
    for (const QueueOrder order : {QueueOrder::kFirst, QueueOrder::kLast, QueueOrder::kAny}) {
      int count = 0;
      for (std::uint64_t seed = 0; seed < kRuns; ++seed) {
        reset_driver();
        set_queue_order(order, seed);
        if (!run()) ++count;
      }
      wrong.push_back(count);
    }
    return wrong;
  }
};

// Numbers go in on one queue, are added to on another, and come back.
bool copies_compute_copies(bool waits) {
  const Queue in = make_queue(0);
  const Queue compute = make_queue(0);
  auto* host = reinterpret_cast<std::int32_t*>(allocate_pinned(kBytes));
  auto* back = reinterpret_cast<std::int32_t*>(allocate_pinned(kBytes));
  for (int i = 0; i < 32; ++i) host[i] = i;
  auto* x = reinterpret_cast<std::int32_t*>(allocate(0, kBytes));
  auto* y = reinterpret_cast<std::int32_t*>(allocate(0, kBytes));
  const Mark copied = make_mark(0);
  copy(in, x, host, kBytes);
  record(in, copied);
  if (waits) wait(compute, copied);
  launch<AddNumber>(compute, {}, {y, x, 1000});
  copy(compute, back, y, kBytes);
  wait_host(compute);
  bool right = true;
  for (int i = 0; i < 32; ++i) right = right && back[i] == 1000 + i;
  wait_host(in);
  return right;
}

TEST_F(Driver, OrdersQueuesByMarks) {
  EXPECT_THAT(wrong_runs([] { return copies_compute_copies(true); }),
              testing::ElementsAre(0, 0, 0));
  EXPECT_EQ(take_races(), 0);
}

TEST_F(Driver, AMissingWaitIsSeen) {
  const std::vector<int> wrong = wrong_runs([] { return copies_compute_copies(false); });
  EXPECT_EQ(wrong[0], 0);
  EXPECT_EQ(wrong[1], kRuns);
  EXPECT_GT(wrong[2], kRuns / 5);
  // Also in the order in which the result is right.
  if (kUnderThreadSanitizer) {
    take_races();
    reset_driver();
    EXPECT_TRUE(copies_compute_copies(false));
    EXPECT_GE(take_races(), 1);
  }
}

TEST_F(Driver, AReadOfTheHostWithoutAWaitIsSeen) {
  const auto run = [] {
    const Queue queue = make_queue(0);
    auto* host = reinterpret_cast<std::int32_t*>(allocate_pinned(kBytes));
    std::memset(host, 0, kBytes);
    auto* x = reinterpret_cast<std::int32_t*>(allocate(0, kBytes));
    set_bytes(queue, x, 1, kBytes);
    copy(queue, host, x, kBytes);
    const bool right = host[0] == 0x01010101;
    wait_host(queue);
    return right;
  };
  EXPECT_THAT(wrong_runs(run), testing::ElementsAre(kRuns, kRuns, kRuns));
}

TEST_F(Driver, PinnedMemoryThatIsUsedAgainTooEarlyIsSeen) {
  const auto run = [] {
    const Queue first = make_queue(0);
    const Queue second = make_queue(0);
    auto* host = reinterpret_cast<std::int32_t*>(allocate_pinned(kBytes));
    auto* back = reinterpret_cast<std::int32_t*>(allocate_pinned(kBytes));
    std::memset(host, 0, kBytes);
    auto* x = reinterpret_cast<std::int32_t*>(allocate(0, kBytes));
    auto* y = reinterpret_cast<std::int32_t*>(allocate(0, kBytes));
    copy(first, x, host, kBytes);
    // Somebody waits for something else, in whose course the copy may or may not run.
    set_bytes(second, y, 0, kBytes);
    wait_host(second);
    host[0] = 5;
    copy(first, back, x, kBytes);
    wait_host(first);
    return back[0] == 0;
  };
  const std::vector<int> wrong = wrong_runs(run);
  EXPECT_EQ(wrong[0], 0);
  EXPECT_EQ(wrong[1], kRuns);
  EXPECT_GT(wrong[2], kRuns / 5);
  if (kUnderThreadSanitizer) {
    take_races();
    reset_driver();
    run();
    EXPECT_GE(take_races(), 1);
  }
}

TEST_F(Driver, RefusesWhatNoProgramMayDo) {
  const Queue queue = make_queue(0);
  std::int32_t* x = device_numbers();
  std::vector<std::int32_t> pageable(32);
  EXPECT_THAT(error_of<InternalError>([&] { copy(queue, x, pageable.data(), kBytes); }),
              testing::HasSubstr("memory of the host that is not pinned"));
  register_host(std::as_writable_bytes(std::span(pageable)));
  copy(queue, x, pageable.data(), kBytes);
  unregister_host(std::as_writable_bytes(std::span(pageable)));
  EXPECT_THAT(error_of<InternalError>([&] { set_bytes(queue, x, 0, kBytes + 1); }),
              testing::HasSubstr("reaches beyond an allocation"));
  EXPECT_THAT(error_of<UnavailableError>([] { make_queue(1); }),
              testing::HasSubstr("there is no CUDA device 1"));
  wait_host(queue);

  fail_allocation(1);
  give_back(0, allocate(0, 100));
  EXPECT_THAT(error_of<SystemError>([] { allocate(0, 1000); }),
              testing::HasSubstr("device 0 has no 1000 B for an allocation: "));
  give_back(0, allocate(0, 1000));
  EXPECT_THROW(allocate(0, std::int64_t{1} << 40), SystemError);
}

using DriverDeathTest = Driver;
TEST_F(DriverDeathTest, MemoryOfADeviceIsClosedToTheHost) {
  volatile std::int32_t* x = device_numbers();
  if (kUnderThreadSanitizer) GTEST_SKIP() << "it ends a program in a way of its own";
  EXPECT_DEATH(x[0] = 1, "");
}

TEST_F(Driver, AKernelsFaultStays) {
  const Queue queue = make_queue(0);
  launch<Diverges>(queue, {}, {});
  const std::string message = error_of<InternalError>([&] { wait_host(queue); });
  EXPECT_THAT(message, testing::HasSubstr("Diverges, block (0, 0, 0): thread 0 waits for ever"));
  EXPECT_EQ(error_of<InternalError>([] { allocate(0, 1); }), message);
  EXPECT_EQ(last_error(0), message);
}

TEST_F(Driver, SaysWhereQueuesStand) {
  const Queue first = make_queue(0);
  const Queue second = make_queue(0);
  std::int32_t* x = device_numbers();
  const Mark one = make_mark(0);
  const Mark two = make_mark(0);
  // Marks of a queue that waits for the other, both ways.
  set_bytes(first, x, 0, kBytes);
  record(first, one);
  record(second, two);
  wait(first, two);
  wait(second, one);
  wait_host(first);
  wait_host(second);
  // A mark that was never recorded is passed.
  wait(first, make_mark(0));
  wait_host(first);
  EXPECT_TRUE(passed(one));
}

TEST_F(Driver, TimesAreOfPassedMarks) {
  const Queue queue = make_queue(0);
  const Mark begin = make_mark(0, true);
  const Mark end = make_mark(0, true);
  const Mark untimed = make_mark(0);
  record(queue, begin);
  record(queue, untimed);
  record(queue, end);
  EXPECT_THROW(milliseconds(begin, end), InternalError);
  wait_host(end);
  EXPECT_GT(milliseconds(begin, end), 0.0F);
  EXPECT_THROW(milliseconds(begin, untimed), InternalError);
}

// A graph keeps the params of its launches, and reads memory as it then is.
TEST_F(Driver, GraphsReplayValues) {
  const Queue queue = make_queue(0);
  std::int32_t* x = device_numbers();
  std::int32_t* host = pinned_numbers(-1);
  set_bytes(queue, x, 0, kBytes);
  wait_host(queue);
  AddNumber::Params params{x, x, 1};
  begin_capture(queue);
  launch<AddNumber>(queue, {}, params);
  EXPECT_THAT(error_of<InternalError>([&] { wait_host(queue); }),
              testing::HasSubstr("a wait of the host while queue 1 is captured"));
  EXPECT_THROW(allocate(0, 8), InternalError);
  EXPECT_THROW(passed(make_mark(0)), InternalError);
  EXPECT_THROW(begin_capture(queue), InternalError);
  copy(queue, host, x, kBytes);
  const Graph graph = end_capture(queue);
  EXPECT_THROW(end_capture(queue), InternalError);
  EXPECT_EQ(host[0], -1);
  params.add = 100;  // a number of the next step that was passed by value
  for (int i = 0; i < 3; ++i) launch(queue, graph);
  wait_host(queue);
  EXPECT_EQ(host[0], 3);
  give_back(graph);
  EXPECT_THROW(launch(queue, graph), InternalError);
}

TEST_F(Driver, CopiesRows) {
  const Queue queue = make_queue(0);
  std::int32_t* x = device_numbers();
  std::int32_t* host = pinned_numbers(0);
  for (int i = 0; i < 32; ++i) host[i] = i;
  set_bytes(queue, x, 0xff, kBytes);
  // 4 rows of 3 numbers, 8 apart here and 5 apart there.
  copy_rows(queue, x, 20, host, 32, 12, 4);
  wait_host(queue);
  std::int32_t* back = pinned_numbers(0);
  copy(queue, back, x, kBytes);
  wait_host(queue);
  EXPECT_EQ(back[2], 2);
  EXPECT_EQ(back[3], -1);
  EXPECT_EQ(back[17], 26);
  EXPECT_EQ(take_races(), 0);
}

TEST_F(Driver, FreshMemoryIsNoNumber) {
  const Queue queue = make_queue(0);
  std::int32_t* x = device_numbers();
  std::int32_t* back = pinned_numbers(0);
  copy(queue, back, x, kBytes);
  wait_host(queue);
  EXPECT_EQ(back[31], -1);
}

}  // namespace
}  // namespace phalanx::cuda
