#pragma once
// Shared by the two dialogues of `generate --interactive`: their lines and their model.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "phalanx/cli/generate.h"
#include "phalanx/inference/cached_model.h"

namespace phalanx {

// What the first SIGINT prints within an answer: nothing, its end can be seen.
inline constexpr const char* kEndingAnswer = "";

bool is_leaving(std::string_view line);  // /quit or /exit
bool is_reset(std::string_view line);    // /reset, or nothing
// Whether a line is a slash and a word.
bool is_slash_word(std::string_view line);

// A model for one sequence of --context positions, which lines of any length fill; planned.
std::unique_ptr<CachedModel> plan_dialogue(const GenerateOptions& options,
                                           const TrainedModel& trained);
void load_dialogue(const TrainedModel& trained, CachedModel& model);

// Calls `hear` with each line of the input, until it returns false. Who types is told `words`, what
// begins with a slash.
void hear_lines(CommandIo& io, std::string_view words,
                const std::function<bool(const std::string&)>& hear);

}  // namespace phalanx
