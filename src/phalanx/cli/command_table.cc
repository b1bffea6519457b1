#include "phalanx/cli/command_table.h"

#include <fmt/core.h>

#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/launch/python_script.h"

namespace phalanx {
namespace {

constexpr std::string_view kTraining = "Train and use models";
constexpr std::string_view kPlanning = "Plan";
constexpr std::string_view kData = "Data";
constexpr std::string_view kCheckpoints = "Checkpoints";
constexpr std::string_view kOther = "Other";

constexpr Command kCommands[] = {
    {kTraining, "pretrain", "train a model: pretrain gpt|bert|t5 FLAGS, with Megatron's flag names",
     run_pretrain},
    {kTraining, "finetune", "train further: finetune chat|classify FLAGS", run_finetune},
    {kTraining, "launch", "starts and watches ranks as processes: launch FLAGS pretrain gpt FLAGS",
     run_launch},
    {kTraining, "generate", "text from a checkpoint", run_generate},
    {kTraining, "score", "the log probability of each token of a text", run_score},
    {kTraining, "classify", "which class each line of text is of, by a fine-tuned classifier",
     run_classify},
    {kTraining, "evaluate", "how good a model is on a text file: perplexity, cloze", run_evaluate},
    {kTraining, "report", "one page of a run, or of several compared: report DIR", run_report},
    {kPlanning, "plan", "a run's memory and messages, nothing allocated: plan gpt|bert|t5 FLAGS",
     run_plan},
    {kPlanning, "schedule", "a pipeline schedule: verified, simulated, drawn", run_schedule},
    {kPlanning, "grid", "which rank sits where, and all groups", run_grid},
    {kPlanning, "bench",
     "what a plan reckons with, measured: bench disk DIR, bench device|cluster -o FILE", run_bench},
    {kData, "preprocess-data", "text or JSON lines into a .bin/.idx dataset", run_preprocess_data},
    {kData, "train-tokenizer", "a byte-level BPE vocabulary from text", run_train_tokenizer},
    {kData, "tokenize", "standard input into token ids, or back", run_tokenize},
    {kData, "dataset", "what is in a dataset: info, check, head, merge, samples", run_dataset},
    {kCheckpoints, "checkpoint", "checkpoints: info, digest, diff, verify, consolidate",
     run_checkpoint},
    {kCheckpoints, "import", "other programs' files into a checkpoint and a dataset: llmc, hf",
     run_import},
    {kCheckpoints, "export", "a checkpoint and a dataset into other programs' files: llmc, hf",
     run_export},
    {kOther, "completion", "a script that completes commands and flags: bash, zsh, fish",
     run_completion},
    {kOther, "selftest", "whether a device computes what it should: selftest --device cuda",
     run_selftest},
    {kOther, "help", "the flags of a command: help COMMAND", run_help},
    {kOther, "version", "version, compiler, backends, processor", run_version},
};

// What the command says when it is asked for help.
HelpRequested help_of(const Command& command, CommandIo& io, const Arguments& arguments) {
  try {
    command.run(io, arguments);
  } catch (const HelpRequested& help) {
    return help;
  }
  throw InternalError("{} has no --help", command.name);
}

CommandFlags flags_of(const HelpRequested& help, std::string_view meaning) {
  constexpr std::string_view kProgram = "phalanx ";
  PHALANX_CHECK(help.command.starts_with(kProgram), "the command is called {}", help.command);
  return {help.command.substr(kProgram.size()), std::string(meaning), help.rows, help.takes_words};
}

}  // namespace

std::span<const Command> command_table() { return kCommands; }

std::string usage_text() {
  std::string text =
      fmt::format("phalanx {}: trains Transformer language models\n\nusage: phalanx COMMAND ...\n",
                  PHALANX_VERSION);
  std::string_view group;
  for (const Command& command : kCommands) {
    if (command.group != group) text += fmt::format("\n{}:\n", command.group);
    group = command.group;
    text += fmt::format("  {:<16} {}\n", command.name, command.help);
  }
  return text + R"(
phalanx COMMAND --help lists the flags of a command.

Examples:
    phalanx pretrain gpt --yaml-cfg run.yaml --nproc 4      train on four ranks
    phalanx plan gpt --yaml-cfg run.yaml --world-size 64    what that takes on 64
    phalanx generate --load RUN --prompt "In the"           let the model go on

Exit codes: 0 done, 64 the call is wrong, 65 or 66 the input, 78 the settings;
docs/exit-codes.md says what all of them mean.
)";
}

bool is_command(std::string_view word) {
  return std::ranges::any_of(kCommands, [&](const Command& one) { return one.name == word; });
}

bool is_training_command(std::string_view word) { return word == "pretrain" || word == "finetune"; }

bool has_ranks(std::span<const std::string> words) {
  if (words.empty()) return false;
  const bool measures = words[0] == "bench" && words.size() > 1 && words[1] == "cluster";
  return measures || is_training_command(words[0]);
}

int run_command(CommandIo& io, const std::vector<std::string>& words) {
  PHALANX_CHECK(!words.empty(), "no command");
  std::vector<std::string> names;
  for (const Command& command : kCommands) {
    if (command.name == words[0]) return command.run(io, {words.begin() + 1, words.end()});
    names.emplace_back(command.name);
  }
  if (const auto command = launch::command_of_script(words[0])) {
    throw UsageError("{}: nothing runs under Python here; give its flags to phalanx {}", words[0],
                     *command);
  }
  const auto meant = nearest(words[0], names);
  throw UsageError("unknown command {}{} (phalanx --help lists the commands)", words[0],
                   meant ? "; did you mean " + *meant + "?" : "");
}

std::vector<CommandFlags> all_command_flags(CommandIo& io) {
  std::vector<CommandFlags> commands;
  for (const Command& command : kCommands) {
    const HelpRequested help = help_of(command, io, {"--help"});
    CommandFlags flags = flags_of(help, command.help);
    // Commands with a model's name: shells complete the first word alone, too.
    if (flags.words != command.name) {
      commands.push_back({std::string(command.name), std::string(command.help), {}});
    }
    commands.push_back(std::move(flags));
    for (const auto& verb : help.verbs) {
      const HelpRequested verb_help = help_of(command, io, {verb, "--help"});
      commands.push_back(flags_of(verb_help, verb_help.description));
    }
  }
  const auto place = [](const CommandFlags& command) {
    if (command.words.starts_with("pretrain")) return 0;
    return command.words.starts_with("plan") ? 1 : 2;
  };
  std::ranges::stable_sort(commands, {}, place);
  return commands;
}

}  // namespace phalanx
