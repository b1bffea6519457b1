#include "phalanx/mesh/rank_grid.h"

#include <algorithm>
#include <limits>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

constexpr std::array<std::string_view, kAxes> kNames = {"tp", "cp", "ep", "dp", "pp"};

// The axes that a text such as "tp-dp" names. `what` and the text open the message of an error.
std::vector<Axis> read_axes(std::string_view what, std::string_view text) {
  std::vector<Axis> axes;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find('-', begin), text.size());
    const std::string_view name = text.substr(begin, end - begin);
    const auto known = std::find(kNames.begin(), kNames.end(), name);
    if (known == kNames.end()) {
      throw ConfigError("{} {}: \"{}\" is no axis; name tp, cp, ep, dp and pp with dashes between",
                        what, text, name);
    }
    const auto axis = static_cast<Axis>(known - kNames.begin());
    if (std::find(axes.begin(), axes.end(), axis) != axes.end()) {
      throw ConfigError("{} {}: {} stands twice", what, text, name);
    }
    axes.push_back(axis);
    begin = end + 1;
  }
  return axes;
}

}  // namespace

std::string_view name_of(Axis axis) { return kNames[static_cast<std::size_t>(axis)]; }

RankGrid::RankGrid(const GridSizes& sizes, std::string_view order) : sizes_(sizes) {
  std::vector<Axis> axes = read_axes("--rank-order", order);
  std::int64_t world_size = 1;
  for (int i = 0; i < kAxes; ++i) {
    const auto axis = static_cast<Axis>(i);
    if (sizes[axis] < 1) {
      throw ConfigError("the parallel size of {} is {}, must be at least 1", name_of(axis),
                        sizes[axis]);
    }
    world_size *= sizes[axis];
    if (world_size > std::numeric_limits<int>::max()) {
      throw ConfigError("tp {} x cp {} x ep {} x dp {} x pp {}: more than {} ranks", sizes.tensor,
                        sizes.context, sizes.expert, sizes.data, sizes.pipeline,
                        std::numeric_limits<int>::max());
    }
    if (std::find(axes.begin(), axes.end(), axis) != axes.end()) continue;
    if (sizes[axis] > 1) {
      throw ConfigError("--rank-order {}: {} is missing, and its size is {}; add it", order,
                        name_of(axis), sizes[axis]);
    }
    axes.push_back(axis);
  }
  if (sizes.context > 1 && sizes.expert > 1) {
    throw ConfigError(
        "context parallel size {} and expert parallel size {} in one grid: dense layers and "
        "experts have a grid each",
        sizes.context, sizes.expert);
  }
  std::copy(axes.begin(), axes.end(), axes_.begin());
  for (const Axis axis : axes_) {
    if (!order_.empty()) order_ += '-';
    order_ += name_of(axis);
  }
  world_size_ = static_cast<int>(world_size);
}

GridCoordinates RankGrid::coordinates(int rank) const {
  PHALANX_CHECK(rank >= 0 && rank < world_size_, "rank {} of {}", rank, world_size_);
  GridCoordinates coordinates;
  for (const Axis axis : axes_) {
    coordinates[axis] = rank % sizes_[axis];
    rank /= sizes_[axis];
  }
  return coordinates;
}

int RankGrid::rank_of(const GridCoordinates& coordinates) const {
  int rank = 0;
  int stride = 1;
  for (const Axis axis : axes_) {
    PHALANX_CHECK(coordinates[axis] >= 0 && coordinates[axis] < sizes_[axis],
                  "{} coordinate {} of {}", name_of(axis), coordinates[axis], sizes_[axis]);
    rank += coordinates[axis] * stride;
    stride *= sizes_[axis];
  }
  return rank;
}

RankGroups RankGrid::groups(std::string_view axes) const {
  const std::vector<Axis> varying = read_axes("groups along", axes);
  const auto varies = [&](Axis axis) {
    return std::find(varying.begin(), varying.end(), axis) != varying.end();
  };
  int group_size = 1;
  for (const Axis axis : varying) group_size *= sizes_[axis];
  RankGroups groups(static_cast<std::size_t>(world_size_ / group_size));
  for (auto& group : groups) group.reserve(static_cast<std::size_t>(group_size));
  // The number of a group is mixed-radix over the other axes, in the order of the grid. Ranks that
  // arrive in ascending order stand in their group in the order of their coordinates.
  for (int rank = 0; rank < world_size_; ++rank) {
    std::size_t number = 0;
    std::size_t stride = 1;
    int rest = rank;
    for (const Axis axis : axes_) {
      const int size = sizes_[axis];
      if (!varies(axis)) {
        number += static_cast<std::size_t>(rest % size) * stride;
        stride *= static_cast<std::size_t>(size);
      }
      rest /= size;
    }
    groups[number].push_back(rank);
  }
  return groups;
}

std::vector<int> embedding_group(const std::vector<int>& pipeline, int split) {
  std::vector<int> group = position_embedding_group(pipeline, split);
  if (group.back() != pipeline.back()) group.push_back(pipeline.back());
  return group;
}

std::vector<int> position_embedding_group(const std::vector<int>& pipeline, int split) {
  PHALANX_CHECK(split >= 0 && split < std::ssize(pipeline), "split {} of {} stages", split,
                pipeline.size());
  if (split == 0) return {pipeline.front()};
  return {pipeline.front(), pipeline[static_cast<std::size_t>(split)]};
}

RankGroups RankGrid::embedding_groups(int split) const {
  RankGroups groups = this->groups("pp");
  for (auto& group : groups) group = embedding_group(group, split);
  return groups;
}

RankGroups RankGrid::position_embedding_groups(int split) const {
  RankGroups groups = this->groups("pp");
  for (auto& group : groups) group = position_embedding_group(group, split);
  return groups;
}

}  // namespace phalanx
