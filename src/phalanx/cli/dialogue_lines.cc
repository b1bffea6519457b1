#include "phalanx/cli/dialogue_lines.h"

#include <algorithm>
#include <cctype>
#include <numeric>

#include "phalanx/base/log.h"
#include "phalanx/cli/text_input.h"

namespace phalanx {
namespace {

void show_prompt(CommandIo& io, bool shows) {
  if (shows) io.write("> ");
}

}  // namespace

bool is_leaving(std::string_view line) { return line == "/quit" || line == "/exit"; }

bool is_reset(std::string_view line) { return line.empty() || line == "/reset"; }

bool is_slash_word(std::string_view line) {
  return line.size() > 1 && line[0] == '/' &&
         std::ranges::all_of(line.substr(1), [](unsigned char c) { return std::isalpha(c) != 0; });
}

std::unique_ptr<CachedModel> plan_dialogue(const GenerateOptions& options,
                                           const TrainedModel& trained) {
  CachedModel::Sizes sizes;
  sizes.capacity = trained.model.max_positions;
  if (options.context > 0) sizes.capacity = std::min(sizes.capacity, options.context);
  // Lines of any length.
  sizes.reads.resize(static_cast<std::size_t>(std::min(sizes.capacity, CachedModel::kPiece)));
  std::iota(sizes.reads.begin(), sizes.reads.end(), 1);
  return plan_model(trained, sizes);
}

void load_dialogue(const TrainedModel& trained, CachedModel& model) {
  load_model(trained, model, "Give a smaller --context or end other programs");
}

void hear_lines(CommandIo& io, std::string_view words,
                const std::function<bool(const std::string&)>& hear) {
  const bool is_typed = io.is_dialogue();
  if (is_typed) log_info("every line is a prompt; {}", words);
  show_prompt(io, is_typed);
  bool goes_on = true;
  InputLines input(io, /*greets=*/false);
  while (goes_on) {
    const auto line = input.next(1);
    if (line.empty()) break;
    goes_on = hear(line.front());
    if (goes_on) show_prompt(io, is_typed);
  }
  if (is_typed) io.write("\n");
}

}  // namespace phalanx
