#include "phalanx/launch/rank_end.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <nlohmann/json.hpp>

#include "phalanx/base/error.h"

namespace phalanx::launch {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankEnd, rank, host, exit_code, signal, by_launcher,
                                   out_of_memory, after_seconds, detected_seconds, message)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankVerdict, rank, host, code, reason, after_seconds,
                                   detected_seconds)
// Without lists and optional members; to_text() and parse_node_report() handle these.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NodeReport, node, finished, preempted, failed, left_behind,
                                   was_asked_to_stop, was_ended_at_once)

namespace {

using Json = nlohmann::json;

constexpr int kPreempted = static_cast<int>(ErrorCode::kPreempted);
constexpr std::size_t kMostFailures = 12;
constexpr std::size_t kLongestText = 400;  // of a message, in bytes

void shorten(std::string& text) {
  if (text.size() > kLongestText) text.resize(kLongestText);
}

// Failures with a cause of their own come first: the others may be many.
std::vector<RankEnd> first_failures(std::vector<RankEnd> failures) {
  std::ranges::stable_sort(failures, {}, [](const RankEnd& end) { return end.by_launcher; });
  if (failures.size() > kMostFailures) failures.resize(kMostFailures);
  for (RankEnd& end : failures) {
    shorten(end.host);
    shorten(end.message);
  }
  return failures;
}

}  // namespace

bool RankEnd::failed() const { return signal != 0 || (exit_code != 0 && exit_code != kPreempted); }

std::string RankEnd::how() const {
  if (signal == 0) return fmt::format("ended with exit code {}", exit_code);
  return fmt::format("was killed by {}{}", signal_name(signal),
                     out_of_memory ? " (OOM-killer)" : "");
}

std::string to_text(const NodeReport& report) {
  Json json = report;
  json["failures"] = first_failures(report.failures);
  if (report.verdict) {
    RankVerdict verdict = *report.verdict;
    shorten(verdict.host);
    shorten(verdict.reason);
    json["verdict"] = verdict;
  }
  if (report.progress) {
    json["start"] = report.progress->start;
    json["iteration"] = report.progress->iteration;
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

NodeReport parse_node_report(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    auto report = json.get<NodeReport>();
    json.at("failures").get_to(report.failures);
    if (json.contains("verdict")) report.verdict = json.at("verdict").get<RankVerdict>();
    if (json.contains("iteration")) {
      report.progress = SavedProgress{.start = json.at("start").get<std::int64_t>(),
                                      .iteration = json.at("iteration").get<std::int64_t>()};
    }
    return report;
  } catch (const Json::exception& error) {
    throw DataError("what another launcher says of its ranks cannot be read: {}", error.what());
  }
}

bool blames_another(const RankEnd& end) {
  return end.signal == 0 && (end.exit_code == static_cast<int>(ErrorCode::kUnavailable) ||
                             end.exit_code == static_cast<int>(ErrorCode::kTemporary) ||
                             end.exit_code == static_cast<int>(ErrorCode::kHang));
}

std::string signal_name(int signal) {
  const char* const name = ::sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

}  // namespace phalanx::launch
