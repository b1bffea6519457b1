#pragma once
// For tests: directories that must be empty in the end, and engines that misbehave.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/disk/block_engine.h"

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

inline void fill(std::span<std::byte> bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
}

inline bool is_filled(std::span<const std::byte> bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  return std::ranges::all_of(
      bytes, [&](std::byte byte) { return byte == static_cast<std::byte>(random()); });
}

}  // namespace phalanx::testing_support
