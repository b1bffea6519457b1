#include "phalanx/ops/cuda/cuda_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "phalanx/base/progress.h"
#include "phalanx/base/test_support.h"
#include "phalanx/cuda/emulated/driver_control.h"
#include "phalanx/ops/backend_pieces.h"
#include "phalanx/ops/cuda/cuda_device.h"
#include "phalanx/ops/cuda/device_memory.h"

namespace phalanx::cuda {
namespace {

class CudaBackendTest : public testing::TestWithParam<QueueOrder> {
 protected:
  CudaBackendTest() {
    reset_driver();
    set_queue_order(GetParam(), 3);
    memory_ = device_memory(0);
    backend_ = make_cuda_backend(0, note_progress);
  }
  ~CudaBackendTest() override {
    backend_.reset();
    memory_.reset();
    reset_driver();
  }

  static std::vector<std::byte> bytes(std::size_t n, int first) {
    std::vector<std::byte> all(n);
    for (std::size_t i = 0; i < n; ++i) {
      all[i] = static_cast<std::byte>(static_cast<std::size_t>(first) + i * 7 + i / 251);
    }
    return all;
  }
  std::vector<std::byte> read(const Tensor& tensor) {
    std::vector<std::byte> all(static_cast<std::size_t>(tensor.bytes()));
    backend_->read_back(compute_, tensor, all);
    return all;
  }

  std::unique_ptr<ArenaMemory> memory_;
  std::unique_ptr<Backend> backend_;
  phalanx::Queue compute_ = {0};
  phalanx::Queue copy_in_ = {static_cast<int>(StreamKind::kCopyIn)};
};

// More than the ring holds; the source changes when the call returns.
TEST_P(CudaBackendTest, UploadsMoreThanTheRingHolds) {
  constexpr std::int64_t kLarge = (5 << 20) + 123;
  Arena arena("large", kLarge + 256, *memory_);
  const Tensor tensor = arena.allocate(DType::kU8, {kLarge});
  std::vector<std::byte> source = bytes(kLarge, 1);
  const std::vector<std::byte> expected = source;
  backend_->upload(compute_, tensor, source);
  std::fill(source.begin(), source.end(), std::byte{0});
  EXPECT_EQ(read(tensor), expected);
}

// Pieces of many sizes in three queues, ten times around a small ring.
TEST_P(CudaBackendTest, RingsGoRound) {
  constexpr std::int64_t kBytes = 40'000;
  Arena arena("pieces", kBytes + 256, *memory_);
  const Tensor tensor = arena.allocate(DType::kU8, {kBytes});
  const std::vector<std::byte> expected = bytes(kBytes, 5);
  UploadRing ring(0, 4096);
  const std::array<Queue, 3> queues = {make_queue(0), make_queue(0), make_queue(0)};
  std::int64_t begin = 0;
  for (std::size_t i = 0; begin < kBytes; ++i) {
    const std::int64_t n =
        std::min<std::int64_t>(kBytes - begin, 1 + static_cast<std::int64_t>(i * 397 % 1024));
    std::vector<std::byte> piece(expected.begin() + begin, expected.begin() + begin + n);
    ring.upload(queues[i % 3], tensor.address() + begin, piece);
    std::fill(piece.begin(), piece.end(), std::byte{0});
    begin += n;
  }
  for (const Queue queue : queues) wait_host(queue);
  EXPECT_EQ(read(tensor), expected);
  for (const Queue queue : queues) give_back(queue);
}

TEST_P(CudaBackendTest, ReadsWhatWasThereWhenItWasAskedFor) {
  Arena arena("numbers", 1024, *memory_);
  const Tensor tensor = arena.allocate(DType::kU8, {100});
  const auto first = bytes(100, 1);
  const auto second = bytes(100, 2);
  backend_->upload(compute_, tensor, first);
  ReadBack a = backend_->read_later(compute_, tensor);
  backend_->upload(compute_, tensor, second);
  // Nobody waits for this one, in a queue that is late; its block is used again.
  { const ReadBack dropped = backend_->read_later(copy_in_, tensor); }
  ReadBack b = backend_->read_later(compute_, tensor);
  const auto of = [](std::span<const std::byte> read) {
    return std::vector<std::byte>(read.begin(), read.end());
  };
  const std::span<const std::byte> here = b.wait();
  const auto third = bytes(100, 3);
  backend_->upload(compute_, tensor, third);
  EXPECT_EQ(read(tensor), third);
  backend_->wait_host(backend_->record(copy_in_));
  EXPECT_EQ(of(here), second);
  EXPECT_TRUE(a.here());
  EXPECT_EQ(of(a.wait()), first);
}

// The host's reads of tensors have a queue of their own.
TEST_P(CudaBackendTest, PiecesHaveWhatComputeHasWritten) {
  Arena arena("numbers", 4096, *memory_);
  Arena workspace("workspace", 0, *memory_);
  Context context{.backend = *backend_, .workspace = workspace, .queue = compute_};
  BackendPieces pieces(context);
  const Tensor tensor = arena.allocate(DType::kU8, {1000});
  for (int first = 1; first < 4; ++first) {
    const auto expected = bytes(1000, first);
    backend_->upload(compute_, tensor, expected);
    std::vector<std::byte> found(1000);
    pieces.read(tensor, found);
    EXPECT_EQ(found, expected) << first;
    const auto others = bytes(1000, first + 100);
    pieces.write(tensor, others);
    found.clear();
    pieces.visit(tensor, 300, [&](std::span<const std::byte> piece) {
      found.insert(found.end(), piece.begin(), piece.end());
    });
    EXPECT_EQ(found, others) << first;
  }
}

TEST_P(CudaBackendTest, EventsPass) {
  Arena arena("numbers", 1024, *memory_);
  const Tensor tensor = arena.allocate(DType::kU8, {100});
  backend_->upload(compute_, tensor, bytes(100, 1));
  const Event event = backend_->record(compute_);
  while (!backend_->passed(event)) {
  }
  backend_->wait_host(event);
  for (int i = 0; i < kEvents; ++i) backend_->record(compute_);
  EXPECT_THAT(error_of<InternalError>([&] { backend_->wait(compute_, event); }),
              testing::HasSubstr("event 0 is lost: 4096 others were recorded since"));
  EXPECT_THAT(error_of<InternalError>([&] { backend_->passed({.slot = 5000, .generation = 1}); }),
              testing::HasSubstr("was never recorded"));
}

TEST_P(CudaBackendTest, RefusesTensorsOfTheHost) {
  Arena host("host", 256);
  const Tensor tensor = host.allocate(DType::kU8, {4});
  EXPECT_THAT(error_of<InternalError>([&] { backend_->upload(compute_, tensor, bytes(4, 0)); }),
              testing::HasSubstr("not on the device"));
  Arena arena("numbers", 1024, *memory_);
  const Tensor strided = arena.allocate(DType::kU8, {4, 4}).slice(1, 0, 2);
  EXPECT_THAT(error_of<InternalError>([&] { backend_->read_later(compute_, strided); }),
              testing::HasSubstr("a strided tensor"));
  EXPECT_THAT(error_of<InternalError>([&] { strided.data(); }),
              testing::HasSubstr("memory of a device"));
}

TEST_P(CudaBackendTest, ArenasAreZerosOrAnErrorThatNamesThem) {
  {
    Arena arena("fresh", 1024, *memory_);
    EXPECT_EQ(read(arena.allocate(DType::kU8, {1000})), std::vector<std::byte>(1000));
  }
  EXPECT_THAT(error_of<SystemError>(
                  [&] { const Arena arena("too large", std::int64_t{1} << 40, *memory_); }),
              testing::HasSubstr("arena too large of 1.00 TiB: device 0 has no 1.00 TiB"));
}

std::string order_name(const testing::TestParamInfo<QueueOrder>& instance) {
  constexpr std::array<const char*, 3> kNames = {"First", "Last", "Any"};
  return kNames[static_cast<std::size_t>(instance.param)];
}
// The first row of those that are wrong, once.
TEST_P(CudaBackendTest, FaultsInDataHaveTheTextOfTheProcessor) {
  Arena arena("numbers", 16 << 10, *memory_);
  Arena workspace("workspace", 256 << 10, *memory_);
  Context context{.backend = *backend_, .workspace = workspace};
  const Tensor table = arena.allocate(DType::kF32, {5, 8});
  const Tensor ids = arena.allocate(DType::kI32, {6, 1});
  const Tensor x = arena.allocate(DType::kF32, {6, 1, 8});
  const RowCoordinates rows{.sample = arena.allocate(DType::kI64, {6, 1}),
                            .position = arena.allocate(DType::kI32, {6, 1}),
                            .document = arena.allocate(DType::kI32, {6, 1})};
  const std::array<std::int32_t, 6> wrong = {1, 4, 7, 0, -3, 5};
  backend_->upload(compute_, ids, std::as_bytes(std::span(wrong)));
  ops::add_positions(context,
                     {.out = x, .x = x, .table = table, .ids = ids, .dropout = {}, .rows = rows});
  const auto text = [](Backend& backend, phalanx::Queue queue) {
    return error_of<InternalError>([&] { backend.throw_faults(queue); });
  };
  EXPECT_THAT(text(*backend_, compute_),
              testing::HasSubstr("add_positions: position 7 of a table of 5 (row 2)"));
  EXPECT_EQ(text(*backend_, compute_), "no error");
}

TEST_P(CudaBackendTest, TimesAreOfMarks) {
  Arena arena("numbers", 16 << 10, *memory_);
  Arena workspace("workspace", 256 << 10, *memory_);
  Context context{.backend = *backend_, .workspace = workspace};
  const Tensor x = arena.allocate(DType::kF32, {8});
  std::vector<Event> events = {backend_->record_timed(compute_)};
  for (int i = 0; i < 3; ++i) {
    for (int calls = 0; calls <= i; ++calls) ops::fill(context, {.x = x, .value = 1.0});
    events.push_back(backend_->record_timed(compute_));
  }
  backend_->wait_host(events.back());
  EXPECT_GT(backend_->seconds(events[0], events[1]), 0.0);
  // The emulated clock counts what has run.
  EXPECT_GT(backend_->seconds(events[2], events[3]), backend_->seconds(events[0], events[1]));
  // Places are used again.
  for (int i = 0; i < 64; ++i) backend_->record_timed(compute_);
  EXPECT_THAT(error_of<InternalError>([&] { backend_->seconds(events[0], events[1]); }),
              testing::HasSubstr("is lost"));
}

INSTANTIATE_TEST_SUITE_P(Orders, CudaBackendTest,
                         testing::Values(QueueOrder::kFirst, QueueOrder::kLast, QueueOrder::kAny),
                         order_name);

TEST(CudaBackend, NeedsADevice) {
  reset_driver();
  set_device_count(0);
  EXPECT_THAT(error_of<UnavailableError>([] { make_cuda_backend(0, note_progress); }),
              testing::HasSubstr("there is no CUDA device 0"));
  reset_driver();
}

}  // namespace
}  // namespace phalanx::cuda
