// The program of AMX's instructions on processors without tiles: the tile registers are emulated,
// the rest of the program is what runs, with AVX-512's rows that come to C between the products.

#include "phalanx/ops/cpu/amx_tiles.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <vector>

#include "phalanx/base/numeric.h"
#include "phalanx/ops/cpu/amx_product.h"
#include "phalanx/ops/cpu/flush_to_zero.h"

#if defined(__x86_64__)
#include "phalanx/ops/cpu/emulated_tiles.h"

// NOLINTNEXTLINE(readability-identifier-naming): a function, under another name
#define tile_kernel tile_kernel_of_emulated_tiles
// NOLINTNEXTLINE(bugprone-suspicious-include): the program itself, with other instructions
#include "phalanx/ops/cpu/amx_tiles.cc"
#undef tile_kernel

namespace phalanx::cpu {
namespace {

struct alignas(64) Line {
  std::byte bytes[64];
};
using Memory = std::vector<Line>;

Memory memory_of(std::int64_t bytes) {
  return Memory(static_cast<std::size_t>(ceil_div(bytes, 64) + 1));
}

// Numbers up to `largest`, the same on every machine.
Memory numbers(std::int64_t count, std::uint32_t seed, float largest) {
  Memory memory = memory_of(2 * count);
  auto* elements = reinterpret_cast<bfloat16*>(memory.data());
  std::uint32_t state = seed;
  for (std::int64_t i = 0; i < count; ++i) {
    state = state * 1664525U + 1013904223U;
    elements[i] =
        to_bfloat16(static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31F * largest);
  }
  return memory;
}

struct Case {
  std::int64_t rows, columns, depth;
  Epilogue::Kind kind;
  DType storage = DType::kBF16;
  bool accumulate = false, bias = false, inner_bias = false;
  ops::ActivationKind activation = ops::ActivationKind::kGeluTanh;
};

// The bytes of both outputs.
std::vector<std::byte> outputs_of(const Case& of, const TileKernel& kernel) {
  const std::int64_t size = size_of(of.storage), count = of.rows * of.columns;
  Memory left = numbers(of.rows * of.depth, 1, 1.0F);
  Memory right = numbers(of.columns * of.depth, 2, 1.0F);
  Memory bias = numbers(of.columns, 3, 2.0F), inner_bias = numbers(of.columns, 4, 2.0F);
  Memory c = numbers(count * size / 2, 5, 1.0F), other = numbers(count * size / 2, 6, 6.0F);
  const auto data = [](Memory& memory) { return memory.data()->bytes; };
  MatrixProduct product{.m = of.rows,
                        .n = of.columns,
                        .k = of.depth,
                        .a = {data(left), DType::kBF16, of.depth},
                        .b = {data(right), DType::kBF16, of.depth, true}};
  Epilogue& e = product.epilogue;
  e = {.kind = of.kind, .c = {data(c), of.storage, of.columns}, .accumulate = of.accumulate};
  e.has_bias = of.bias;
  e.bias = data(bias);
  e.bias_dtype = DType::kBF16;
  if (of.kind != Epilogue::Kind::kStore) e.other = {data(other), of.storage, of.columns};
  if (of.inner_bias) e.activation_bias = data(inner_bias);
  e.activation = of.activation;
  const CpuDevice device{.threads = 1, .products = ProductPrecision::kAmx};
  Memory workspace = memory_of(amx_workspace_bytes(device, product));
  const FlushToZero mode;
  multiply_amx(device, product, kernel, data(workspace));
  std::vector<std::byte> outputs;
  for (Memory* memory : {&c, &other}) {
    outputs.insert(outputs.end(), data(*memory), data(*memory) + count * size);
  }
  return outputs;
}

TEST(AmxTiles, OfEmulatedRegistersHaveTheBitsOfTheTwin) {
  if (active_target() < Target::kAvx512Bf16) GTEST_SKIP() << "no AVX-512 with bf16";
  using Kind = Epilogue::Kind;
  std::vector<Case> cases;
  for (const auto& [rows, columns, depth] :
       {std::array<std::int64_t, 3>{96, 128, 64}, {70, 100, 1100}, {64, 64, 800}, {33, 65, 31}}) {
    cases.push_back({rows, columns, depth, Kind::kStore});
    cases.push_back({rows, columns, depth, Kind::kStore, DType::kF32});
    cases.push_back({rows, columns, depth, Kind::kStore, DType::kF32, true});
    for (const bool bias : {false, true}) {
      for (const bool inner_bias : {false, true}) {
        cases.push_back(
            {rows, columns, depth, Kind::kActivation, DType::kBF16, false, bias, inner_bias});
      }
      cases.push_back({rows, columns, depth, Kind::kStore, DType::kBF16, false, bias});
      cases.push_back(
          {rows, columns, depth, Kind::kActivationGradient, DType::kBF16, false, false, bias});
    }
    cases.push_back({rows, columns, depth, Kind::kActivation, DType::kBF16, false, false, false,
                     ops::ActivationKind::kGeluErf});
  }
  const TileKernel emulated = on_emulated_tiles(tile_kernel_of_emulated_tiles(Target::kAmx));
  for (const Case& row : cases) {
    EXPECT_EQ(outputs_of(row, emulated), outputs_of(row, tile_kernel_twin()))
        << fmt::format("{}x{}x{}, epilogue {}, bias {}, inner bias {}", row.rows, row.columns,
                       row.depth, static_cast<int>(row.kind), row.bias, row.inner_bias);
  }
}

}  // namespace
}  // namespace phalanx::cpu

#endif
