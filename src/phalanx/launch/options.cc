#include "phalanx/launch/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/flags/encoding.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/launch/option_flags.h"
#include "phalanx/launch/option_values.h"
#include "phalanx/launch/python_script.h"

namespace phalanx::launch {
namespace {

using Words = std::vector<std::string>;

constexpr std::string_view kFlagsInUsage = "[FLAGS]";

// Puts what PET_ variables give, torchrun's, before the given flags, which win.
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
    expect_utf8("the environment's " + name, value);
    if (row.type != FlagType::kSwitch) {
      words.push_back(fmt::format("{}={}", row.spec.name, value));
    } else if (std::string_view(value) != "0" && std::string_view(value) != "False") {
      words.emplace_back(row.spec.name);
    }
  }
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

// Replaces torchrun's one-letter flags.
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

// Whether the next word is the flag's value.
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

// Decides which of several nodes this is and where they meet.
void place_node(const FlagSet& flags, const FlagValues& values, const GetVariable& variable,
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
  if (!values.endpoint.empty()) {
    const GivenEndpoint endpoint = endpoint_of(values.endpoint);
    options.master_address = endpoint.host;
    if (endpoint.port) options.master_port = *endpoint.port;
  }
  place_node(flags, values, variable, options);
  if (!values.run_id.empty()) check_run_id(values.run_id);
  options.run_id = values.run_id == "none" ? "" : values.run_id;
  options.max_restarts = static_cast<int>(values.max_restarts);
  options.log_directory = values.log_directory;
  options.redirects = StreamChoice::parse("--redirects", values.redirects);
  options.tee = StreamChoice::parse("--tee", values.tee);
  if (flags.given("--local-ranks-filter")) {
    options.console_ranks = console_ranks_of(values.console_ranks);
  }
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
  const RendezvousSettings settings = rendezvous_settings_of(values.rendezvous_settings);
  if (settings.join_timeout) options.join_timeout = *settings.join_timeout;
  if (settings.save_timeout) options.save_timeout = *settings.save_timeout;
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
  add_launch_flags(flags, values);
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
  expect_utf8(split.command);
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
