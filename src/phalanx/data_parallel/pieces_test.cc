// The pieces of all ranks together are every parameter once, however states are cut and copied.

#include "phalanx/data_parallel/pieces.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "phalanx/data_parallel/test_support.h"
#include "phalanx/mesh/parallel_grids.h"

namespace phalanx {
namespace {

struct Grid {
  int tensor = 1, shards = 1, replicas = 1;
  std::int64_t bucket_size = 0;
  std::int64_t tile = kStateTile;
  bool weights = false;
  Writers writers = Writers::kAll;
  bool freezes = false;  // some parameters of every kind
};

// What one of `t` tensor-parallel ranks has: padded rows, a column cut, rows that two neighbours
// have both, and parameters that all have.
nn::ParamTable table_of(int rank, int size, bool freezes) {
  nn::ParamTable table;
  if (freezes) {
    table.freeze([](const std::string& name) { return name != "columns" && name != "bias"; });
  }
  table.add(row_cut_parameter("words", {49, 12}, DType::kF32, {}, rank, size, 64));
  table.add(column_cut_parameter("columns", {30, 8 * size}, DType::kF32, {}, rank, size));
  const int holders = size > 1 ? 2 : 1;
  std::vector<RowRange> rows = {{.first = rank * 12, .count = 12}};
  rows.push_back({.first = 12 * size + rank / holders * 5,
                  .count = 5,
                  .holders = holders,
                  .holder = rank % holders});
  ParamSpec shared =
      row_ranges_parameter("kv", {12 * size + size / holders * 5, 7}, DType::kF32, {}, rows, size);
  table.add(shared);
  table.add(whole_parameter("norm", {301}, DType::kF32, {}));
  table.add(whole_parameter("bias", {1}, DType::kF32, {}));
  return table;
}

// How often each element of each parameter is written, over all ranks; and the elements of the rank
// that writes most.
struct Written {
  std::map<std::string, std::vector<int>> times;
  std::int64_t total = 0, most = 0;
};

// What a rank writes.
void add_written(const nn::ParamTable& table, const StateCut& cut, Writers writers,
                 Written& written) {
  const StateLayout states(table, cut);
  std::int64_t own = 0;
  std::vector<Piece> all = pieces(states, writers);
  const std::vector<Piece> frozen = frozen_pieces(states);
  all.insert(all.end(), frozen.begin(), frozen.end());
  for (const Piece& piece : all) {
    const ParamSpec& spec = table[piece.segment.id];
    const std::int64_t columns = matrix_columns(spec.global_shape);
    std::vector<int>& times = written.times[spec.name];
    times.resize(static_cast<std::size_t>(spec.global_shape.count()));
    for (const ParamBox& box : piece.boxes) {
      own += box.rows * box.columns;
      for (std::int64_t row = 0; row < box.rows; ++row) {
        for (std::int64_t column = 0; column < box.columns; ++column) {
          ++times.at(static_cast<std::size_t>((box.global_row + row) * columns + box.global_column +
                                              column));
        }
      }
    }
  }
  written.total += own;
  written.most = std::max(written.most, own);
}

Written written_by_all(const Grid& grid) {
  Written written;
  for (int tensor = 0; tensor < grid.tensor; ++tensor) {
    const nn::ParamTable table = table_of(tensor, grid.tensor, grid.freezes);
    for (int replica = 0; replica < grid.replicas; ++replica) {
      for (int rank = 0; rank < grid.shards; ++rank) {
        add_written(table,
                    {.domains = {{.rank = rank,
                                  .ranks = grid.shards,
                                  .replica = replica,
                                  .replicas = grid.replicas,
                                  .first_tensor_rank = tensor == 0}},
                     .bucket_size = grid.bucket_size,
                     .weights = grid.weights,
                     .tile = grid.tile},
                    grid.writers, written);
      }
    }
  }
  return written;
}

TEST(Pieces, OfAllRanksAreEveryParameterOnce) {
  for (const int tensor : {1, 2, 4}) {
    for (const int shards : {1, 2, 3}) {
      for (const int replicas : {1, 2, 5}) {
        for (const std::int64_t bucket_size : {std::int64_t{0}, std::int64_t{4096}}) {
          for (const std::int64_t tile : {kStateTile, std::int64_t{100}}) {
            for (const Writers writers : {Writers::kFirst, Writers::kAll}) {
              // How weights are cut does not matter.
              const bool weights = tensor == 2;
              const bool freezes = tile == 100;
              const Grid grid{tensor, shards,  replicas, bucket_size,
                              tile,   weights, writers,  freezes};
              SCOPED_TRACE(fmt::format("t {} shards {} copies {} bucket {} tile {} in turn {}",
                                       tensor, shards, replicas, bucket_size, tile,
                                       writers == Writers::kAll));
              const Written written = written_by_all(grid);
              EXPECT_EQ(written.times.size(), 5U);
              for (const auto& [name, times] : written.times) {
                EXPECT_EQ(times, std::vector<int>(times.size(), 1)) << name;
              }
            }
          }
        }
      }
    }
  }
}

// Two experts of each rank along an axis of two, cut over as many expert-tensor ranks.
nn::ParamTable experts_of(const ParallelGrids& grids, int number) {
  const GridCoordinates at = grids.coordinates(number);
  const GridCoordinates of_experts = grids.expert_coordinates(number);
  const int size = grids.expert_sizes().tensor;
  nn::ParamTable table;
  table.freeze([](const std::string& name) { return name == "3.bias"; });
  table.add(
      row_cut_parameter("dense", {48, 12}, DType::kF32, {}, at.tensor, grids.dense.sizes().tensor));
  for (int i = 2 * of_experts.expert; i < 2 * of_experts.expert + 2; ++i) {
    ParamSpec weight = column_cut_parameter(fmt::format("{}.weight", i), {30, 16}, DType::kF32, {},
                                            of_experts.tensor, size);
    ParamSpec bias = whole_parameter(fmt::format("{}.bias", i), {301}, DType::kF32, {});
    weight.domain = bias.domain = ReductionDomain::kExpert;
    table.add(weight);
    table.add(bias);
  }
  return table;
}

DomainCut cut_of(int number, int count, bool is_sharded, bool is_first) {
  DomainCut cut{.first_tensor_rank = is_first};
  (is_sharded ? cut.rank : cut.replica) = number;
  (is_sharded ? cut.ranks : cut.replicas) = count;
  return cut;
}

TEST(Pieces, OfTwoDomainsAreEveryParameterOnce) {
  for (const int tensor : {1, 2, 4}) {
    for (const int expert_tensor : {1, 2, 4}) {
      const ParallelGrids grids = parallel_grids(
          {.world = 8, .tensor = tensor, .expert = 2, .expert_tensor = expert_tensor},
          kDefaultOrder);
      for (const bool is_sharded : {false, true}) {
        for (const Writers writers : {Writers::kFirst, Writers::kAll}) {
          SCOPED_TRACE(fmt::format("t {} etp {} sharded {} in turn {}", tensor, expert_tensor,
                                   is_sharded, writers == Writers::kAll));
          Written written;
          for (int number = 0; number < grids.world_size(); ++number) {
            const GridCoordinates at = grids.coordinates(number);
            const GridCoordinates of_experts = grids.expert_coordinates(number);
            add_written(experts_of(grids, number),
                        {.domains = {.dense = cut_of(at.data, grids.dense.sizes().data, is_sharded,
                                                     at.tensor == 0),
                                     .expert = cut_of(of_experts.data, grids.expert_sizes().data,
                                                      is_sharded, of_experts.tensor == 0)},
                         .tile = 100},
                        writers, written);
          }
          EXPECT_EQ(written.times.size(), 9U);
          for (const auto& [name, times] : written.times) {
            EXPECT_EQ(times, std::vector<int>(times.size(), 1)) << name;
          }
        }
      }
    }
  }
}

// Also where training cuts nothing, each of d copies writes about 1/d.
TEST(Pieces, CopiesWriteAShareEach) {
  for (const int replicas : {2, 4}) {
    const Written written = written_by_all({.replicas = replicas, .tile = 50});
    EXPECT_LT(written.most, written.total / replicas + 60);
  }
}

}  // namespace
}  // namespace phalanx
