#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/base/mapped_file.h"
#include "phalanx/cli/commands.h"
#include "phalanx/flags/flag_set.h"

namespace phalanx {
namespace {

struct Command {
  std::string_view name;
  std::string_view help;
  int (*run)(const Arguments&);
};

constexpr std::array<Command, 12> kCommands = {{
    {"pretrain", "train a model: pretrain gpt FLAGS (Megatron's flag names)", run_pretrain},
    {"plan", "the memory plan of the same flags, nothing allocated: plan gpt FLAGS [--json]",
     run_plan},
    {"schedule",
     "a pipeline schedule, verified, simulated, drawn: schedule --kind zb-v FLAGS [--json]",
     run_schedule},
    {"grid", "which rank sits where, and all groups: grid --world-size N FLAGS [--json]", run_grid},
    {"generate", "text from a checkpoint", run_generate},
    {"preprocess-data", "text or JSON lines into a .bin/.idx dataset", run_preprocess_data},
    {"train-tokenizer", "a byte-level BPE vocabulary from text", run_train_tokenizer},
    {"tokenize", "standard input into token ids, or back", run_tokenize},
    {"dataset", "dataset info|check|head|merge|samples", run_dataset},
    {"checkpoint", "checkpoint info|digest|diff DIR [DIR]", run_checkpoint},
    {"import", "import llmc: llm.c's files into a checkpoint and a dataset", run_import},
    {"version", "version, compiler, backends, processor [--json]", run_version},
}};

void print_usage(std::FILE* out) {
  fmt::print(out,
             "phalanx {}: trains Transformer language models\n\nusage: phalanx COMMAND ...\n\n",
             PHALANX_VERSION);
  for (const auto& command : kCommands) {
    fmt::print(out, "  {:<16} {}\n", command.name, command.help);
  }
  fmt::print(out, "\nphalanx COMMAND --help lists the flags of a command.\n");
}

int run(const std::vector<std::string>& words) {
  if (words.empty()) {
    print_usage(stderr);
    return static_cast<int>(ErrorCode::kUsage);
  }
  if (words[0] == "help" && words.size() > 1) {
    std::vector<std::string> asks(words.begin() + 1, words.end());
    asks.emplace_back("--help");
    return run(asks);
  }
  if (words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    print_usage(stdout);
    return 0;
  }
  if (words[0] == "--version") return run_version({});
  std::vector<std::string> names;
  for (const auto& command : kCommands) {
    if (command.name == words[0]) return command.run({words.begin() + 1, words.end()});
    names.emplace_back(command.name);
  }
  const auto meant = nearest(words[0], names);
  throw UsageError("unknown command{} (phalanx --help lists the commands)",
                   meant ? "; did you mean " + *meant + "?" : "");
}

// What was typed up to its first flag: messages begin with it.
std::string typed_command(const std::vector<std::string>& words) {
  std::string typed = "phalanx";
  for (const std::string& word : words) {
    if (word.starts_with("-") || std::ranges::count(typed, ' ') == 2) break;
    typed += " " + word;
  }
  return typed;
}

// A line for each fault, each with the command that was typed.
void print_error(const std::vector<std::string>& words, std::string_view message) {
  const std::string typed = typed_command(words);
  while (!message.empty()) {
    const std::size_t end = std::min(message.find('\n'), message.size());
    log_line(LogLevel::kError, fmt::format("{}: {}", typed, message.substr(0, end)));
    message.remove_prefix(std::min(end + 1, message.size()));
  }
}

}  // namespace
}  // namespace phalanx

int main(int argc, char** argv) {
  // A file-size limit then arrives as a failed write, which has a message.
  std::signal(SIGXFSZ, SIG_IGN);
  phalanx::report_unreadable_maps();
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    return phalanx::run(words);
  } catch (const phalanx::HelpRequested& help) {
    fmt::print("{}", help.text);
    return 0;
  } catch (const phalanx::Error& error) {
    phalanx::print_error(words, error.what());
    return error.exit_status();
  } catch (const std::bad_alloc&) {
    phalanx::print_error(words, "out of memory");
    return static_cast<int>(phalanx::ErrorCode::kSystem);
  } catch (const std::exception& error) {
    phalanx::print_error(words, fmt::format("internal error: {}", error.what()));
    return static_cast<int>(phalanx::ErrorCode::kInternal);
  }
}
