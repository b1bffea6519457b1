#pragma once
// For tests: directories that must be empty in the end, processes that crash, and engines that
// misbehave.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/offload/disk_storage.h"

namespace phalanx::testing_support {

// The build directory, which is on a disk, and a file system in memory.
inline std::filesystem::path disk() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}
inline std::filesystem::path memory_disk() { return "/dev/shm"; }

class TestDirectory {
 public:
  explicit TestDirectory(const std::filesystem::path& base = disk())
      : path_(base / ("phalanx_storage_test_" + std::to_string(::getpid()) + "_" + name())) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  TestDirectory(const TestDirectory&) = delete;
  TestDirectory& operator=(const TestDirectory&) = delete;
  ~TestDirectory() {
    EXPECT_TRUE(std::filesystem::is_empty(path_)) << path_ << " is not as it was found";
    std::filesystem::remove_all(path_);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  static std::string name() {
    std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    std::ranges::replace(name, '/', '_');
    return name;
  }
  std::filesystem::path path_;
};

template <typename Action>
std::string log_of(LogLevel level, Action action) {
  set_log_level(level);
  testing::internal::CaptureStderr();
  action();
  set_log_level(LogLevel::kError);
  return testing::internal::GetCapturedStderr();
}

template <typename Expected, typename Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const Expected& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another error: " << error.what();
    return "";
  }
  ADD_FAILURE() << "no error";
  return "";
}

// Runs `body` in a process of its own and returns its wait status. A body that returns exits with 0
// unless it has failed.
inline int status_of_child(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      body();
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

// An engine that changes the requests and completions of a real one.
class AlteringEngine final : public BlockEngine {
 public:
  std::function<void(BlockRequest&)> on_submit = [](BlockRequest&) {};
  std::function<void(BlockCompletion&)> on_completion = [](BlockCompletion&) {};

  explicit AlteringEngine(std::unique_ptr<BlockEngine> engine) : engine_(std::move(engine)) {}
  std::string description() const override { return "altered"; }
  void add_file(int descriptor) override { engine_->add_file(descriptor); }
  void remove_file(int descriptor) noexcept override { engine_->remove_file(descriptor); }
  void submit(const BlockRequest& request) override {
    BlockRequest altered = request;
    on_submit(altered);
    engine_->submit(altered);
  }
  void wait(std::vector<BlockCompletion>& completions) override {
    engine_->wait(completions);
    for (BlockCompletion& completion : completions) on_completion(completion);
  }
  void wake() noexcept override { engine_->wake(); }

 private:
  std::unique_ptr<BlockEngine> engine_;
};

// An engine that does nothing until it is opened, and then does the last request first.
class BackwardsEngine final : public BlockEngine {
 public:
  // Shared with the test, since the queue owns the engine.
  struct Gate {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_open = false;
    bool woken = false;
    std::size_t submitted = 0;

    void open() {
      const std::lock_guard lock(mutex);
      is_open = true;
      changed.notify_all();
    }
    void wait_for(std::size_t requests) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return submitted >= requests; });
    }
  };

  explicit BackwardsEngine(std::shared_ptr<Gate> gate) : gate_(std::move(gate)) {}
  std::string description() const override { return "backwards"; }
  void add_file(int /*descriptor*/) override {}
  void remove_file(int /*descriptor*/) noexcept override {}
  void submit(const BlockRequest& request) override {
    requests_.push_back(request);
    const std::lock_guard lock(gate_->mutex);
    ++gate_->submitted;
    gate_->changed.notify_all();
  }
  void wait(std::vector<BlockCompletion>& completions) override {
    {
      std::unique_lock lock(gate_->mutex);
      gate_->changed.wait(lock,
                          [&] { return gate_->woken || (gate_->is_open && !requests_.empty()); });
      gate_->woken = false;
      if (!gate_->is_open || requests_.empty()) return;
    }
    const BlockRequest request = requests_.back();
    requests_.pop_back();
    const auto size = static_cast<std::size_t>(request.bytes);
    const auto moved = request.is_write
                           ? ::pwrite(request.descriptor, request.memory, size, request.offset)
                           : ::pread(request.descriptor, request.memory, size, request.offset);
    completions.push_back({request.slot, moved < 0 ? -errno : moved});
  }
  void wake() noexcept override {
    const std::lock_guard lock(gate_->mutex);
    gate_->woken = true;
    gate_->changed.notify_all();
  }

 private:
  std::shared_ptr<Gate> gate_;
  std::vector<BlockRequest> requests_;
};

inline constexpr std::int64_t kBlock = 16384;

inline StorageOptions small_options(StorageEngine engine = StorageEngine::kAutomatic,
                                    bool direct = true) {
  return {
      .engine = engine, .block_bytes = kBlock, .queue_depth = 4, .threads = 2, .direct = direct};
}

// A storage, and memory to move from and to.
class Rig {
 public:
  explicit Rig(const std::filesystem::path& directory,
               const StorageOptions& options = small_options(),
               const EngineMaker& make = make_engine)
      : folder_(directory / "states", "run", 0, "--offload-optimizer-to"),
        buffers_("storage", storage_bytes(options) + (1 << 20)),
        memory_("states", 8 << 20),
        storage_(make_disk_storage(folder_, options, buffers_, make)) {}

  StorageFolder& folder() { return folder_; }
  Storage& storage() { return *storage_; }
  Arena& buffers() { return buffers_; }
  Arena& memory() { return memory_; }
  // Bytes at any address.
  std::span<std::byte> at(std::int64_t offset, std::int64_t bytes) {
    return std::as_writable_bytes(memory_.place(offset, DType::kU8, {bytes}).span<std::uint8_t>());
  }

 private:
  StorageFolder folder_;
  Arena buffers_;
  Arena memory_;
  std::unique_ptr<Storage> storage_;
};

inline void fill(std::span<std::byte> bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
}

inline bool is_filled(std::span<const std::byte> bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  return std::ranges::all_of(
      bytes, [&](std::byte byte) { return byte == static_cast<std::byte>(random()); });
}

inline FileLayout layout_of(std::initializer_list<std::int64_t> records) {
  FileLayout layout(kBlock);
  for (const std::int64_t bytes : records) layout.add(bytes);
  return layout;
}

}  // namespace phalanx::testing_support
