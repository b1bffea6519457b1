#include "phalanx/flags/completion_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "phalanx/flags/row_text.h"

namespace phalanx {
namespace {

std::string on_one_line(std::string_view text) {
  std::string line(text);
  std::ranges::replace(line, '\n', ' ');
  return line;
}

// Whether the name of a value means a path: FILE, DIR, FILE.json.
bool names_path(std::string_view value_name) {
  return std::ranges::any_of(std::array{"FILE", "DIR", "PATH", "PREFIX"},
                             [&](const char* word) { return value_name.starts_with(word); });
}

}  // namespace

Takes takes(const FlagRow& row) {
  if (row.type == FlagType::kSwitch) return Takes::kNothing;
  if (!allowed_values(row.spec).empty()) return Takes::kChoice;
  const bool is_text = row.type == FlagType::kText || row.type == FlagType::kList;
  if (!is_text) return Takes::kNumber;
  return names_path(row.spec.value_name) ? Takes::kFile : Takes::kText;
}

bool is_offered(const FlagRow& row) { return row.spec.state != FlagState::kRefused; }

std::string description_of(const FlagRow& row) {
  return on_one_line(row.spec.help.empty() ? row.spec.reason : row.spec.help);
}

std::string escaped(std::string_view text, std::string_view characters) {
  std::string result;
  for (const char c : text) {
    if (characters.find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

std::vector<CommandNode> tree_of(const std::vector<CommandFlags>& commands) {
  std::vector<CommandNode> nodes(1);
  const auto place_of = [&](std::string_view words) {
    std::size_t at = 0;
    for (const std::string_view word : words_of(words)) {
      const std::string path = fmt::format("{} {}", nodes[at].path, word);
      const auto next = std::ranges::find(nodes, path, &CommandNode::path);
      const auto index = static_cast<std::size_t>(next - nodes.begin());
      if (next == nodes.end()) {
        nodes[at].words.emplace_back(word);
        nodes.push_back({path, {}, nullptr});
      }
      at = index;
    }
    return at;
  };
  for (const CommandFlags& command : commands) {
    const std::size_t at = place_of(command.words);
    nodes[at].command = &command;
    for (const std::string& words : command.other_words) {
      const std::size_t other = place_of(words);
      nodes[other].command = &command;
      nodes[other].same_as = nodes[at].path;
      nodes[at].others.push_back(nodes[other].path);
    }
  }
  return nodes;
}

std::string description_of(const std::vector<CommandNode>& nodes, const std::string& path) {
  const auto node = std::ranges::find(nodes, path, &CommandNode::path);
  return node->command == nullptr ? "" : on_one_line(node->command->help);
}

}  // namespace phalanx
