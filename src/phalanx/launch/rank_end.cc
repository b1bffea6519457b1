#include "phalanx/launch/rank_end.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <nlohmann/json.hpp>

#include "phalanx/base/error.h"

namespace phalanx::launch {
namespace {

using Json = nlohmann::json;

constexpr int kPreempted = static_cast<int>(ErrorCode::kPreempted);
constexpr std::size_t kMostFailures = 12;
constexpr std::size_t kLongestText = 400;  // of a message, in bytes

std::string shortened(const std::string& text) { return text.substr(0, kLongestText); }

Json json_of(const RankEnd& end) {
  return {{"rank", end.rank},
          {"host", shortened(end.host)},
          {"exit_code", end.exit_code},
          {"signal", end.signal},
          {"by_launcher", end.by_launcher},
          {"out_of_memory", end.out_of_memory},
          {"after_seconds", end.after_seconds},
          {"detected_seconds", end.detected_seconds},
          {"message", shortened(end.message)}};
}

RankEnd end_of(const Json& json) {
  return {.rank = json.at("rank").get<int>(),
          .host = json.at("host").get<std::string>(),
          .exit_code = json.at("exit_code").get<int>(),
          .signal = json.at("signal").get<int>(),
          .by_launcher = json.at("by_launcher").get<bool>(),
          .out_of_memory = json.at("out_of_memory").get<bool>(),
          .after_seconds = json.at("after_seconds").get<double>(),
          .detected_seconds = json.at("detected_seconds").get<double>(),
          .message = json.at("message").get<std::string>()};
}

Json json_of(const RankVerdict& verdict) {
  return {{"rank", verdict.rank},
          {"host", shortened(verdict.host)},
          {"code", static_cast<int>(verdict.code)},
          {"reason", shortened(verdict.reason)},
          {"after_seconds", verdict.after_seconds},
          {"detected_seconds", verdict.detected_seconds}};
}

RankVerdict verdict_of(const Json& json) {
  return {.rank = json.at("rank").get<int>(),
          .host = json.at("host").get<std::string>(),
          .code = static_cast<ErrorCode>(json.at("code").get<int>()),
          .reason = json.at("reason").get<std::string>(),
          .after_seconds = json.at("after_seconds").get<double>(),
          .detected_seconds = json.at("detected_seconds").get<double>()};
}

// Failures with a cause of their own come first: the others may be many.
std::vector<RankEnd> first_failures(std::vector<RankEnd> failures) {
  std::ranges::stable_sort(failures, {}, [](const RankEnd& end) { return end.by_launcher; });
  if (failures.size() > kMostFailures) failures.resize(kMostFailures);
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
  Json json = {{"node", report.node},
               {"finished", report.finished},
               {"preempted", report.preempted},
               {"failed", report.failed},
               {"left_behind", report.left_behind},
               {"was_asked_to_stop", report.was_asked_to_stop},
               {"was_ended_at_once", report.was_ended_at_once},
               {"failures", Json::array()}};
  for (const RankEnd& end : first_failures(report.failures)) {
    json["failures"].push_back(json_of(end));
  }
  if (report.verdict) json["verdict"] = json_of(*report.verdict);
  if (report.progress) {
    json["start"] = report.progress->start;
    json["iteration"] = report.progress->iteration;
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

NodeReport parse_node_report(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    NodeReport report{.node = json.at("node").get<int>(),
                      .finished = json.at("finished").get<int>(),
                      .preempted = json.at("preempted").get<int>(),
                      .failed = json.at("failed").get<int>(),
                      .left_behind = json.at("left_behind").get<int>(),
                      .was_asked_to_stop = json.at("was_asked_to_stop").get<bool>(),
                      .was_ended_at_once = json.at("was_ended_at_once").get<bool>(),
                      .failures = {},
                      .verdict = {}};
    for (const Json& end : json.at("failures")) report.failures.push_back(end_of(end));
    if (json.contains("verdict")) report.verdict = verdict_of(json.at("verdict"));
    if (json.contains("iteration")) {
      report.progress = SavedProgress{.start = json.at("start").get<std::int64_t>(),
                                      .iteration = json.at("iteration").get<std::int64_t>()};
    }
    return report;
  } catch (const Json::exception& error) {
    throw DataError("what another launcher says of its ranks cannot be read: {}", error.what());
  }
}

std::string signal_name(int signal) {
  const char* const name = ::sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

}  // namespace phalanx::launch
