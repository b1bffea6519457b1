#include "phalanx/cli/answer_prompts.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "phalanx/base/file.h"
#include "phalanx/chat_data/chat_sources.h"
#include "phalanx/data/split.h"
#include "phalanx/families/conversation_sources.h"
#include "phalanx/settings/data_settings.h"

namespace phalanx {
namespace {

constexpr std::size_t kPrompts = 3;

// The file with the conversations that are held out, and whether --split divides it.
struct HeldOut {
  std::string file;
  bool is_divided = false;
};
HeldOut held_out(const DataConfig& data) {
  const RunDataPaths paths = data_paths(data);
  if (paths.common) return {paths.common->prefixes.front(), true};
  const auto& own = paths.by_split[static_cast<std::size_t>(SplitKind::kValid)];
  return {own ? own->prefixes.front() : std::string(), false};
}

bool has_messages(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  return json.is_object() && (json.contains("messages") || json.contains("conversations"));
}

// The lines of the first conversations of the part that are no longer than a sample.
std::set<std::int64_t> lines_of(const ConversationTokens& all, const DataConfig& data,
                                IndexRange part, std::uint32_t seed) {
  std::set<std::int64_t> lines;
  for (const std::uint32_t number : conversations_of_part(all.size(), part, seed)) {
    const ConversationEntry entry = all.entry(number);
    if (entry.tokens <= data.seq_length) lines.insert(entry.line);
    if (lines.size() == kPrompts) break;
  }
  return lines;
}

}  // namespace

bool write_answer_prompts(const TrainConfig& config, const Tokenizer& tokenizer,
                          const std::filesystem::path& file) {
  const DataConfig& data = config.data;
  const HeldOut from = held_out(data);
  if (from.file.empty()) return false;
  const IndexCache cache(data.data_cache_path);
  const auto all = ConversationTokens::read(from.file, tokenizer,
                                            conversation_options(data, config.tokenizer, tokenizer),
                                            data.data_cache_path.empty() ? nullptr : &cache, [] {});
  const IndexRange part = from.is_divided ? Split(data.split).range(SplitKind::kValid, all->size())
                                          : IndexRange{0, all->size()};
  if (part.size() == 0) return false;
  const auto wanted = lines_of(*all, data, part, static_cast<std::uint32_t>(config.run.seed));
  std::ifstream lines(from.file);
  std::string text;
  std::int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    if (wanted.contains(++number) && has_messages(line)) text += line + "\n";
  }
  if (text.empty()) return false;
  create_directories_durably(file.parent_path());
  write_file_durably(file, text);
  return true;
}

}  // namespace phalanx
