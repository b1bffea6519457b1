#include "phalanx/disk/kept_file.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/hash.h"
#include "phalanx/base/numeric.h"
#include "phalanx/base/progress.h"

namespace phalanx {
namespace {

constexpr unsigned kPermissions = 0644;

std::filesystem::path probe_of(const std::filesystem::path& path) {
  return path.string() + ".probe";
}

}  // namespace

KeptFile::KeptFile(std::filesystem::path path, std::int64_t bytes, const StorageOptions& options,
                   const EngineMaker& make)
    : path_(std::move(path)),
      bytes_(bytes),
      block_bytes_(options.block_bytes),
      buffer_bytes_(
          round_up(std::min(block_bytes_, std::max<std::int64_t>(bytes, 1)), kStorageAlignment)),
      requests_(static_cast<std::size_t>(options.queue_depth)) {
  PHALANX_CHECK(bytes >= 0 && block_bytes_ > 0 && block_bytes_ % kStorageAlignment == 0,
                "{}: {} bytes in blocks of {}", path_.string(), bytes, block_bytes_);
  const FileAccess access("creating", path_);
  access_ = access_of(probe_of(path_), options.direct);
  file_ = make_file(path_, access_, kPermissions);
  try {
    if (const int error = reserve_space(path_, file_.get(), bytes, false); error != 0) {
      throw OutputError("{}: cannot reserve {} ({} bytes): {}", path_.string(), format_bytes(bytes),
                        bytes, std::strerror(error));
    }
    const auto total = static_cast<std::size_t>(buffer_bytes_) * requests_.size();
    memory_ = std::make_unique_for_overwrite<std::byte[]>(
        total + static_cast<std::size_t>(kStorageAlignment));
    engine_ = make(options, {aligned(memory_.get()), total});
    engine_->add_file(file_.get());
  } catch (...) {
    ::unlink(path_.c_str());
    throw;
  }
}

KeptFile::~KeptFile() {
  drain();
  engine_->remove_file(file_.get());
  if (!is_finished_) ::unlink(path_.c_str());
}

std::string KeptFile::description() const {
  return fmt::format("{}, {}", access_.description(), engine_->description());
}

std::span<std::byte> KeptFile::buffer(std::size_t slot) const {
  const auto size = static_cast<std::size_t>(buffer_bytes_);
  return {aligned(memory_.get()) + slot * size, size};
}

void KeptFile::write(std::span<const std::byte> bytes) {
  PHALANX_CHECK(std::ssize(bytes) <= bytes_ - written_, "{}: {} bytes behind {} of {}",
                path_.string(), bytes.size(), written_, bytes_);
  FileAccess access("writing", path_);
  while (!bytes.empty()) {
    const std::span<std::byte> to = room();
    const auto now = bytes.first(std::min(to.size(), bytes.size()));
    std::memcpy(to.data(), now.data(), now.size());
    bytes = bytes.subspan(now.size());
    access.moved(std::ssize(now));
    fill(std::ssize(now));
  }
}

std::span<std::byte> KeptFile::room() {
  while (requests_[slot_].bytes > 0) wait_for_one();
  const auto left = std::min(block_bytes_ - filled_, bytes_ - written_);
  return buffer(slot_).subspan(static_cast<std::size_t>(filled_), static_cast<std::size_t>(left));
}

void KeptFile::fill(std::int64_t bytes) {
  PHALANX_CHECK(bytes <= std::min(block_bytes_ - filled_, bytes_ - written_),
                "{}: {} bytes behind {} of {}", path_.string(), bytes, written_, bytes_);
  filled_ += bytes;
  written_ += bytes;
  if (filled_ == block_bytes_) start_block();
}

// Hands the block that was filled to the engine, and goes on with the next buffer.
void KeptFile::start_block() {
  const std::span<std::byte> memory = buffer(slot_);
  const auto filled = static_cast<std::size_t>(filled_);
  digests_.push_back(xxh3(memory.first(filled)));
  // The end of the file moves as a whole sector; the file is cut to its length afterwards.
  const std::int64_t moved = access_.direct ? round_up(filled_, kStorageAlignment) : filled_;
  std::memset(memory.data() + filled, 0, static_cast<std::size_t>(moved) - filled);
  requests_[slot_] = {.slot = slot_,
                      .is_write = true,
                      .descriptor = file_.get(),
                      .memory = memory.data(),
                      .offset = written_ - filled_,
                      .bytes = moved};
  engine_->submit(requests_[slot_]);
  // An engine may begin as late as the next wait: this one ends at once.
  engine_->wake();
  wait_for_one();
  slot_ = (slot_ + 1) % requests_.size();
  filled_ = 0;
}

void KeptFile::wait_for_one() {
  completions_.clear();
  engine_->wait(completions_);
  std::string fault;
  for (const BlockCompletion& completion : completions_) {
    BlockRequest& request = requests_[completion.slot];
    switch (advance(request, completion.result, access_.direct)) {
      case Moved::kAll:
        note_progress();
        break;
      case Moved::kPart:
        engine_->submit(request);
        break;
      case Moved::kFailed:
        if (fault.empty()) fault = fault_text(path_.string(), request, completion.result);
        request.bytes = 0;
    }
  }
  if (!fault.empty()) throw OutputError("{}", fault);
}

// Waits for what is under way, whatever becomes of it.
void KeptFile::drain() noexcept {
  const auto is_busy = [this] {
    return std::ranges::any_of(requests_, [](const auto& request) { return request.bytes > 0; });
  };
  try {
    while (is_busy()) {
      completions_.clear();
      engine_->wait(completions_);
      for (const BlockCompletion& completion : completions_) requests_[completion.slot].bytes = 0;
    }
  } catch (const std::exception&) {
    // The engine has failed; it ends its requests before the memory goes.
  }
}

std::vector<std::uint64_t> KeptFile::finish() {
  PHALANX_CHECK(written_ == bytes_ && !is_finished_, "{}: {} of {} bytes", path_.string(), written_,
                bytes_);
  const FileAccess access("syncing", path_);
  if (filled_ > 0) start_block();
  for (const BlockRequest& request : requests_) {
    while (request.bytes > 0) wait_for_one();
  }
  if (::ftruncate(file_.get(), bytes_) != 0 || ::fsync(file_.get()) != 0) {
    throw OutputError("{}: cannot sync: {}", path_.string(), std::strerror(errno));
  }
  is_finished_ = true;
  if (Progress* const progress = thread_progress()) progress->add_file();
  return std::move(digests_);
}

}  // namespace phalanx
