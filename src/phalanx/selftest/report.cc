#include "phalanx/selftest/report.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

// Texts of drivers need not be UTF-8; a number that is not finite is null.
std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string list_of(const std::vector<std::string>& rows) {
  if (rows.empty()) return "[]";
  return fmt::format("[\n    {}]", fmt::join(rows, ",\n    "));
}

}  // namespace

SelftestReport::SelftestReport(Options options, std::string device, std::string versions)
    : options_(std::move(options)), device_(std::move(device)), versions_(std::move(versions)) {
  if (options_.folder) {
    const auto path = *options_.folder / "selftest.txt";
    if (!std::ofstream(path, std::ios::trunc))
      throw OutputError("{}: cannot be written", path.string());
    write_json(false);
  }
  watcher_ = std::thread([this] { watch(); });
}

SelftestReport::~SelftestReport() {
  ended_ = true;
  watcher_.join();
}

void SelftestReport::begin(const std::string& name, double seconds) {
  if (options_.is_stopped && options_.is_stopped()) throw SelftestStopped();
  const std::lock_guard<std::mutex> lock(mutex_);
  step_ = name;
  limit_ = seconds * options_.patience;
  until_ = Clock::now() +
           std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit_));
}

void SelftestReport::add(const CheckResult& result) {
  const std::lock_guard<std::mutex> lock(mutex_);
  add_locked(result);
}

void SelftestReport::add_locked(const CheckResult& result) {
  step_.clear();
  ++(result.passed ? passed_ : failed_);
  Json json = {{"name", result.name},
               {"passed", result.passed},
               {"error", result.error},
               {"tolerance", result.tolerance},
               {"seconds", result.seconds}};
  if (!result.more.empty()) json["more"] = result.more;
  checks_.push_back(text_of(json));
  std::string line = fmt::format("{} {}", result.passed ? "ok    " : "FAILED", result.name);
  if (result.tolerance > 0) {
    line = fmt::format("{:<66} error {:.2e} of {:.2e}", line, result.error, result.tolerance);
  }
  if (!result.more.empty()) line += (result.passed ? "  (" : ": ") + result.more;
  if (!result.more.empty() && result.passed) line += ")";
  write_json(false);
  show(line);
}

void SelftestReport::add(const RateResult& result) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Json json = {{"name", result.name},
               {"value", result.value},
               {"unit", result.unit},
               {"share_of_peak", result.share_of_peak}};
  if (!result.choice.empty()) json["choice"] = result.choice;
  rates_.push_back(text_of(json));
  std::string line =
      fmt::format("{:<66} {:9.1f} {}", "rate   " + result.name, result.value, result.unit);
  if (result.share_of_peak > 0) line += fmt::format(", {:.1f} %", 100 * result.share_of_peak);
  if (!result.choice.empty()) line += ", algorithm " + result.choice;
  write_json(false);
  show(line);
}

void SelftestReport::note(const std::string& line) {
  const std::lock_guard<std::mutex> lock(mutex_);
  show(line);
}

void SelftestReport::finish() {
  const std::lock_guard<std::mutex> lock(mutex_);
  step_.clear();
  write_json(true);
  show(fmt::format("{} passed, {} failed", passed_, failed_));
}

void SelftestReport::show(const std::string& line) {
  if (options_.folder) {
    std::ofstream(*options_.folder / "selftest.txt", std::ios::app) << line << '\n';
  }
  if (options_.put) options_.put(line + "\n");
}

void SelftestReport::write_json(bool complete) const {
  if (!options_.folder) return;
  const auto path = *options_.folder / "selftest.json";
  std::ofstream file(path, std::ios::trunc);
  file << fmt::format(
      "{{\"device\": {},\n \"versions\": {},\n \"checks\": {},\n \"rates\": {},\n \"failed\": "
      "{},\n "
      "\"complete\": {}}}\n",
      device_, versions_, list_of(checks_), list_of(rates_), failed_, complete);
  if (!file.flush()) throw OutputError("{}: cannot be written", path.string());
}

void SelftestReport::watch() {
  while (!ended_) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (step_.empty() || Clock::now() < until_) continue;
      const CheckResult result{
          .name = step_,
          .passed = false,
          .seconds = limit_,
          .more = fmt::format("it takes longer than its limit of {:.3g} s", limit_)};
      try {
        add_locked(result);
      } catch (const OutputError& error) {
        // Nobody catches on this thread, and a check that hangs ends the program all the same.
        if (options_.put) options_.put(fmt::format("FAILED {}: {}\n", result.name, error.what()));
      }
    }
    if (options_.hangs) options_.hangs();
  }
}

}  // namespace phalanx
