#include "phalanx/cli/generate_parts.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/cli/text_input.h"
#include "phalanx/flags/model_arguments.h"

namespace phalanx {
namespace {

double rate_of(std::int64_t tokens, double seconds) {
  return seconds > 0.0 ? static_cast<double>(tokens) / seconds : 0.0;
}

}  // namespace

std::vector<std::int32_t> end_tokens(const GenerateOptions& options, const TrainedModel& trained,
                                     std::int32_t end_of_turn) {
  if (options.ignore_eos) return {};
  std::vector<std::int32_t> ids;
  if (end_of_turn >= 0) ids.push_back(end_of_turn);
  if (trained.tokenizer->end_of_document() >= 0) {
    ids.push_back(trained.tokenizer->end_of_document());
  }
  const auto& arguments = trained.checkpoint.manifest().arguments;
  const auto stored = arguments.find(std::string(kGenerationEos));
  if (stored == arguments.end()) return ids;
  for (const std::int32_t id :
       token_ids_of(stored->second, fmt::format("the checkpoint's argument {}", kGenerationEos))) {
    if (std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
  }
  return ids;
}

void print_plan(CommandIo& io, const GenerateOptions& options, const TrainedModel& trained,
                const CachedModel& model) {
  const GenerationMemory& memory = model.memory();
  const std::string_view dtype = name_of(trained.model.transformer.dtype);
  if (options.json) {
    const nlohmann::ordered_json json = {{"ranks", memory.ranks},
                                         {"dtype", dtype},
                                         {"sequences", model.sequences()},
                                         {"positions", model.capacity()},
                                         {"bytes",
                                          {{"parameters", memory.parameters},
                                           {"key_value_cache", memory.cache},
                                           {"constants", memory.constants},
                                           {"workspace", memory.workspace},
                                           {"total", memory.total()}}}};
    io.write(json.dump() + "\n");
    return;
  }
  std::string text =
      fmt::format("{}, {} of {} positions, {}{}\n", dtype,
                  model.sequences() == 1 ? std::string("one sequence")
                                         : fmt::format("{} sequences", model.sequences()),
                  model.capacity(), memory.ranks, memory.ranks == 1 ? " rank" : " ranks");
  const auto row = [&](std::string_view name, std::int64_t bytes) {
    text += fmt::format("{:<16} {:>10} {:>20} B\n", name, format_bytes(bytes), format_count(bytes));
  };
  text += fmt::format("{:<16} {:>10}\n", "", "a rank");
  row("parameters", memory.parameters);
  row("key/value cache", memory.cache);
  row("constants", memory.constants);
  row("workspace", memory.workspace);
  row("total", memory.total());
  if (memory.ranks > 1) row("all ranks", memory.total() * memory.ranks);
  io.write(text);
}

std::string text_of(const GenerationRates& rates) {
  return fmt::format("prompt {} tokens, {:.1f} tokens/s; answers {} tokens, {:.1f} tokens/s",
                     rates.prompt_tokens, rate_of(rates.prompt_tokens, rates.prompt_seconds),
                     rates.decoded_tokens, rate_of(rates.decoded_tokens, rates.decode_seconds));
}

}  // namespace phalanx
