#include "phalanx/launch/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/machine.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/launch/python_script.h"

namespace phalanx::launch {
namespace {

using Words = std::vector<std::string>;

constexpr int kMostRanksPerNode = 4096;
constexpr int kMostNodes = 65536;
constexpr std::string_view kFlagsInUsage = "[FLAGS]";
constexpr int kMostPort = 65535;
constexpr std::size_t kLongestRunId = 128;
constexpr std::int64_t kLongestJoin = 7 * 24 * 3600;  // s

// What the rows are bound to.
struct FlagValues {
  std::string ranks = "1";
  std::string nodes = "1";
  std::int64_t node = 0;
  std::string master_address;
  std::int64_t master_port = 29500;
  std::string endpoint;
  std::string run_id;
  std::string rendezvous_settings;
  bool standalone = false;
  std::int64_t max_restarts = 0;
  std::string log_directory;
  std::string redirects = "0";
  std::string tee = "0";
  std::string console_ranks;
  std::string role = "default";
  std::string signals = "SIGTERM,SIGINT,SIGHUP,SIGUSR1,SIGUSR2";
  std::string secret_file;
  bool insecure = false;
  bool bind_any = false;
  bool virtual_local_rank = false;
};

void add_rank_flags(FlagSet& flags, FlagValues& values) {
  flags.section("Ranks");
  flags.add({.name = "--nproc-per-node",
             .help = "Ranks of this node: a number, or auto or cpu: one for each usable core",
             .value_name = "N"},
            &values.ranks);
  flags.add({.name = "--nnodes", .help = "Nodes of the run", .value_name = "N"}, &values.nodes);
  flags.add({.name = "--node-rank",
             .help = "This node's number; 0 is where the rendezvous is",
             .range = from_to(0, kMostNodes - 1)},
            &values.node);
  flags.add({.name = "--max-restarts",
             .help = "How often the ranks are started again after a failure that may pass",
             .range = from_to(0, 1000000)},
            &values.max_restarts);
  flags.add({.name = "--role", .help = "ROLE_NAME of the ranks"}, &values.role);
  flags.add({.name = "--virtual-local-rank", .help = "Tell every rank that its LOCAL_RANK is 0"},
            &values.virtual_local_rank);
  flags.add({.name = "--signals-to-handle",
             .help = "Signals that ask the run to save and leave",
             .value_name = "NAMES"},
            &values.signals);
}

void add_rendezvous_flags(FlagSet& flags, FlagValues& values) {
  flags.section("Rendezvous");
  flags.add({.name = "--master-addr",
             .help = "Address of node 0, where the nodes meet",
             .value_name = "HOST"},
            &values.master_address);
  flags.add({.name = "--master-port",
             .help = "Port there; on one node no port is opened",
             .range = from_to(0, kMostPort)},
            &values.master_port);
  flags.add({.name = "--rdzv-endpoint",
             .help = "The same in one",
             .value_name = "HOST[:PORT]",
             .excludes = "--master-addr --master-port"},
            &values.endpoint);
  flags.add(
      {.name = "--rdzv-id",
       .help = "The run's name, the same on all nodes: of its logs, and in TORCHELASTIC_RUN_ID",
       .value_name = "NAME"},
      &values.run_id);
  flags.add({.name = "--rdzv-secret-file",
             .help = "The secret of a run on several nodes: a file of 16 bytes or more that nobody "
                     "else may read (also PHALANX_RDZV_SECRET_FILE)",
             .value_name = "FILE"},
            &values.secret_file);
  flags.add({.name = "--rdzv-insecure",
             .help = "Several nodes without a secret: whoever reaches the port can join",
             .excludes = "--rdzv-secret-file"},
            &values.insecure);
  flags.add({.name = "--rdzv-bind-any",
             .help = "Listen on all interfaces, not on the one of --master-addr alone"},
            &values.bind_any);
  flags.add({.name = "--rdzv-conf",
             .help = "join_timeout=SECONDS: how long nodes and ranks are waited for",
             .value_name = "KEY=VALUE,..."},
            &values.rendezvous_settings);
  flags.add({.name = "--standalone", .help = "This node alone"}, &values.standalone);
}

void add_output_flags(FlagSet& flags, FlagValues& values) {
  flags.section("Output");
  flags.add({.name = "--log-dir",
             .help = "DIR/RUN/attempt_K/rank_N.{out,err} and DIR/RUN/summary.json",
             .value_name = "DIR"},
            &values.log_directory);
  flags.add({.name = "--redirects",
             .help = "Streams that go to the log files alone: 1 standard output, 2 standard error, "
                     "3 both; or by local rank, 0:1,1:3",
             .value_name = "STREAMS",
             .needs = "--log-dir"},
            &values.redirects);
  flags.add({.name = "--tee",
             .help = "Streams of which the console shows every line, too",
             .value_name = "STREAMS"},
            &values.tee);
  flags.add({.name = "--local-ranks-filter",
             .help = "The console shows these local ranks alone",
             .value_name = "N,N,..."},
            &values.console_ranks);
}

// torchrun's flags that need nothing here, or make no sense.
void add_answered_flags(FlagSet& flags) {
  flags.section("Others of torchrun's");
  const auto satisfied = [&](std::string_view name, FlagType type, std::string_view reason,
                             std::string_view by = {}, std::string_view otherwise = {}) {
    flags.add({.name = name,
               .type = type,
               .state = FlagState::kSatisfied,
               .reason = reason,
               .satisfied_by = by,
               .otherwise = otherwise});
  };
  const auto refused = [&](std::string_view name, FlagType type, std::string_view reason) {
    flags.add({.name = name, .type = type, .state = FlagState::kRefused, .reason = reason});
  };
  satisfied("--rdzv-backend", FlagType::kText, "nodes always meet at node 0", "static c10d",
            "nodes meet at node 0 (--rdzv-endpoint), no other service is asked: leave it out");
  satisfied("--monitor-interval", FlagType::kReal, "the end of a rank is told at once, unasked");
  satisfied("--start-method", FlagType::kText, "ranks are programs of their own", "spawn",
            "ranks are programs of their own, which are started anew: leave it out");
  satisfied("--no-python", FlagType::kSwitch, "nothing runs under Python");
  satisfied("--use-env", FlagType::kSwitch, "ranks read their places from the environment");
  satisfied("--local-addr", FlagType::kText,
            "a node's address is that of the interface which reaches node 0");
  satisfied(
      "--shutdown-timeout", FlagType::kReal,
      "after a failure ranks have a second to leave, another one after SIGTERM; a pre-emption "
      "waits for the save");
  refused("--module", FlagType::kSwitch,
          "nothing runs under Python: a phalanx command follows the flags, pretrain gpt ...");
  refused("--run-path", FlagType::kSwitch,
          "nothing runs under Python: a phalanx command follows the flags, pretrain gpt ...");
  refused("--numa-binding", FlagType::kText,
          "the ranks of a node bind themselves to their shares of its cores, neighbours together; "
          "leave it out (pretrain --no-cpu-affinity: no binding)");
  refused("--logs-specs", FlagType::kText,
          "there is one form of logs: --log-dir, --tee, --redirects");
  refused("--event-log-handler", FlagType::kText,
          "events are told on the console and in summary.json");
  for (const std::string_view name : {"--duplicate-stdout-filters", "--duplicate-stderr-filters"}) {
    refused(name, FlagType::kList, "streams are not filtered: search the files of --log-dir");
  }
}

// The flags that torchrun takes from PET_ variables, before those that are given, which win.
Words with_variables(const FlagSet& flags, const Words& arguments, const GetVariable& variable) {
  Words words;
  for (const FlagRow& row : flags.rows()) {
    std::string name = "PET" + std::string(row.spec.name.substr(1));
    std::ranges::replace(name, '-', '_');
    std::ranges::transform(name, name.begin(), [](char c) {
      return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    });
    const char* const value = variable(name.c_str());
    if (value == nullptr || *value == '\0') continue;
    if (row.type != FlagType::kSwitch) {
      words.push_back(fmt::format("{}={}", row.spec.name, value));
    } else if (std::string_view(value) != "0" && std::string_view(value) != "False") {
      words.emplace_back(row.spec.name);
    }
  }
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

// torchrun's letters.
Words spelt_out(Words words) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kLetters = {
      {{"-r", "--redirects"}, {"-t", "--tee"}, {"-m", "--module"}}};
  for (std::string& word : words) {
    if (word == "--") break;
    for (const auto& [letter, name] : kLetters) {
      if (word == letter) word = name;
    }
  }
  return words;
}

struct SplitWords {
  Words flags;
  Words command;
  std::string unknown;  // the first word that is neither a flag, nor its value, nor a command
};

// Whether the word behind it is the flag's value.
bool takes_next_word(const FlagSet& flags, std::string word) {
  if (word.find('=') != std::string::npos) return false;
  std::ranges::replace(word, '_', '-');
  const auto row =
      std::ranges::find_if(flags.rows(), [&](const FlagRow& one) { return one.spec.name == word; });
  return row != flags.rows().end() && row->type != FlagType::kSwitch;
}

SplitWords split_words(const FlagSet& flags, const Words& words, const IsCommand& is_command) {
  SplitWords split;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool is_end = words[i] == "--";
    if (is_end || (!words[i].starts_with("-") && is_command(words[i]))) {
      split.command.assign(words.begin() + static_cast<std::ptrdiff_t>(i + (is_end ? 1 : 0)),
                           words.end());
      return split;
    }
    const bool has_value = words[i].starts_with("-") && takes_next_word(flags, words[i]);
    if (!words[i].starts_with("-") && split.unknown.empty()) split.unknown = words[i];
    split.flags.push_back(words[i]);
    if (has_value && i + 1 < words.size() && words[i + 1] != "--") {
      split.flags.push_back(words[++i]);
    }
  }
  return split;
}

[[noreturn]] void refuse_command(const std::string& word, const FlagValues& values) {
  if (const auto meant = command_of_script(word)) {
    throw UsageError(
        "{}: nothing runs under Python here: give a command in its place, with the same flags "
        "behind it: phalanx launch --nproc-per-node {} {} ...",
        word, values.ranks, *meant);
  }
  throw UsageError(
      "{} is no command that the ranks could run (phalanx --help lists them): phalanx launch "
      "--nproc-per-node {} pretrain gpt ...",
      word, values.ranks);
}

int number_of(std::string_view text, std::string_view flag, int most) {
  int value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc{} || end != text.data() + text.size() || value < 0 || value > most) {
    throw UsageError("{} {}: must be a number from 0 to {}", flag, text, most);
  }
  return value;
}

int ranks_of(const std::string& text) {
  if (text == "auto" || text == "cpu") return usable_cores().count;
  if (text == "gpu" || text == "cuda" || text == "xpu") {
    throw ConfigError("--nproc-per-node {}: ranks compute on processors here: auto or a number",
                      text);
  }
  const int ranks = number_of(text, "--nproc-per-node", kMostRanksPerNode);
  if (ranks == 0) throw UsageError("--nproc-per-node 0: must be at least 1");
  return ranks;
}

int nodes_of(const std::string& text) {
  const std::size_t colon = text.find(':');
  const int least = number_of(std::string_view(text).substr(0, colon), "--nnodes", kMostNodes);
  if (least == 0) throw UsageError("--nnodes {}: must be at least 1", text);
  if (colon == std::string::npos) return least;
  const int most = number_of(std::string_view(text).substr(colon + 1), "--nnodes", kMostNodes);
  if (most != least) {
    throw ConfigError(
        "--nnodes {}: the layout of a run is that of one world size, nodes neither come nor go "
        "while it runs: give one number, and start it again on other nodes (a checkpoint resumes "
        "under any layout)",
        text);
  }
  return least;
}

// "HOST", "HOST:PORT", "[::1]:PORT", "::1".
void read_endpoint(const std::string& text, LaunchOptions& options) {
  std::string host = text;
  std::string port;
  if (text.starts_with("[")) {
    const std::size_t end = text.find(']');
    if (end == std::string::npos) throw UsageError("--rdzv-endpoint {}: ] is missing", text);
    host = text.substr(1, end - 1);
    const std::string rest = text.substr(end + 1);
    if (!rest.empty() && rest[0] != ':') {
      throw UsageError("--rdzv-endpoint {}: must be HOST[:PORT]", text);
    }
    port = rest.empty() ? "" : rest.substr(1);
  } else if (std::ranges::count(text, ':') == 1) {
    host = text.substr(0, text.find(':'));
    port = text.substr(text.find(':') + 1);
  }
  if (host.empty()) throw UsageError("--rdzv-endpoint {}: the host is missing", text);
  options.master_address = host;
  if (!port.empty()) options.master_port = number_of(port, "--rdzv-endpoint", kMostPort);
}

std::vector<std::string_view> between_commas(std::string_view text) {
  std::vector<std::string_view> items;
  for (bool more = !text.empty(); more;) {
    const std::size_t comma = text.find(',');
    more = comma != std::string_view::npos;
    if (comma != 0 && !text.empty()) items.push_back(text.substr(0, comma));
    text.remove_prefix(more ? comma + 1 : text.size());
  }
  return items;
}

// Of torchrun's keys those that other rendezvous know are no settings of this one.
void read_settings(const std::string& text, LaunchOptions& options) {
  for (const std::string_view item : between_commas(text)) {
    const std::size_t equals = item.find('=');
    const std::string_view key = item.substr(0, equals);
    if (equals == std::string_view::npos || (key != "join_timeout" && key != "timeout")) {
      throw ConfigError("--rdzv-conf {}: the one setting is join_timeout=SECONDS", item);
    }
    const int seconds =
        number_of(item.substr(equals + 1), "--rdzv-conf", static_cast<int>(kLongestJoin));
    options.join_timeout = std::chrono::seconds(std::max(seconds, 1));
  }
}

std::vector<int> signals_of(const std::string& text) {
  constexpr std::array<std::pair<std::string_view, int>, 6> kSignals = {{{"SIGTERM", SIGTERM},
                                                                         {"SIGINT", SIGINT},
                                                                         {"SIGHUP", SIGHUP},
                                                                         {"SIGQUIT", SIGQUIT},
                                                                         {"SIGUSR1", SIGUSR1},
                                                                         {"SIGUSR2", SIGUSR2}}};
  std::vector<int> signals;
  for (const std::string_view name : between_commas(text)) {
    const auto known = std::ranges::find_if(kSignals, [&](const auto& one) {
      return one.first == name || one.first.substr(3) == name;
    });
    if (known == kSignals.end()) {
      throw UsageError(
          "--signals-to-handle {}: {} is none of SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, "
          "SIGUSR2",
          text, name);
    }
    signals.push_back(known->second);
  }
  return signals;
}

std::optional<std::set<int>> console_ranks_of(const FlagSet& flags, const std::string& text) {
  if (!flags.given("--local-ranks-filter")) return std::nullopt;
  std::set<int> ranks;
  for (const std::string_view item : between_commas(text)) {
    ranks.insert(number_of(item, "--local-ranks-filter", kMostRanksPerNode - 1));
  }
  return ranks;
}

// It is the name of a directory and a variable's value.
void check_run_id(const std::string& id) {
  const bool is_plain = std::ranges::all_of(
      id, [](unsigned char c) { return c > ' ' && c < 0x7f && c != '/' && c != '\\'; });
  if (!is_plain || id == "." || id == ".." || id.size() > kLongestRunId) {
    throw UsageError(
        "--rdzv-id {}: names a directory of logs: at most {} letters, digits and signs but "
        "slashes and blanks",
        id.substr(0, kLongestRunId), kLongestRunId);
  }
}

void check_local_ranks(const LaunchOptions& options) {
  const auto check = [&](const char* flag, int rank) {
    if (rank < options.ranks) return;
    throw ConfigError("{} names local rank {}: this node has {}, from 0 on", flag, rank,
                      options.ranks);
  };
  check("--redirects", options.redirects.largest_rank());
  check("--tee", options.tee.largest_rank());
  if (options.console_ranks && !options.console_ranks->empty()) {
    check("--local-ranks-filter", *options.console_ranks->rbegin());
  }
}

// Where this node is among several.
void place(const FlagSet& flags, const FlagValues& values, const GetVariable& variable,
           LaunchOptions& options) {
  if (flags.given("--standalone") && values.standalone && options.nodes > 1) {
    throw ConfigError("--standalone and --nnodes {} contradict each other: give one",
                      options.nodes);
  }
  if (options.nodes > 1 && !flags.given("--node-rank")) {
    const char* const slurm = variable("SLURM_NODEID");
    if (slurm == nullptr || *slurm == '\0') {
      throw UsageError("--nnodes {}: --node-rank must be given too, another on each node",
                       options.nodes);
    }
    options.node = number_of(slurm, "the environment's SLURM_NODEID", kMostNodes - 1);
  }
  if (options.node >= options.nodes) {
    throw ConfigError("--node-rank {}: must be below --nnodes {}", options.node, options.nodes);
  }
  if (options.nodes > 1 && options.master_address.empty()) {
    throw UsageError(
        "--nnodes {}: where do the nodes meet? Give --master-addr HOST or --rdzv-endpoint "
        "HOST:PORT of node 0",
        options.nodes);
  }
  if (options.nodes > 1 && options.master_port == 0) {
    throw UsageError("--master-port 0: the other nodes must know the port of node 0");
  }
  if (options.master_address.empty()) options.master_address = "127.0.0.1";
}

LaunchOptions options_of(const FlagSet& flags, const FlagValues& values,
                         const GetVariable& variable) {
  LaunchOptions options;
  options.ranks = ranks_of(values.ranks);
  options.nodes = nodes_of(values.nodes);
  options.node = static_cast<int>(values.node);
  options.master_address = values.master_address;
  options.master_port = static_cast<int>(values.master_port);
  if (!values.endpoint.empty()) read_endpoint(values.endpoint, options);
  place(flags, values, variable, options);
  if (!values.run_id.empty()) check_run_id(values.run_id);
  options.run_id = values.run_id == "none" ? "" : values.run_id;
  options.max_restarts = static_cast<int>(values.max_restarts);
  options.log_directory = values.log_directory;
  options.redirects = StreamChoice::parse("--redirects", values.redirects);
  options.tee = StreamChoice::parse("--tee", values.tee);
  options.console_ranks = console_ranks_of(flags, values.console_ranks);
  check_local_ranks(options);
  options.role = values.role;
  options.stop_signals = signals_of(values.signals);
  options.secret_file = values.secret_file;
  options.secret_flag = "--rdzv-secret-file";
  if (const char* const file = variable("PHALANX_RDZV_SECRET_FILE");
      file != nullptr && *file != '\0' && values.secret_file.empty() && !values.insecure) {
    options.secret_file = file;
    options.secret_flag = "PHALANX_RDZV_SECRET_FILE";
  }
  options.insecure = values.insecure;
  options.bind_any = values.bind_any;
  read_settings(values.rendezvous_settings, options);
  options.virtual_local_rank = values.virtual_local_rank;
  options.notes = flags.notes();
  if (options.insecure && options.nodes > 1) {
    options.notes.push_back(
        fmt::format("warning: --rdzv-insecure: whoever reaches port {} of {} can join this run",
                    options.master_port, options.master_address));
  }
  return options;
}

}  // namespace

LaunchOptions parse_launch_options(const std::vector<std::string>& arguments,
                                   const IsCommand& is_command, const GetVariable& variable) {
  FlagValues values;
  FlagSet flags("phalanx launch", "Starts the ranks of a run as processes and watches over them.");
  flags.answers_for("torchrun");
  add_rank_flags(flags, values);
  add_rendezvous_flags(flags, values);
  add_output_flags(flags, values);
  add_answered_flags(flags);
  flags.add_example(
      "phalanx launch --nproc-per-node 4 --log-dir logs pretrain gpt --yaml-cfg run.yaml",
      "four ranks on this machine");
  flags.add_example(
      "phalanx launch --nnodes 2 --node-rank 0 --master-addr n01 --rdzv-secret-file key "
      "--nproc-per-node 8 pretrain gpt --yaml-cfg run.yaml",
      "the first of two nodes");
  const SplitWords split = split_words(flags, spelt_out(arguments), is_command);
  try {
    flags.parse(with_variables(flags, split.flags, variable));
  } catch (HelpRequested& help) {
    const std::size_t place = help.text.find(kFlagsInUsage);
    if (place != std::string::npos) {
      help.text.replace(place, kFlagsInUsage.size(), "FLAGS [--] pretrain gpt FLAGS");
    }
    throw;
  } catch (const UsageError&) {
    if (!split.command.empty()) throw;  // else the command may be among the flags
  }
  if (!split.unknown.empty()) refuse_command(split.unknown, values);
  if (split.command.empty()) {
    throw UsageError(
        "what the ranks run must follow the flags: phalanx launch --nproc-per-node {} pretrain "
        "gpt ...",
        values.ranks);
  }
  if (command_of_script(split.command.front())) refuse_command(split.command.front(), values);
  LaunchOptions options = options_of(flags, values, variable);
  options.command = split.command;
  return options;
}

LaunchOptions parse_launch_options(const std::vector<std::string>& arguments,
                                   const IsCommand& is_command) {
  return parse_launch_options(arguments, is_command,
                              [](const char* name) { return std::getenv(name); });
}

}  // namespace phalanx::launch
