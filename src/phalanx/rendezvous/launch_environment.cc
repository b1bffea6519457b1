#include "phalanx/rendezvous/launch_environment.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/base/parse_number.h"
#include "phalanx/rendezvous/slurm_lists.h"

namespace phalanx {
namespace {

constexpr std::int64_t kMaxRanks = 1 << 20;
constexpr std::int64_t kMaxPort = 65535;
constexpr std::int64_t kMaxCount = 1'000'000'000;
constexpr std::int64_t kMaxSlurmId = 0xffffffff;
// Steps with this number or a higher one are Slurm's own: the batch script, an interactive shell.
constexpr std::int64_t kFirstOwnStep = 0xfffffff0;
constexpr int kTorchrunPort = 29500;
constexpr std::size_t kMaxRunId = 128;
constexpr std::size_t kMaxNamedRunId = 64;  // characters of it in the name of a socket
constexpr std::string_view kNoRunId = "none";

// The variables that are set and not empty: people clear a variable with `export RANK=`.
class Variables {
 public:
  explicit Variables(const GetVariable& variable) : variable_(variable) {}

  std::optional<std::string> text(const char* name) const {
    const char* value = variable_(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  }

  bool has(const char* name) const { return text(name).has_value(); }

  // The first of `names` that is set.
  const char* first(std::initializer_list<const char*> names) const {
    const auto* const found = std::ranges::find_if(names, [&](auto name) { return has(name); });
    return found == names.end() ? nullptr : *found;
  }

  std::optional<std::int64_t> number(const char* name, std::int64_t least,
                                     std::int64_t most) const {
    const auto value = text(name);
    if (!value) return std::nullopt;
    std::int64_t parsed = -1;
    const char* const end = value->data() + value->size();
    const auto [stopped, error] = std::from_chars(value->data(), end, parsed);
    if (error != std::errc{} || stopped != end || parsed < least || parsed > most)
      throw UsageError("{}={}: expected a whole number from {} to {}", name, shown(*value), least,
                       most);
    return parsed;
  }

  int small_number(const char* name, int fallback, std::int64_t least, std::int64_t most) const {
    return static_cast<int>(number(name, least, most).value_or(fallback));
  }

 private:
  static std::string shown(const std::string& value) {
    std::string clean = value.substr(0, 80);
    std::ranges::replace_if(
        clean, [](char c) { return std::isprint(static_cast<unsigned char>(c)) == 0; }, '?');
    return clean;
  }

  const GetVariable& variable_;
};

bool is_own_address(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

// Equal for all ranks of a run, different for other users, runs and ports; at most 107 bytes.
std::string socket_name(const std::string& run_id, int port) {
  std::string plain;
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a
  for (const char c : run_id) {
    const auto byte = static_cast<unsigned char>(c);
    hash = (hash ^ byte) * 1099511628211U;
    const bool keep = byte < 128 && (std::isalnum(byte) != 0 || c == '-' || c == '_' || c == '.');
    plain += keep ? std::string(1, c) : fmt::format("%{:02x}", byte);
  }
  if (plain.size() > kMaxNamedRunId)
    plain = fmt::format("{}~{:016x}", plain.substr(0, kMaxNamedRunId - 17), hash);
  return fmt::format("phalanx-{}-{}-{}", ::getuid(), plain, port);
}

Endpoint unix_endpoint(const std::string& run_id, int port) {
  return {.kind = Endpoint::Kind::kUnix, .name = socket_name(run_id, port), .host = {}, .port = 0};
}

// Its limits are those of Endpoint::parse().
Endpoint tcp_endpoint(const std::string& host, int port) {
  const bool bare_ipv6 = host.find(':') != std::string::npos && !host.starts_with('[');
  const std::string bracketed = bare_ipv6 ? "[" + host + "]" : host;
  try {
    return Endpoint::parse(fmt::format("tcp:{}:{}", bracketed, port));
  } catch (const Error&) {
    throw UsageError("MASTER_ADDR={}: not a host's name or address", host.substr(0, 80));
  }
}

std::string checked_run_id(const Variables& variables, const char* name) {
  auto run_id = variables.text(name);
  if (run_id && run_id->size() > kMaxRunId)
    throw UsageError("{} has {} characters; at most {}", name, run_id->size(), kMaxRunId);
  return run_id ? *run_id : std::string(kNoRunId);
}

// ---------------------------------------------------------------------------------------------
// RANK, WORLD_SIZE and the other variables of torchrun.

// Without the number of ranks per host: all ranks are on one host, or each is alone on its host.
void place_without_counts(const Variables& variables, LaunchEnvironment& environment) {
  if (variables.has("GROUP_RANK"))
    throw UsageError(
        "GROUP_RANK is set, but LOCAL_WORLD_SIZE, the number of ranks on this host, is not");
  const bool one_host = is_own_address(variables.text("MASTER_ADDR").value_or("localhost"));
  environment.node = one_host ? 0 : environment.rank;
  environment.local_rank = one_host ? environment.rank : 0;
  environment.local_size = one_host ? environment.world_size : 1;
  const int local_rank =
      variables.small_number("LOCAL_RANK", environment.local_rank, 0, kMaxRanks - 1);
  if (local_rank != environment.local_rank)
    throw UsageError(
        "LOCAL_RANK={} is set, but LOCAL_WORLD_SIZE, the number of ranks on this host, is not",
        local_rank);
}

void place_by_counts(const Variables& variables, LaunchEnvironment& environment) {
  const int rank = environment.rank;
  const int world = environment.world_size;
  const int local_size = environment.local_size;
  if (local_size > world)
    throw UsageError("LOCAL_WORLD_SIZE={} is more than WORLD_SIZE={}", local_size, world);
  if (!variables.has("GROUP_RANK") && world % local_size != 0)
    throw UsageError(
        "GROUP_RANK, the number of this host, is not set, and WORLD_SIZE={} is no multiple of "
        "LOCAL_WORLD_SIZE={}",
        world, local_size);
  environment.node = variables.small_number("GROUP_RANK", rank / local_size, 0, kMaxRanks - 1);
  if (!variables.has("LOCAL_RANK") && world % local_size != 0)
    throw UsageError(
        "LOCAL_RANK is not set, and WORLD_SIZE={} is no multiple of LOCAL_WORLD_SIZE={}", world,
        local_size);
  environment.local_rank =
      variables.small_number("LOCAL_RANK", rank % local_size, 0, kMaxRanks - 1);
  if (environment.local_rank >= local_size)
    throw UsageError("LOCAL_RANK={} is not below LOCAL_WORLD_SIZE={}", environment.local_rank,
                     local_size);
  if (local_size < world) return;
  if (environment.node != 0)
    throw UsageError("GROUP_RANK={}, but all {} ranks are on one host (LOCAL_WORLD_SIZE={})",
                     environment.node, world, local_size);
  if (environment.local_rank != rank)
    throw UsageError("LOCAL_RANK={} is not RANK={}, though all ranks are on one host",
                     environment.local_rank, rank);
}

// Where rank 0 listens: it hosts the coordinator, since the launcher is not ours.
void choose_endpoint(const Variables& variables, LaunchEnvironment& environment) {
  int port = variables.small_number("MASTER_PORT", kTorchrunPort, 1, kMaxPort);
  if (environment.local_size == environment.world_size) {
    environment.endpoint = unix_endpoint(environment.run_id, port);
    return;
  }
  const auto host = variables.text("MASTER_ADDR");
  if (!host)
    throw UsageError(
        "MASTER_ADDR, the address of rank 0's host, is not set, and {} ranks are on "
        "other hosts",
        environment.world_size - environment.local_size);
  if (!variables.has("MASTER_PORT"))
    environment.note = fmt::format("MASTER_PORT is not set: rank 0 listens on port {}", port);
  if (variables.text("TORCHELASTIC_USE_AGENT_STORE") == "True") {
    if (port == kMaxPort)
      throw UsageError("MASTER_PORT={}: torchrun listens on it, and there is no next one", port);
    ++port;
    environment.note = fmt::format(
        "torchrun itself listens on MASTER_PORT={}: rank 0 listens on port {}", port - 1, port);
  }
  environment.endpoint = tcp_endpoint(*host, port);
}

std::optional<LaunchEnvironment> read_torchrun(const Variables& variables) {
  const auto rank = variables.number("RANK", 0, kMaxRanks - 1);
  const auto world = variables.number("WORLD_SIZE", 1, kMaxRanks);
  const auto coordinator = variables.text("PHALANX_COORDINATOR");
  const char* const launcher = variables.first({"PHALANX_COORDINATOR", "TORCHELASTIC_RUN_ID"});
  if (!rank && !world && launcher == nullptr) return std::nullopt;
  if (!world) throw UsageError("{} is set, but WORLD_SIZE is not", rank ? "RANK" : launcher);
  if (!rank && (*world > 1 || launcher != nullptr))
    throw UsageError("WORLD_SIZE={} is set, but RANK is not", *world);
  if (rank.value_or(0) >= *world)
    throw UsageError("RANK={} is not below WORLD_SIZE={}", *rank, *world);
  // A single process that was started by hand needs no rendezvous.
  if (*world == 1 && launcher == nullptr) return std::nullopt;

  LaunchEnvironment environment;
  environment.source = coordinator           ? "phalanx launch"
                       : launcher != nullptr ? "torchrun"
                                             : "RANK and WORLD_SIZE";
  environment.rank = static_cast<int>(*rank);
  environment.world_size = static_cast<int>(*world);
  environment.run_id = checked_run_id(variables, "TORCHELASTIC_RUN_ID");
  environment.attempt = variables.small_number("TORCHELASTIC_RESTART_COUNT", 0, 0, kMaxCount);
  environment.local_size = variables.small_number("LOCAL_WORLD_SIZE", 0, 1, kMaxRanks);
  if (environment.local_size == 0) {
    place_without_counts(variables, environment);
  } else {
    place_by_counts(variables, environment);
  }
  if (coordinator) {
    try {
      environment.endpoint = Endpoint::parse(*coordinator);
    } catch (const Error& error) {
      throw UsageError("PHALANX_COORDINATOR={}", error.what());
    }
    return environment;
  }
  environment.hosts_coordinator = environment.rank == 0;
  choose_endpoint(variables, environment);
  return environment;
}

// ---------------------------------------------------------------------------------------------
// Slurm.

// Whether srun started this process as a rank. In a step of one task, a shell of srun's say, ranks
// may have been started by hand.
bool is_slurm_task(const Variables& variables) {
  const auto step = variables.number("SLURM_STEP_ID", 0, kMaxSlurmId);
  if (!step || *step >= kFirstOwnStep) return false;
  const char* const tasks = variables.first({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"});
  if (tasks == nullptr) return false;
  return *variables.number(tasks, 1, kMaxRanks) > 1 ||
         (!variables.has("RANK") && !variables.has("WORLD_SIZE"));
}

// What people export by hand in a script of Slurm's must be what Slurm says.
void expect_same(const Variables& variables, const char* by_hand, std::string_view of_slurm,
                 int value) {
  const auto set = variables.number(by_hand, 0, kMaxRanks);
  if (set && *set != value)
    throw UsageError("{}={} is set, but {}={}: unset {}, or start the ranks without srun", by_hand,
                     *set, of_slurm, value, by_hand);
}

int required(const Variables& variables, const char* name) {
  const auto value = variables.number(name, 0, kMaxRanks - 1);
  if (!value) throw UsageError("SLURM_STEP_ID is set, but {} is not", name);
  return static_cast<int>(*value);
}

// Uses the step's numbers if Slurm sets them, else the job's, which differ only if the step uses a
// part of the job.
void place_by_slurm(const Variables& variables, LaunchEnvironment& environment) {
  const char* const tasks = variables.first({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"});
  environment.world_size = variables.small_number(tasks, 1, 1, kMaxRanks);
  environment.rank = required(variables, "SLURM_PROCID");
  environment.local_rank = required(variables, "SLURM_LOCALID");
  environment.node = required(variables, "SLURM_NODEID");
  if (environment.rank >= environment.world_size)
    throw UsageError("SLURM_PROCID={} is not below {}={}", environment.rank, tasks,
                     environment.world_size);
  const char* const list = variables.first({"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"});
  if (list == nullptr)
    throw UsageError("SLURM_STEP_ID is set, but SLURM_STEP_TASKS_PER_NODE is not");
  const auto counted = rendezvous::slurm_tasks(list, *variables.text(list), environment.node);
  if (counted.tasks != environment.world_size)
    throw UsageError("{}={} are {} tasks, but {}={}", list, *variables.text(list), counted.tasks,
                     tasks, environment.world_size);
  environment.local_size = counted.of_host;
  if (environment.local_rank >= environment.local_size)
    throw UsageError("SLURM_LOCALID={} is not below the {} tasks of this host ({}={})",
                     environment.local_rank, environment.local_size, list, *variables.text(list));
  expect_same(variables, "RANK", "SLURM_PROCID", environment.rank);
  expect_same(variables, "WORLD_SIZE", tasks, environment.world_size);
  expect_same(variables, "LOCAL_RANK", "SLURM_LOCALID", environment.local_rank);
}

// Below the range of automatic ports; different for other jobs and steps.
int slurm_port(std::int64_t job, std::int64_t step) {
  constexpr std::int64_t kFirst = 10000;
  constexpr std::int64_t kPorts = 20000;
  constexpr std::int64_t kBetweenSteps = 7919;
  return static_cast<int>(kFirst + (job + step * kBetweenSteps) % kPorts);
}

LaunchEnvironment read_slurm(const Variables& variables) {
  const auto job = variables.number("SLURM_JOB_ID", 0, kMaxSlurmId);
  if (!job) throw UsageError("SLURM_STEP_ID is set, but SLURM_JOB_ID is not");
  const std::int64_t step = *variables.number("SLURM_STEP_ID", 0, kMaxSlurmId);
  LaunchEnvironment environment;
  environment.source = "Slurm";
  place_by_slurm(variables, environment);
  environment.run_id = fmt::format("{}.{}", *job, step);
  environment.attempt = variables.small_number("SLURM_RESTART_COUNT", 0, 0, kMaxCount);
  environment.hosts_coordinator = environment.rank == 0;
  const int port = variables.small_number("MASTER_PORT", slurm_port(*job, step), 1, kMaxPort);
  if (environment.local_size == environment.world_size) {
    environment.endpoint = unix_endpoint(environment.run_id, port);
    return environment;
  }
  auto host = variables.text("MASTER_ADDR");
  if (!host) {
    const char* const list =
        variables.first({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"});
    if (list == nullptr)
      throw UsageError("MASTER_ADDR is not set, nor is SLURM_STEP_NODELIST: set one of them");
    host = rendezvous::first_slurm_host(list, *variables.text(list));
  }
  environment.endpoint = tcp_endpoint(*host, port);
  if (!variables.has("MASTER_PORT"))
    environment.note = fmt::format(
        "MASTER_PORT is not set: rank 0 listens on port {}, made of the job's and the step's "
        "number",
        port);
  return environment;
}

}  // namespace

std::optional<LaunchEnvironment> read_launch_environment(const GetVariable& variable) {
  const Variables variables(variable);
  const bool launched =
      variables.has("PHALANX_COORDINATOR") || variables.has("TORCHELASTIC_RUN_ID");
  if (!launched && is_slurm_task(variables)) return read_slurm(variables);
  return read_torchrun(variables);
}

std::optional<LaunchEnvironment> read_launch_environment() {
  return read_launch_environment([](const char* name) -> const char* { return std::getenv(name); });
}

std::optional<int> launched_rank(const GetVariable& variable) {
  const Variables variables(variable);
  const char* const name = variables.first({"RANK", "SLURM_PROCID"});
  const auto rank = name == nullptr ? std::nullopt : parse_number<int>(*variables.text(name));
  return rank && *rank >= 0 ? rank : std::nullopt;
}

std::optional<int> launched_rank() {
  return launched_rank([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace phalanx
