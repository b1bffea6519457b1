#include "phalanx/cli/job_environment.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/checkpoint/memory_files.h"
#include "phalanx/flags/encoding.h"
#include "phalanx/saving/job_record.h"

namespace phalanx {
namespace {

std::string text_of(const JobVariable& variable, const char* name) {
  const char* const text = variable(name);
  if (text == nullptr) return "";
  expect_utf8(fmt::format("the environment's {}", name), text);
  return text;
}

std::int64_t count_of(const JobVariable& variable, const char* name) {
  const std::string digits = text_of(variable, name);
  if (digits.empty()) return 0;
  std::int64_t count = 0;
  const char* const last = digits.data() + digits.size();
  const auto [end, fault] = std::from_chars(digits.data(), last, count);
  if (fault != std::errc{} || end != last || count < 0) {
    throw UsageError("the environment's {} is {}, not a count", name, digits);
  }
  return count;
}

// The boot of the machine, the process number, and the start time in ticks, because numbers are
// used again.
std::string parent_process() {
  const auto parent = ::getppid();
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id") >> std::ws, boot);
  std::string stat;
  std::getline(std::ifstream(fmt::format("/proc/{}/stat", parent)) >> std::ws, stat);
  // After the process name, which may hold anything, the start time is the 20th field.
  constexpr int kStart = 20;
  const std::size_t name_end = stat.rfind(')');
  std::istringstream fields(name_end == std::string::npos ? "" : stat.substr(name_end + 1));
  std::string start;
  for (int i = 0; i < kStart; ++i) fields >> start;
  return fmt::format("{}/{}/{}", boot, parent, start);
}

const char* own_variable(const char* name) { return std::getenv(name); }

}  // namespace

std::vector<JobName> job_of_environment(const JobVariable& variable, const std::string& parent) {
  std::vector<JobName> job;
  const std::int64_t attempts = count_of(variable, "TORCHELASTIC_RESTART_COUNT");
  const std::string launch = text_of(variable, "PHALANX_LAUNCH");
  const std::string run_id = text_of(variable, "TORCHELASTIC_RUN_ID");
  if (!launch.empty()) {
    job.push_back({.name = kLaunchJob + launch, .restarts = attempts});
  } else if (!run_id.empty()) {
    job.push_back(
        {.name = fmt::format("torchrun {} of process {}", run_id, parent), .restarts = attempts});
  }
  const std::int64_t requeues = count_of(variable, "SLURM_RESTART_COUNT");
  if (const std::string number = text_of(variable, "SLURM_JOB_ID"); !number.empty()) {
    const std::string cluster = text_of(variable, "SLURM_CLUSTER_NAME");
    job.push_back(
        {.name = fmt::format("Slurm job {}{}{}", cluster, cluster.empty() ? "" : "/", number),
         .restarts = requeues});
  }
  return job;
}

void read_job(RunConfig& run) {
  run.memory_files = text_of(own_variable, kMemoryFilesVariable);
  run.job = job_of_environment(own_variable, parent_process());
  run.restarts = std::max(count_of(own_variable, "TORCHELASTIC_RESTART_COUNT"),
                          count_of(own_variable, "SLURM_RESTART_COUNT"));
}

}  // namespace phalanx
