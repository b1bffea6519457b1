#pragma once
// Which rank sits where: a rank is a mixed-radix number over the axes of an order string, the first
// axis fastest (Megatron-LM's RankGenerator). Pure functions; every rank computes the same.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace phalanx {

enum class Axis : std::uint8_t { kTensor, kContext, kExpert, kData, kPipeline };
inline constexpr int kAxes = 5;
inline constexpr std::string_view kDefaultOrder = "tp-cp-ep-dp-pp";
// That of --use-tp-pp-dp-mapping.
inline constexpr std::string_view kDataOutermostOrder = "tp-cp-ep-pp-dp";

// "tp", "cp", "ep", "dp", "pp".
std::string_view name_of(Axis axis);

// One value for every axis; kDefault where none is given.
template <int kDefault>
struct PerAxis {
  int tensor = kDefault;
  int context = kDefault;
  int expert = kDefault;
  int data = kDefault;
  int pipeline = kDefault;

  int& operator[](Axis axis) { return this->*member(axis); }
  int operator[](Axis axis) const { return this->*member(axis); }
  friend bool operator==(const PerAxis&, const PerAxis&) = default;

 private:
  static constexpr int PerAxis::*member(Axis axis) {
    constexpr std::array<int PerAxis::*, kAxes> kMembers = {
        &PerAxis::tensor, &PerAxis::context, &PerAxis::expert, &PerAxis::data, &PerAxis::pipeline};
    return kMembers[static_cast<std::size_t>(axis)];
  }
};
using GridSizes = PerAxis<1>;
using GridCoordinates = PerAxis<0>;

// Groups of ranks; members in the order of their coordinates, groups likewise.
using RankGroups = std::vector<std::vector<int>>;

// Of a pipeline, by stage: the ranks that have the word table (first, split and last stage, each
// once), and those that have the position table (first and split). Split 0: one stack.
std::vector<int> embedding_group(const std::vector<int>& pipeline, int split);
std::vector<int> position_embedding_group(const std::vector<int>& pipeline, int split);

class RankGrid {
 public:
  // ConfigError where a size is below 1, the order names an axis twice or one that is not there, or
  // leaves out an axis larger than 1 (one of size 1 is appended); or where both context and expert
  // parallelism are above 1: those are two grids (Megatron's dense and expert generators).
  explicit RankGrid(const GridSizes& sizes, std::string_view order = kDefaultOrder);

  int world_size() const { return world_size_; }
  const GridSizes& sizes() const { return sizes_; }
  // With every axis in it.
  const std::string& order() const { return order_; }

  GridCoordinates coordinates(int rank) const;
  int rank_of(const GridCoordinates& coordinates) const;

  // All groups along the axes that `axes` names ("tp", "dp-cp"), in any spelling: the ranks of a
  // group differ in these coordinates alone. ConfigError for a name that is no axis or stands
  // twice.
  RankGroups groups(std::string_view axes) const;
  // First and last stage of each pipeline, which share the tied word table; and the first alone,
  // which holds positions. Where stage `split` is the first of a decoder, it has both tables too.
  RankGroups embedding_groups(int split = 0) const;
  RankGroups position_embedding_groups(int split = 0) const;

 private:
  GridSizes sizes_;
  std::string order_;
  std::array<Axis, kAxes> axes_{};  // fastest first
  int world_size_ = 1;
};

}  // namespace phalanx
