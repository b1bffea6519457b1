#include "phalanx/checkpoint/box_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/checkpoint/test_support.h"
#include "phalanx/mesh/box_range.h"

namespace phalanx {
namespace {

using namespace testing_support;
using testing::ElementsAre;
using testing::ElementsAreArray;

constexpr float kUntouched = -1;

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  // In [low, high].
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(high - low + 1));
  }

 private:
  std::mt19937_64 engine_;
};

// A query, key and value matrix in one: each rank has its part of the rows of each.
ParamSpec fused_rows(const Shape& shape, int rank, int size) {
  ParamSpec spec = row_cut_parameter("w", shape, DType::kF32, {}, rank, size);
  const std::int64_t rows = shape[0] / (3 * size);
  spec.boxes.clear();
  for (std::int64_t part = 0; part < 3; ++part) {
    spec.boxes.push_back({.global_row = (part * size + rank) * rows,
                          .local_row = part * rows,
                          .rows = rows,
                          .columns = shape[1]});
  }
  return spec;
}

// The local rows are longer than what exists of them globally.
ParamSpec padded_columns(const Shape& shape, std::int64_t before, std::int64_t after) {
  ParamSpec spec = whole_parameter("w", shape, DType::kF32, {});
  spec.local_shape[1] = before + shape[1] + after;
  spec.boxes[0].local_column = before;
  return spec;
}

// The parts of a random parameter on the ranks of a tensor-parallel group.
std::vector<ParamSpec> random_cut(Random& random) {
  const std::int64_t kind = random.between(0, 4);
  const int size = kind == 4 ? 1 : static_cast<int>(random.between(1, 4));
  const std::int64_t columns = random.between(1, 9);
  const std::int64_t rows = random.between(1, 7) * size;
  const std::int64_t padding = random.between(0, 2 * rows / size) % rows;
  std::vector<ParamSpec> specs;
  for (int rank = 0; rank < size; ++rank) {
    if (kind == 0) {
      specs.push_back(row_cut_parameter("w", {rows - padding, columns}, DType::kF32, {}, rank, size,
                                        /*padded_rows=*/rows));
    } else if (kind == 1) {
      specs.push_back(
          column_cut_parameter("w", {rows, columns * size}, DType::kF32, {}, rank, size));
    } else if (kind == 2) {
      specs.push_back(fused_rows({3 * rows, columns}, rank, size));
    } else if (kind == 3) {
      specs.push_back(row_cut_parameter("w", {rows}, DType::kF32, {}, rank, size));
    } else {
      specs.push_back(padded_columns({rows, columns}, random.between(0, 3), random.between(0, 3)));
    }
  }
  return specs;
}

// Ascending, from 0 to count: the ends of shards, some of them empty.
std::vector<std::int64_t> random_shards(Random& random, std::int64_t count) {
  std::vector<std::int64_t> cuts = {0, count};
  for (auto shards = random.between(1, 5); shards > 1; --shards) {
    cuts.push_back(random.between(0, count));
  }
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

// The local part, element by element; padding is kUntouched.
std::vector<float> local_part(const ParamSpec& spec, const std::vector<float>& global) {
  std::vector<float> local(static_cast<std::size_t>(spec.local_shape.count()), kUntouched);
  const std::int64_t global_columns = matrix_columns(spec.global_shape);
  const std::int64_t local_columns = matrix_columns(spec.local_shape);
  for (const auto& box : spec.boxes) {
    for (std::int64_t row = 0; row < box.rows; ++row) {
      for (std::int64_t column = 0; column < box.columns; ++column) {
        local[static_cast<std::size_t>((box.local_row + row) * local_columns + box.local_column +
                                       column)] =
            global[static_cast<std::size_t>((box.global_row + row) * global_columns +
                                            box.global_column + column)];
      }
    }
  }
  return local;
}

std::vector<float> numbers(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

// Memory that is read and written by other hands, a few elements at a time: a device's.
class FewElements final : public HostPieces {
 public:
  explicit FewElements(std::int64_t most) : most_(most) {}

  void visit(const Tensor& tensor, std::int64_t bytes,
             const std::function<void(std::span<const std::byte>)>& body) override {
    host_pieces().visit(tensor, std::min(bytes, most_ * size_of(tensor.dtype)),
                        [&](std::span<const std::byte> piece) {
                          body(std::vector<std::byte>(piece.begin(), piece.end()));
                        });
  }
  void fill(const Tensor& tensor, const std::function<void(std::span<std::byte>)>& body) override {
    for (std::int64_t begin = 0; begin < tensor.count(); begin += most_) {
      const Tensor piece = elements_of(tensor, begin, std::min(most_, tensor.count() - begin));
      std::vector<std::byte> bytes(static_cast<std::size_t>(piece.bytes()));
      body(bytes);
      host_pieces().write(piece, bytes);
    }
  }
  void read(const Tensor& tensor, std::span<std::byte> to) override {
    host_pieces().read(tensor, to);
  }
  void write(const Tensor& tensor, std::span<const std::byte> from) override {
    host_pieces().write(tensor, from);
  }

 private:
  std::int64_t most_;
};

// As the ranks of a grid would: every shard packs a few rows, who gathers unpacks them.
std::vector<float> gather(const std::vector<GlobalTensor>& shards, const Shape& shape,
                          std::int64_t rows_at_a_time) {
  const std::int64_t rows = matrix_rows(shape);
  const std::int64_t columns = matrix_columns(shape);
  std::vector<float> global;
  for (std::int64_t begin = 0; begin < rows; begin += rows_at_a_time) {
    const std::int64_t end = std::min(begin + rows_at_a_time, rows);
    std::vector<float> some_rows(static_cast<std::size_t>((end - begin) * columns), kUntouched);
    for (const auto& shard : shards) {
      std::vector<std::byte> packed(
          static_cast<std::size_t>(packed_bytes(shard.boxes, DType::kF32, begin, end)));
      pack_rows(shard, begin, end, packed.data());
      unpack_rows(shard.boxes, DType::kF32, columns, begin, end, packed,
                  reinterpret_cast<std::byte*>(some_rows.data()));
    }
    global.insert(global.end(), some_rows.begin(), some_rows.end());
  }
  return global;
}

TEST(BoxCopy, ShardsOfCutParametersComeTogether) {
  Random random(7);
  for (int round = 0; round < 500; ++round) {
    SCOPED_TRACE(round);
    const auto specs = random_cut(random);
    const Shape& shape = specs.front().global_shape;
    const auto global = numbers(shape.count());
    const auto bytes = std::as_bytes(std::span(global));
    Arena arena("shards", 1 << 18);
    Arena rounding("rounded", 1 << 18);
    FewElements few(random.between(1, 7));
    std::vector<GlobalTensor> shards;
    for (const auto& spec : specs) {
      const auto local = local_part(spec, global);
      const auto cuts = random_shards(random, std::ssize(local));
      for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
        const Tensor dense = arena.allocate(DType::kF32, {cuts[i + 1] - cuts[i]});
        std::fill_n(dense.as<float>(), dense.count(), kUntouched);
        shards.push_back(shard_tensor(spec, dense, cuts[i]));
        if (round % 2 == 1) shards.back().memory = &few;
        check_boxes(shards.back(), Coverage::kPartial);
        EXPECT_LE(shards.back().boxes.size(), 3 * spec.boxes.size());
        for (const auto& box : shards.back().boxes) EXPECT_GT(box.rows * box.columns, 0);
        // Reading fills the shard with its range of the local part.
        fill_from_box(shards.back(), whole_box(shards.back().global_shape), DType::kF32, bytes);
        EXPECT_THAT(dense.span<float>(),
                    ElementsAreArray(local.begin() + cuts[i], local.begin() + cuts[i + 1]));
        // And so it does with rounded elements.
        GlobalTensor rounded = shards.back();
        rounded.local = rounding.place(0, DType::kBF16, dense.shape);
        std::vector<float> found;
        std::vector<float> expected;
        std::fill_n(rounded.local.as<bfloat16>(), dense.count(), to_bfloat16(kUntouched));
        fill_from_box(rounded, whole_box(rounded.global_shape), DType::kF32, bytes);
        for (std::int64_t k = 0; k < dense.count(); ++k) {
          found.push_back(to_float(rounded.local.as<bfloat16>()[k]));
          expected.push_back(to_float(to_bfloat16(dense.as<float>()[k])));
        }
        EXPECT_EQ(found, expected);
      }
    }
    EXPECT_EQ(gather(shards, shape, random.between(1, 6)), global);
  }
}

// The boxes of all shards of all ranks cover the global tensor once: so they could be one tensor.
TEST(BoxCopy, OneRankWithAllShardsVisitsTheWhole) {
  Random random(8);
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE(round);
    const ParamSpec spec = random_cut(random).front();
    if (spec.cut_over.has(Axis::kTensor)) continue;
    const auto global = numbers(spec.global_shape.count());
    const auto local = local_part(spec, global);
    Arena arena("local", 1 << 16);
    const Tensor dense = arena.allocate(DType::kF32, {std::ssize(local)});
    std::copy(local.begin(), local.end(), dense.as<float>());
    GlobalTensor whole = shard_tensor(spec, dense, 0);
    whole.boxes.clear();
    const auto cuts = random_shards(random, dense.count());
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      const auto boxes = boxes_of_range(spec, cuts[i], cuts[i + 1] - cuts[i]);
      whole.boxes.insert(whole.boxes.end(), boxes.begin(), boxes.end());
    }
    check_boxes(whole, Coverage::kWhole);
    FewElements few(random.between(1, 7));
    for (HostPieces* memory : {&host_pieces(), static_cast<HostPieces*>(&few)}) {
      whole.memory = memory;
      std::string visited;
      visit_global_bytes(whole,
                         [&](std::span<const std::byte> piece) { visited += as_text(piece); });
      EXPECT_EQ(visited, raw(global));
    }
  }
}

TEST(BoxCopy, PackedRowsFollowTheBoxes) {
  Arena arena("test", 1 << 12);
  // Columns 1 and 2 of the global [3, 3] are here, its rows 1 and 2 first.
  const GlobalTensor tensor{
      .name = "w",
      .global_shape = {3, 3},
      .local = filled(arena, {3, 2}, 0),
      .boxes = {{.global_row = 1, .global_column = 1, .rows = 2, .columns = 2},
                {.global_column = 1, .local_row = 2, .rows = 1, .columns = 2}}};
  EXPECT_EQ(packed_bytes(tensor.boxes, DType::kF32, 0, 3), 24);
  EXPECT_EQ(packed_bytes(tensor.boxes, DType::kBF16, 0, 2), 8);
  EXPECT_EQ(packed_bytes(tensor.boxes, DType::kF32, 2, 2), 0);
  std::vector<float> packed(4);
  pack_rows(tensor, 0, 2, reinterpret_cast<std::byte*>(packed.data()));
  EXPECT_THAT(packed, ElementsAre(0, 1, 4, 5));
  std::vector<float> rows(6, kUntouched);
  auto* out = reinterpret_cast<std::byte*>(rows.data());
  unpack_rows(tensor.boxes, DType::kF32, 3, 0, 2, std::as_bytes(std::span(packed)), out);
  EXPECT_THAT(rows, ElementsAre(kUntouched, 4, 5, kUntouched, 0, 1));
  // Boxes of another tensor, or bytes of other rows.
  EXPECT_THROW(
      unpack_rows(tensor.boxes, DType::kF32, 2, 0, 2, std::as_bytes(std::span(packed)), out),
      InternalError);
  EXPECT_THROW(
      unpack_rows(tensor.boxes, DType::kF32, 3, 1, 2, std::as_bytes(std::span(packed)), out),
      InternalError);
}

TEST(BoxCopy, BoxesOutsideTheShardAreFound) {
  Arena arena("test", 1 << 12);
  const ParamSpec spec = whole_parameter("w", {4, 3}, DType::kF32, {});
  const GlobalTensor shard = shard_tensor(spec, filled(arena, {7}, 0), 4, "optimizer.exp_avg.");
  EXPECT_EQ(shard.name, "optimizer.exp_avg.w");
  EXPECT_NO_THROW(check_boxes(shard, Coverage::kPartial));
  EXPECT_THROW(check_boxes(shard, Coverage::kWhole), InternalError);
  const auto with = [&](std::int64_t begin) {
    GlobalTensor moved = shard;
    moved.local_begin = begin;
    return moved;
  };
  EXPECT_THROW(check_boxes(with(3), Coverage::kPartial), InternalError);
  EXPECT_THROW(check_boxes(with(5), Coverage::kPartial), InternalError);
  EXPECT_THROW(check_boxes(with(-1), Coverage::kPartial), InternalError);
  // A matrix of its own begins at its beginning.
  GlobalTensor vector{.name = "v",
                      .global_shape = {4},
                      .local = filled(arena, {4}, 0),
                      .boxes = {{.local_column = 1, .rows = 1, .columns = 3}}};
  EXPECT_NO_THROW(check_boxes(vector, Coverage::kPartial));
  vector.local_begin = 1;
  EXPECT_THROW(check_boxes(vector, Coverage::kPartial), InternalError);
}

}  // namespace
}  // namespace phalanx
