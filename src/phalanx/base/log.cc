#include "phalanx/base/log.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "phalanx/base/background_writer.h"
#include "phalanx/base/log_receiver.h"

namespace phalanx {
namespace {

constexpr auto kPatienceAtEnd = std::chrono::milliseconds(500);
constexpr auto kMostAtEnd = std::chrono::seconds(5);

class StandardErrorSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  void drop_lines() {
    const std::lock_guard lock(mutex_);
    if (writer_) return;
    std::fflush(stderr);
    writer_.emplace();
    output_ = writer_->add(STDERR_FILENO, {}, /*at_once=*/true);
  }
  bool is_behind() {
    const std::lock_guard lock(mutex_);
    return writer_ && output_.is_behind();
  }
  void wait() {
    const std::lock_guard lock(mutex_);
    if (writer_) writer_->flush(kPatienceAtEnd, kMostAtEnd);
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    if (writer_) {
      output_.write({line.data(), line.size()});
    } else {
      std::fwrite(line.data(), 1, line.size(), stderr);
    }
  }
  void flush_() override { std::fflush(stderr); }

 private:
  std::optional<BackgroundWriter> writer_;  // none: lines wait for their reader
  BackgroundWriter::Output output_;
};

struct Log {
  std::shared_ptr<StandardErrorSink> sink = std::make_shared<StandardErrorSink>();
  spdlog::logger logger{"phalanx", sink};
  std::mutex receiver_mutex;
  LogReceiver receiver;

  Log() {
    logger.set_pattern("%v");
    logger.flush_on(spdlog::level::info);
  }
};

Log& log() {
  static Log instance;
  return instance;
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

// Whether there is a receiver, which has got the lines of the text then.
bool give_to_receiver(LogLevel level, std::string_view text) {
  thread_local bool is_receiving = false;
  if (is_receiving) return false;
  const std::lock_guard lock(log().receiver_mutex);
  if (!log().receiver) return false;
  if (!log().logger.should_log(to_spdlog(level))) return true;
  is_receiving = true;
  while (true) {
    const std::size_t end = text.find('\n');
    log().receiver(level, text.substr(0, end));
    if (end == std::string_view::npos || end + 1 == text.size()) break;
    text.remove_prefix(end + 1);
  }
  is_receiving = false;
  return true;
}

}  // namespace

void set_log_level(LogLevel level) { log().logger.set_level(to_spdlog(level)); }

void log_line(LogLevel level, std::string_view line) {
  if (give_to_receiver(level, line)) return;
  const std::string_view prefix = level == LogLevel::kWarning ? "warning: "
                                  : level == LogLevel::kError ? "error: "
                                                              : "";
  log().logger.log(to_spdlog(level), "{}{}", prefix, line);
}

void set_log_receiver(LogReceiver receiver) {
  const std::lock_guard lock(log().receiver_mutex);
  log().receiver = std::move(receiver);
}

void let_log_drop_lines() { log().sink->drop_lines(); }

bool log_is_behind() { return log().sink->is_behind(); }

void flush_log() { log().sink->wait(); }

}  // namespace phalanx
