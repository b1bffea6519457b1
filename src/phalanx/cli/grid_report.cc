#include "phalanx/cli/grid_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace phalanx {
namespace {

constexpr std::size_t kLineWidth = 100;
// Longer groups are shortened.
constexpr std::size_t kLongGroup = 8;

bool in_equal_steps(const std::vector<int>& group) {
  for (std::size_t i = 2; i < group.size(); ++i) {
    if (group[i] - group[i - 1] != group[1] - group[0]) return false;
  }
  return true;
}

// The members of a group as text, in pieces that stay whole.
std::vector<std::string> words_of_ranks(const std::vector<int>& group) {
  const bool is_long = group.size() > kLongGroup;
  if (is_long && group[1] > group[0] + 1 && in_equal_steps(group)) {
    return {fmt::format("[{},{},..,{}]", group[0], group[1], group.back())};
  }
  std::vector<std::string> words;
  for (std::size_t i = 0; i < group.size(); ++i) {
    const int first = group[i];
    while (is_long && i + 1 < group.size() && group[i + 1] == group[i] + 1) ++i;
    words.push_back(group[i] == first ? fmt::format("{},", first)
                                      : fmt::format("{}..{},", first, group[i]));
  }
  words.front().insert(0, "[");
  words.back().back() = ']';
  return words;
}

// Writes words one after the other, in lines of at most kLineWidth.
class Paragraph {
 public:
  void append(const std::vector<int>& group) {
    const std::vector<std::string> words = words_of_ranks(group);
    std::size_t length = 1;
    for (const auto& word : words) length += word.size();
    if (column_ + length > kLineWidth) start_line("  ");
    if (column_ > kIndent) append(" ");
    for (const auto& word : words) {
      // The rest of a group that is longer than a line stands one column further in.
      if (column_ + word.size() > kLineWidth) start_line("   ");
      append(word);
    }
  }
  std::string take() { return std::move(text_) + "\n"; }

 private:
  static constexpr std::size_t kIndent = 2;

  void start_line(std::string_view indent) {
    if (column_ == indent.size()) return;
    text_ += '\n';
    column_ = 0;
    append(indent);
  }
  void append(std::string_view word) {
    text_ += word;
    column_ += word.size();
  }

  std::string text_ = std::string(kIndent, ' ');
  std::size_t column_ = kIndent;
};

std::string sizes_line(const ParallelGrids& grids) {
  const GridSizes& dense = grids.dense.sizes();
  std::string text =
      fmt::format("{} rank{}: tensor {} x context {} x data {} x pipeline {}; rank order {}\n",
                  grids.dense.world_size(), grids.dense.world_size() == 1 ? "" : "s", dense.tensor,
                  dense.context, dense.data, dense.pipeline, grids.dense.order());
  if (!grids.expert) return text;
  const GridSizes& expert = grids.expert->sizes();
  return text +
         fmt::format("to experts: expert tensor {} x expert {} x expert data {} x pipeline {}\n",
                     expert.tensor, expert.expert, expert.data, expert.pipeline);
}

std::string rank_table(const ParallelGrids& grids) {
  std::string text = fmt::format("{:>7} {:>5} {:>5} {:>5} {:>5}", "rank", "tp", "cp", "dp", "pp");
  if (grids.expert) text += fmt::format(" {:>5} {:>5} {:>5}", "etp", "ep", "edp");
  text += '\n';
  for (int rank = 0; rank < grids.dense.world_size(); ++rank) {
    const GridCoordinates dense = grids.dense.coordinates(rank);
    text += fmt::format("{:>7} {:>5} {:>5} {:>5} {:>5}", rank, dense.tensor, dense.context,
                        dense.data, dense.pipeline);
    if (grids.expert) {
      const GridCoordinates expert = grids.expert->coordinates(rank);
      text += fmt::format(" {:>5} {:>5} {:>5}", expert.tensor, expert.expert, expert.data);
    }
    text += '\n';
  }
  return text;
}

std::string family_text(const GroupFamily& family, int world_size) {
  const std::size_t count = family.groups.size();
  if (count == static_cast<std::size_t>(world_size)) {
    return fmt::format("{}: {}; every rank alone\n", family.name, family.meaning);
  }
  Paragraph paragraph;
  for (const auto& group : family.groups) paragraph.append(group);
  return fmt::format("{}: {}; {} group{} of {}\n{}", family.name, family.meaning, count,
                     count == 1 ? "" : "s", family.groups[0].size(), paragraph.take());
}

}  // namespace

std::string to_text(const ParallelGrids& grids) {
  std::string text = sizes_line(grids) + "\n" + rank_table(grids);
  for (const GroupFamily& family : group_families(grids)) {
    text += "\n" + family_text(family, grids.dense.world_size());
  }
  return text;
}

std::string to_json(const ParallelGrids& grids) {
  nlohmann::ordered_json groups;
  for (const GroupFamily& family : group_families(grids)) groups[family.name] = family.groups;
  const nlohmann::ordered_json document = {{"world_size", grids.dense.world_size()},
                                           {"order", grids.dense.order()},
                                           {"groups", std::move(groups)}};
  return document.dump() + "\n";
}

}  // namespace phalanx
