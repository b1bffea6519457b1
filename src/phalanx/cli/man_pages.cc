#include "phalanx/cli/man_pages.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/cli/command_table.h"
#include "phalanx/families/family.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/flags/views.h"

namespace phalanx {
namespace {

// docs/exit-codes.md has what to do about each.
std::vector<ManPage::Entry> statuses() {
  return {{"0", "Done, or help was asked for."},
          {"1", "checkpoint diff: tensors differ."},
          {"64", "The command line cannot be read."},
          {"65", "An input file is malformed or damaged."},
          {"66", "An input file, a directory or a checkpoint is not there."},
          {"69", "A rank or the first host cannot be reached."},
          {"70", "An error of the program."},
          {"71", "The system refused memory, threads or processes."},
          {"73", "An output cannot be created or written."},
          {"74", "Reading or writing failed midway."},
          {"75", "Try again: a rank was lost, or another run holds the directory."},
          {"77", "Not allowed: the run's secret is wrong, or open to others."},
          {"78", "Settings contradict each other, a checkpoint or the machine."},
          {"85", "A signal or a limit of time ended the run: the state is saved."},
          {"93", "Restarts made no progress: the same would happen again."},
          {"124", "A rank hung."},
          {"128 + N", "Signal N ended it."}};
}

// The text between "usage: " and the end of the line.
std::string usage_in(std::string_view help) {
  constexpr std::string_view kUsage = "usage: ";
  PHALANX_CHECK(help.starts_with(kUsage), "help begins with {}", help.substr(0, kUsage.size()));
  return std::string(help.substr(kUsage.size(), help.find('\n') - kUsage.size()));
}

NamedPage page_of(const HelpRequested& help, std::string_view meaning,
                  std::vector<ManPage::Entry> verbs) {
  ManPage page{.command = help.command,
               .version = PHALANX_VERSION,
               .meaning = std::string(meaning),
               .usage = usage_in(help.text),
               .description = help.description == meaning ? "" : help.description,
               .words = help.words,
               .rows = help.rows,
               .commands = std::move(verbs),
               .examples = help.examples,
               .see = {"phalanx"}};
  if (std::ranges::count(help.command, ' ') > 1 && help.words.empty() && help.verbs.empty()) {
    const std::string above = help.command.substr(0, help.command.rfind(' '));
    if (above != "phalanx") page.see.push_back(above);
  }
  return {man_page_name(help.command), man_page(page)};
}

// roff that reads another page in the place of this one.
NamedPage pointer(std::string_view command, const NamedPage& page) {
  return {man_page_name(command), fmt::format(".so man1/{}.1\n", page.name)};
}

HelpRequested help_of(CommandIo& io, std::vector<std::string> words) {
  words.emplace_back("--help");
  try {
    run_command(io, words);
  } catch (HelpRequested& help) {
    return std::move(help);
  }
  throw InternalError("{} has no --help", words[0]);
}

void add_pages(CommandIo& io, std::vector<NamedPage>& pages, const Command& command) {
  const HelpRequested help = help_of(io, {std::string(command.name)});
  std::vector<ManPage::Entry> verbs;
  std::vector<NamedPage> pages_of_verbs;
  for (const std::string& verb : help.verbs) {
    const HelpRequested verb_help = help_of(io, {std::string(command.name), verb});
    verbs.emplace_back(verb_help.command, verb_help.description);
    pages_of_verbs.push_back(page_of(verb_help, verb_help.description, {}));
  }
  const NamedPage page = page_of(help, command.help, std::move(verbs));
  pages.push_back(page);
  for (NamedPage& one : pages_of_verbs) pages.push_back(std::move(one));
  // phalanx pretrain --help is that of the first family.
  const auto families = known_families();
  const std::string first = fmt::format(" {}", families.front()->name());
  if (!help.command.ends_with(first)) return;
  const std::string above = help.command.substr(0, help.command.size() - first.size());
  pages.push_back(pointer(above, page));
  for (const auto& family : families.subspan(1)) {
    pages.push_back(pointer(fmt::format("{} {}", above, family->name()), page));
  }
}

NamedPage page_of_program() {
  ManPage page{
      .command = "phalanx",
      .version = PHALANX_VERSION,
      .meaning = "trains Transformer language models",
      .usage = "phalanx COMMAND ...",
      .description =
          "Trains GPT, Llama, BERT and T5 models with the methods and the flags of Megatron-LM, on "
          "one machine or on many. phalanx COMMAND --help lists the flags of a command, and each "
          "command has a page of this manual",
      .statuses = statuses(),
      .examples = {
          {"phalanx pretrain gpt --yaml-cfg run.yaml --nproc 4", "train on four ranks"},
          {"phalanx plan gpt --yaml-cfg run.yaml --world-size 64", "what that takes on 64 ranks"},
          {"phalanx generate --load RUN --prompt \"In the\"", "let the model go on"}}};
  for (const Command& command : command_table()) {
    page.commands.emplace_back(fmt::format("phalanx {}", command.name), command.help);
  }
  return {page.command, man_page(page)};
}

}  // namespace

std::vector<NamedPage> all_man_pages(CommandIo& io) {
  std::vector<NamedPage> pages = {page_of_program()};
  for (const Command& command : command_table()) add_pages(io, pages, command);
  return pages;
}

std::string man_page_of(CommandIo& io, std::string_view command) {
  std::string name = man_page_name(command);
  if (name != "phalanx" && !name.starts_with("phalanx-")) name.insert(0, "phalanx-");
  const std::vector<NamedPage> pages = all_man_pages(io);
  const auto find = [&](std::string_view wanted) {
    const auto found = std::ranges::find(pages, wanted, &NamedPage::name);
    if (found == pages.end()) {
      throw UsageError("--man {}: no such command (phalanx --help lists them)", command);
    }
    return found->text;
  };
  std::string text = find(name);
  // Where one page stands for several, its text.
  constexpr std::string_view kPointer = ".so man1/";
  if (!text.starts_with(kPointer)) return text;
  return find(text.substr(kPointer.size(), text.rfind(".1") - kPointer.size()));
}

}  // namespace phalanx
