#pragma once
// TensorBoard's event file: records of one event each, in TFRecord's frames - the length as 8
// bytes, its masked CRC-32C, the event (tensorboard.proto), its masked CRC-32C; all little-endian.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "phalanx/metrics/appended_file.h"

namespace phalanx {

namespace tensorboard {
class Event;
}

class TensorBoardFile {
 public:
  using Clock = std::chrono::system_clock;
  // How TensorBoard's own writer flushes.
  static constexpr std::chrono::seconds kFlushInterval{120};

  // Creates the directory if it does not exist, and a file in it,
  // events.out.tfevents.<seconds>.<host>.<process>.<number>, with the first free number. Events are
  // written when there are `queue_size`, after kFlushInterval or at 32 KiB. OutputError where the
  // file cannot be made, and below where it is gone.
  TensorBoardFile(const std::filesystem::path& directory, std::int64_t queue_size,
                  std::function<Clock::time_point()> now = Clock::now);
  TensorBoardFile(const TensorBoardFile&) = delete;
  TensorBoardFile& operator=(const TensorBoardFile&) = delete;
  // Events that were not flushed are lost.
  ~TensorBoardFile() = default;

  const std::filesystem::path& path() const { return file_->path(); }

  void scalar(std::string_view tag, double value, std::int64_t step);
  // `value` is Markdown.
  void text(std::string_view tag, std::string_view value, std::int64_t step);
  // TensorBoard forgets the events of other files from this step on.
  void restart(std::int64_t step);
  void flush();

 private:
  void add(tensorboard::Event event);

  std::int64_t queue_size_;
  std::function<Clock::time_point()> now_;
  std::optional<AppendedFile> file_;
  std::string queue_;  // records
  std::int64_t queued_ = 0;
  Clock::time_point flushed_;
};

}  // namespace phalanx
