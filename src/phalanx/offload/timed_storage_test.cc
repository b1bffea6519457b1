#include "phalanx/offload/timed_storage.h"

#include "phalanx/offload/storage_test_support.h"
#include "phalanx/ops/cpu/cpu_backend.h"

namespace phalanx {
namespace {

using namespace testing_support;

class TimedStorageTest : public testing::Test {
 protected:
  TimedStorageTest() { set_log_level(LogLevel::kError); }
  TestDirectory base_;
};

TEST_F(TimedStorageTest, CountsWaitsAndNothingElse) {
  StorageFolder folder(base_.path() / "states", "run", 0, "--offload-optimizer-to");
  const StorageOptions options = small_options();
  Arena buffers("storage", storage_bytes(options) + (1 << 16));
  TimedStorage storage(make_disk_storage(folder, options, buffers));
  StepTimers timers;
  const auto waited = [&] { return timers.seconds(StepTimer::kFiles); };
  EXPECT_EQ(storage.block_bytes(), kBlock);
  EXPECT_NE(storage.description(), "");
  FileLayout layout(kBlock);
  const std::int64_t offset = layout.add(10000);
  const auto file = storage.create_file("optimizer", layout);
  EXPECT_EQ(file->name(), "optimizer");
  EXPECT_EQ(file->layout().bytes(), layout.bytes());

  // Calls are checked and recorded once.
  const auto backend = make_cpu_backend(1, cpu::ProductPrecision::kFp32);
  Arena memory("states", 1 << 16);
  Arena workspace = Arena::planning("workspace");
  Recorder recorder;
  Context context{*backend, workspace, {}, &recorder};
  const Tensor from = memory.allocate(DType::kU8, {10000});
  const Tensor to = memory.allocate(DType::kU8, {10000});
  EXPECT_THROW(file->read(context, offset, to), InternalError);
  std::ranges::fill(from.span<std::uint8_t>(), 7);
  file->write(context, offset, from).wait({});
  EXPECT_EQ(waited(), 0.0) << "nobody counts";
  storage.time_with(&timers);
  const Work read = file->read(context, offset, to);
  EXPECT_EQ(waited(), 0.0) << "nobody has waited";
  read.wait({});
  const double once = waited();
  EXPECT_GT(once, 0.0);
  EXPECT_TRUE(read.done());
  EXPECT_TRUE(std::ranges::equal(to.span<std::uint8_t>(), from.span<std::uint8_t>()));
  file->write(context, offset, to).wait_host(Work::Clock::now() + std::chrono::minutes(1));
  const double twice = waited();
  EXPECT_GT(twice, once);
  storage.time_with(nullptr);
  file->read(context, offset, to).wait({});
  EXPECT_EQ(waited(), twice);
  EXPECT_EQ(recorder.transfers(), (std::vector<Transfer>{{"optimizer", "write", 10000},
                                                         {"optimizer", "read", 10000},
                                                         {"optimizer", "write", 10000},
                                                         {"optimizer", "read", 10000}}));
}

}  // namespace
}  // namespace phalanx
