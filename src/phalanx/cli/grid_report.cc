#include "phalanx/cli/grid_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
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

int stages_of(const ParallelGrids& grids) {
  return (grids.encoder ? grids.split : 0) + grids.dense.sizes().pipeline;
}

std::string sizes_of(const GridSizes& sizes) {
  return fmt::format("tensor {} x context {} x data {} x pipeline {}", sizes.tensor, sizes.context,
                     sizes.data, sizes.pipeline);
}

// "stage 0", "stages 0 to 2".
std::string stages_text(int first, int last) {
  return first == last ? fmt::format("stage {}", first)
                       : fmt::format("stages {} to {}", first, last);
}

std::string sizes_text(const ParallelGrids& grids) {
  const int world = grids.world_size();
  std::string text = fmt::format("{} rank{}: {}{}; rank order {}\n", world, world == 1 ? "" : "s",
                                 grids.encoder ? "decoder " : "", sizes_of(grids.dense.sizes()),
                                 grids.dense.order());
  if (grids.split > 0) {
    text += fmt::format("encoder: {}{}{}; decoder: {}\n",
                        grids.encoder ? sizes_of(grids.encoder->sizes()) : "",
                        grids.encoder ? ", " : "", stages_text(0, grids.split - 1),
                        stages_text(grids.split, stages_of(grids) - 1));
  }
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
  for (int rank = 0; rank < grids.world_size(); ++rank) {
    const GridCoordinates at = grids.coordinates(rank);
    text += fmt::format("{:>7} {:>5} {:>5} {:>5} {:>5}", rank, at.tensor, at.context, at.data,
                        at.pipeline);
    if (grids.expert) {
      const GridCoordinates expert = grids.expert->coordinates(rank);
      text += fmt::format(" {:>5} {:>5} {:>5}", expert.tensor, expert.expert, expert.data);
    }
    if (grids.split > 0) text += at.pipeline < grids.split ? "  encoder" : "  decoder";
    text += '\n';
  }
  return text;
}

bool are_single(const RankGroups& groups) {
  return std::ranges::all_of(groups, [](const auto& group) { return group.size() == 1; });
}

// "2", or "1 and 2" where encoder and decoder differ.
std::string sizes_of_groups(const RankGroups& groups) {
  const std::size_t first = groups.front().size();
  const std::size_t last = groups.back().size();
  return first == last ? fmt::format("{}", first) : fmt::format("{} and {}", first, last);
}

std::string family_text(const GroupFamily& family, int world_size) {
  const std::size_t count = family.groups.size();
  if (are_single(family.groups) && count == static_cast<std::size_t>(world_size)) {
    return fmt::format("{}: {}; every rank alone\n", family.name, family.meaning);
  }
  Paragraph paragraph;
  for (const auto& group : family.groups) paragraph.append(group);
  return fmt::format("{}: {}; {} group{} of {}\n{}", family.name, family.meaning, count,
                     count == 1 ? "" : "s", sizes_of_groups(family.groups), paragraph.take());
}

std::string outputs_text(const ParallelGrids& grids) {
  if (!grids.encoder) return "";
  std::string text =
      "\nencoder output: rank of the encoder's last stage > ranks that it feeds, the first of "
      "which "
      "returns the gradient\n";
  for (const EncoderOutput& output : encoder_outputs(grids)) {
    text += fmt::format("  {} > {}\n", output.from, fmt::join(output.to, ","));
  }
  if (grids.encoder->sizes().tensor == grids.dense.sizes().tensor) return text;
  return text +
         "Megatron-LM feeds along the groups of pp instead. Its encoder ranks add up the equal "
         "gradients of\nthe decoder ranks that they feed, which is too much by their number; and "
         "with data parallelism these\npipelines mix replicas. So a T5 is not trained with unequal "
         "tensor-parallel sizes.\n";
}

}  // namespace

std::string to_text(const ParallelGrids& grids) {
  std::string text = sizes_text(grids) + "\n" + rank_table(grids);
  for (const GroupFamily& family : group_families(grids)) {
    text += "\n" + family_text(family, grids.world_size());
  }
  return text + outputs_text(grids);
}

std::string to_json(const ParallelGrids& grids) {
  nlohmann::ordered_json groups;
  for (const GroupFamily& family : group_families(grids)) groups[family.name] = family.groups;
  nlohmann::ordered_json document = {{"world_size", grids.world_size()},
                                     {"order", grids.dense.order()},
                                     {"groups", std::move(groups)}};
  if (grids.split > 0) document["split_rank"] = grids.split;
  if (!grids.encoder) return document.dump() + "\n";
  nlohmann::ordered_json outputs = nlohmann::ordered_json::array();
  for (const EncoderOutput& output : encoder_outputs(grids)) {
    outputs.push_back(
        {{"from", output.from}, {"to", output.to}, {"gradient_from", output.gradient_from}});
  }
  document["encoder_outputs"] = std::move(outputs);
  return document.dump() + "\n";
}

}  // namespace phalanx
