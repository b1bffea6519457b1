#include "phalanx/metrics/tensorboard_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <tensorboard.pb.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/machine.h"
#include "phalanx/metrics/crc32c.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

template <typename Integer>
std::string bytes_of(Integer value) {
  static_assert(std::endian::native == std::endian::little);
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

// A CRC over bytes that hold their own CRC is a constant: TFRecord masks it.
std::uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U;
}

std::string framed(std::string_view event) {
  const std::string length = bytes_of(std::uint64_t{event.size()});
  return length + bytes_of(masked_crc(length)) + std::string(event) + bytes_of(masked_crc(event));
}

double seconds_of(TensorBoardFile::Clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

constexpr int kMostFiles = 1000;               // of one process in one second
constexpr std::size_t kMostQueued = 32 << 10;  // bytes

}  // namespace

TensorBoardFile::TensorBoardFile(const fs::path& directory, std::int64_t queue_size,
                                 std::function<Clock::time_point()> now)
    : queue_size_(queue_size), now_(std::move(now)), flushed_(now_()) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) {
    throw OutputError("--tensorboard-dir {}: cannot create: {}", directory.string(),
                      error.message());
  }
  const auto seconds = static_cast<std::int64_t>(seconds_of(now_()));
  fs::path path;
  FileDescriptor file;
  for (int number = 0; !file.is_open() && number < kMostFiles; ++number) {
    path = directory /
           fmt::format("events.out.tfevents.{}.{}.{}.{}", seconds, host_name(), ::getpid(), number);
    file = FileDescriptor(
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644));
    if (!file.is_open() && errno != EEXIST) break;
  }
  if (!file.is_open()) {
    throw OutputError("{}: cannot create: {}", path.string(), std::strerror(errno));
  }
  file_.emplace(std::move(path), std::move(file));
  tensorboard::Event version;
  version.set_file_version("brain.Event:2");
  add(std::move(version));
  flush();
}

void TensorBoardFile::scalar(std::string_view tag, double value, std::int64_t step) {
  tensorboard::Event event;
  event.set_step(step);
  tensorboard::Summary::Value& entry = *event.mutable_summary()->add_value();
  entry.set_tag(std::string(tag));
  entry.set_simple_value(static_cast<float>(value));
  add(std::move(event));
}

void TensorBoardFile::text(std::string_view tag, std::string_view value, std::int64_t step) {
  tensorboard::Event event;
  event.set_step(step);
  tensorboard::Summary::Value& entry = *event.mutable_summary()->add_value();
  // As PyTorch's SummaryWriter names them.
  entry.set_tag(fmt::format("{}/text_summary", tag));
  entry.mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  tensorboard::TensorProto& tensor = *entry.mutable_tensor();
  tensor.set_dtype(tensorboard::DT_STRING);
  tensor.mutable_tensor_shape()->add_dim()->set_size(1);
  tensor.add_string_val(std::string(value));
  add(std::move(event));
}

void TensorBoardFile::restart(std::int64_t step) {
  tensorboard::Event event;
  event.set_step(step);
  event.mutable_session_log()->set_status(tensorboard::SessionLog::START);
  add(std::move(event));
}

void TensorBoardFile::add(tensorboard::Event event) {
  const Clock::time_point now = now_();
  event.set_wall_time(seconds_of(now));
  queue_ += framed(event.SerializeAsString());
  ++queued_;
  const bool is_due = queued_ >= queue_size_ || now - flushed_ >= kFlushInterval;
  if (is_due || queue_.size() >= kMostQueued) flush();
}

void TensorBoardFile::flush() {
  flushed_ = now_();
  queued_ = 0;
  file_->write(std::exchange(queue_, {}));
  struct stat status {};
  if (::fstat(file_->descriptor(), &status) == 0 && status.st_nlink == 0) {
    throw OutputError("{}: somebody has removed it", path().string());
  }
}

}  // namespace phalanx
