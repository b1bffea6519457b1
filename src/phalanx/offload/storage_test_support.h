#pragma once
// For tests: storages, logs and processes that crash.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/disk/test_support.h"
#include "phalanx/offload/disk_storage.h"

namespace phalanx::testing_support {

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

inline FileLayout layout_of(std::initializer_list<std::int64_t> records) {
  FileLayout layout(kBlock);
  for (const std::int64_t bytes : records) layout.add(bytes);
  return layout;
}

}  // namespace phalanx::testing_support
