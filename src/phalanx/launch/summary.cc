#include "phalanx/launch/summary.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"

namespace phalanx::launch {
namespace {

// Keys stand in the order in which they are given.
using Json = nlohmann::ordered_json;

Json json_of(const AttemptSummary& attempt) {
  if (!attempt.culprit) return nullptr;
  const Culprit& culprit = *attempt.culprit;
  return {{"rank", culprit.rank},
          {"host", culprit.host},
          {"attempt", attempt.attempt},
          {"reason", culprit.reason},
          {"detected_after_s", culprit.detected_after_seconds},
          {"message", culprit.message}};
}

std::string count_of(int count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace

std::string summary_json(const RunSummary& summary) {
  Json ends = Json::array();
  for (const AttemptSummary& attempt : summary.attempts) {
    ends.push_back({{"attempt", attempt.attempt},
                    {"exit", attempt.exit_status},
                    {"culprit", json_of(attempt)}});
  }
  const Json json = {
      {"run", summary.run},
      {"attempts", summary.attempts.size()},
      {"exit", summary.exit_status},
      {"world_size", summary.world_size},
      {"culprit", summary.attempts.empty() ? Json(nullptr) : json_of(summary.attempts.back())},
      {"attempt_ends", ends}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string write_summary(const std::filesystem::path& path, const RunSummary& summary) {
  try {
    write_file_durably(path, summary_json(summary));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string last_line(const Outcome& outcome, int world_size, int exit_status,
                      const std::optional<SavedProgress>& saved) {
  const std::string end = fmt::format("; exit {}", exit_status);
  if (outcome.culprit) {
    const std::string others =
        world_size > 1 ? "; " + count_of(world_size - 1, "other rank") + " stopped" : "";
    return fmt::format("phalanx launch: {}{}{}", outcome.culprit->text, others, end);
  }
  if (outcome.was_ended_at_once) return "phalanx launch: ended by a second Ctrl-C" + end;
  if (outcome.preempted > 0) {
    return fmt::format(
        "phalanx launch: asked to leave; {} left; {}{}", count_of(outcome.preempted, "rank"),
        saved ? fmt::format("iteration {} is saved", saved->iteration) : "nothing is saved yet",
        end);
  }
  if (outcome.failed > 0) return "phalanx launch: ranks failed" + end;
  if (outcome.finished == 0) return "phalanx launch: asked to leave before the start" + end;
  return fmt::format("phalanx launch: {} finished{}", count_of(outcome.finished, "rank"), end);
}

}  // namespace phalanx::launch
