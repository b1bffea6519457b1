#pragma once
// The results of a selftest: shown, and kept in selftest.txt and selftest.json after each of them,
// so that a machine that hangs or is taken away leaves what was done.

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "phalanx/ops/device_check.h"

namespace phalanx {

// Thrown by begin() when somebody asks to stop.
struct SelftestStopped {};

class SelftestReport final : public CheckSink {
 public:
  struct Options {
    std::function<void(std::string_view)> put = {};  // shows a line
    // Of the two files; nothing: they are not written.
    std::optional<std::filesystem::path> folder = {};
    double patience = 1;  // limits are multiplied by it
    // Called when a check takes longer than its limit, after that was told and written.
    std::function<void()> hangs = {};
    std::function<bool()> is_stopped = {};
  };
  // JSON objects: what is tested, and with what. OutputError if the files cannot be written.
  SelftestReport(Options options, std::string device, std::string versions);
  ~SelftestReport() override;
  SelftestReport(const SelftestReport&) = delete;
  SelftestReport& operator=(const SelftestReport&) = delete;

  void begin(const std::string& name, double seconds) override;
  void add(const CheckResult& result) override;
  void add(const RateResult& result) override;
  // A line for people.
  void note(const std::string& line);
  // The last line; the file of JSON says that all was done.
  void finish();

  int passed() const { return passed_; }
  int failed() const { return failed_; }

 private:
  // With the lock.
  void add_locked(const CheckResult& result);
  void show(const std::string& line);
  void write_json(bool complete) const;
  void watch();

  Options options_;
  std::string device_;
  std::string versions_;
  std::mutex mutex_;
  std::vector<std::string> checks_;  // JSON
  std::vector<std::string> rates_;
  int passed_ = 0;
  int failed_ = 0;
  std::string step_;  // empty: nothing is under way
  double limit_ = 0;  // seconds
  std::chrono::steady_clock::time_point until_;
  std::atomic<bool> ended_ = false;
  std::thread watcher_;
};

}  // namespace phalanx
