// The queue with engines that move few bytes, late, in another order, or nothing at all.

#include "phalanx/offload/transfer_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <optional>

#include "phalanx/offload/storage_test_support.h"

namespace phalanx {
namespace {

using namespace testing_support;
using testing::AllOf;
using testing::HasSubstr;

using Gate = BackwardsEngine::Gate;

class TransferQueueTest : public testing::TestWithParam<bool> {
 protected:
  TransferQueueTest() { set_log_level(LogLevel::kError); }

  StorageOptions options() const { return small_options(StorageEngine::kThreads, is_direct()); }
  static bool is_direct() { return GetParam(); }
  // Engines whose requests and completions the test changes.
  static EngineMaker altered(const std::function<void(BlockRequest&)>& on_submit,
                             const std::function<void(BlockCompletion&)>& on_completion = {}) {
    return [=](const StorageOptions& options, std::span<std::byte> buffers) {
      auto engine = std::make_unique<AlteringEngine>(make_engine(options, buffers));
      if (on_submit) engine->on_submit = on_submit;
      if (on_completion) engine->on_completion = on_completion;
      return engine;
    };
  }
  static EngineMaker backwards(const std::shared_ptr<Gate>& gate) {
    return [=](const StorageOptions&, std::span<std::byte>) {
      return std::make_unique<BackwardsEngine>(gate);
    };
  }

  TestDirectory base_;
};

INSTANTIATE_TEST_SUITE_P(DirectAndBuffered, TransferQueueTest, testing::Bool());

TEST_P(TransferQueueTest, WhatMovesInPartGoesOn) {
  std::mt19937 random(3);
  int shortened = 0;
  const auto shorten = [&](BlockRequest& request) {
    const std::int64_t least = is_direct() ? kStorageAlignment : 1;
    const std::int64_t sector = is_direct() ? 512 : 1;
    if (request.bytes <= least || random() % 8 == 0) return;
    const auto parts = static_cast<unsigned>((request.bytes - least) / sector);
    request.bytes = least + static_cast<std::int64_t>(random() % parts) * sector;
    ++shortened;
  };
  Rig rig(base_.path(), options(), altered(shorten));
  const std::int64_t bytes = 5 * kBlock + 1000;
  const auto file = rig.storage().create_file("optimizer", layout_of({bytes}));
  fill(rig.at(0, bytes), 1);
  file->write(0, rig.at(0, bytes)).wait({});
  file->read(0, rig.at(1 << 20, bytes)).wait({});
  EXPECT_TRUE(is_filled(rig.at(1 << 20, bytes), 1));
  EXPECT_GT(shortened, 5);
}

TEST_P(TransferQueueTest, WhatIsInterruptedBeginsAgain) {
  int completions = 0;
  const auto interrupt = [&](BlockCompletion& completion) {
    if (++completions % 3 == 0) completion.result = completions % 2 == 0 ? -EINTR : -EAGAIN;
  };
  Rig rig(base_.path(), options(), altered({}, interrupt));
  const auto file = rig.storage().create_file("optimizer", layout_of({10 * kBlock}));
  fill(rig.at(0, 10 * kBlock), 1);
  file->write(0, rig.at(0, 10 * kBlock)).wait({});
  file->read(0, rig.at(1 << 20, 10 * kBlock)).wait({});
  EXPECT_TRUE(is_filled(rig.at(1 << 20, 10 * kBlock), 1));
}

TEST_P(TransferQueueTest, AFailureIsOneErrorForAllThatComesBehind) {
  struct Case {
    std::int64_t result;
    const char* words;
  };
  for (const Case& fault : {Case{-EIO, "Input/output error"},
                            {-ENOSPC, "No space left on device"},
                            {-EDQUOT, "Disk quota exceeded"},
                            {0, "the file system takes no more"}}) {
    int completions = 0;
    const auto fail = [&](BlockCompletion& completion) {
      if (++completions == 6) completion.result = fault.result;
    };
    // One at a time, so that it is known which one it is.
    StorageOptions one = options();
    one.queue_depth = 1;
    Rig rig(base_.path(), one, altered({}, fail));
    const auto first = rig.storage().create_file("first", layout_of({4 * kBlock}));
    const auto second = rig.storage().create_file("second", layout_of({100, 4 * kBlock}));
    const Work good = first->write(0, rig.at(0, 4 * kBlock));
    const Work bad = second->write(4096, rig.at(0, 4 * kBlock));
    Work behind;
    try {
      behind = first->write(0, rig.at(0, 4 * kBlock));
    } catch (const IoError&) {
      behind = bad;
    }
    good.wait({});
    const std::string message = message_of<IoError>([&] { bad.wait({}); });
    EXPECT_THAT(message, AllOf(HasSubstr((rig.folder().path() / "second.state").string()),
                               HasSubstr(fmt::format("cannot write {} bytes at offset {}: {}",
                                                     kBlock, 4096 + kBlock, fault.words))));
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(message_of<IoError>([&] { bad.wait_host({}); }), message);
      EXPECT_EQ(message_of<IoError>([&] { behind.wait({}); }), message);
      EXPECT_EQ(message_of<IoError>([&] { first->write(0, rig.at(0, kBlock)); }), message);
    }
    EXPECT_TRUE(bad.done());
  }
}

// The engine does the last request first: requests that are under way together have no order.
TEST_P(TransferQueueTest, NothingOvertakesWhatTouchesTheSameRange) {
  const auto gate = std::make_shared<Gate>();
  StorageOptions deep = options();
  deep.queue_depth = 16;
  Rig rig(base_.path(), deep, backwards(gate));
  const auto file = rig.storage().create_file("optimizer", layout_of({2 * kBlock, 4096}));
  const auto record = [&](int i) { return rig.at(i * 65536, 2 * kBlock); };
  fill(record(0), 10);
  fill(record(1), 11);
  fill(rig.at(1 << 20, 4096), 12);
  const Work works[] = {file->write(2 * kBlock, rig.at(1 << 20, 4096)),
                        file->write(0, record(0)),
                        file->read(0, record(2)),
                        file->read(2 * kBlock, rig.at(2 << 20, 4096)),
                        file->read(0, record(3)),
                        file->write(0, record(1)),
                        file->read(kBlock, record(4).first(kBlock))};
  gate->wait_for(3);  // the writes
  gate->open();
  for (const Work& work : works) work.wait({});
  EXPECT_TRUE(is_filled(record(2), 10));
  EXPECT_TRUE(is_filled(record(3), 10));
  EXPECT_TRUE(std::ranges::equal(record(4).first(kBlock), record(1).last(kBlock)));
  EXPECT_TRUE(is_filled(rig.at(2 << 20, 4096), 12));
}

TEST_P(TransferQueueTest, ReadsOfARangeAndWritesOfOthersAreUnderWayTogether) {
  const auto gate = std::make_shared<Gate>();
  Rig rig(base_.path(), options(), backwards(gate));
  const auto file = rig.storage().create_file("optimizer", layout_of({kBlock, kBlock, kBlock}));
  gate->open();
  file->write(0, rig.at(0, kBlock)).wait({});
  {
    const std::lock_guard lock(gate->mutex);
    gate->is_open = false;
    gate->submitted = 0;
  }
  const Work works[] = {
      file->read(0, rig.at(1 << 20, kBlock)), file->read(0, rig.at(2 << 20, kBlock)),
      file->write(kBlock, rig.at(0, kBlock)), file->write(2 * kBlock, rig.at(0, kBlock))};
  gate->wait_for(4);
  EXPECT_FALSE(works[0].done());
  EXPECT_THAT(message_of<IoError>([&] { works[0].wait_host(Work::Clock::now()); }),
              HasSubstr("were not read in time"));
  gate->open();
  for (const Work& work : works) work.wait({});
}

// No Work is waited for: the file waits for transfers under way, and drops the rest.
TEST_P(TransferQueueTest, AFileGoesWithTransfersUnderWay) {
  const auto gate = std::make_shared<Gate>();
  Work begun, waiting;
  {
    Rig rig(base_.path(), options(), backwards(gate));
    auto file = rig.storage().create_file("optimizer", layout_of({4 * kBlock, kBlock}));
    begun = file->write(0, rig.at(0, 4 * kBlock));
    waiting = file->write(4 * kBlock, rig.at(0, kBlock));
    gate->wait_for(4);
    std::jthread opener([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      gate->open();
    });
    file.reset();
    EXPECT_TRUE(begun.done());
  }
  begun.wait({});
  EXPECT_TRUE(waiting.done());
  // It may have begun after the first block of the other one.
  try {
    waiting.wait({});
  } catch (const InternalError& error) {
    EXPECT_THAT(error.what(), HasSubstr("closed before all transfers had begun"));
  }
}

TEST_P(TransferQueueTest, ManyFilesOfDroppedTransfersComeAndGo) {
  Rig rig(base_.path(), small_options(StorageEngine::kAutomatic, is_direct()));
  for (int i = 0; i < 100; ++i) {
    const auto file = rig.storage().create_file("optimizer", layout_of({20 * kBlock + 7}));
    file->write(0, rig.at(i, 20 * kBlock + 7));
    if (i % 2 == 0) file->read(0, rig.at(i, 20 * kBlock + 7));
  }
}

// The engine itself fails, not a request.
TEST_P(TransferQueueTest, AnEngineThatEndsIsAnError) {
  struct Ending {
    std::atomic<bool> now = false;
  } ending;
  const auto end = [&](BlockRequest&) {
    if (ending.now) throw SystemError("io_uring_enter: Bad file descriptor");
  };
  Rig rig(base_.path(), options(), altered(end));
  const auto file = rig.storage().create_file("optimizer", layout_of({4 * kBlock}));
  file->write(0, rig.at(0, 4 * kBlock)).wait({});
  ending.now = true;
  const Work work = file->write(0, rig.at(0, 4 * kBlock));
  EXPECT_THAT(message_of<IoError>([&] { work.wait({}); }), HasSubstr("Bad file descriptor"));
  EXPECT_THAT(message_of<IoError>([&] { file->read(0, rig.at(0, 4 * kBlock)); }),
              HasSubstr("Bad file descriptor"));
}

}  // namespace
}  // namespace phalanx
