#include "phalanx/base/numeric.h"
#include "phalanx/cuda/kernel.h"
#include "phalanx/ops/cuda/check/checks.h"
#include "phalanx/ops/cuda/check/members-inl.h"

namespace phalanx::cuda {
namespace {

constexpr std::int64_t kWords = 4096;

// Words as they come, and with exponents near those of 1 and at both ends of the range.
std::vector<std::uint32_t> float_bits(Workbench& bench) {
  std::vector<std::uint32_t> words = bench.random_words(kWords);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::uint32_t rest = words[i] & 0x807fffffU;
    const std::uint32_t kind = static_cast<std::uint32_t>(i) / 3 % 8;
    if (kind == 1) words[i] = rest | (127U << 23);
    if (kind == 2) words[i] = rest | ((124U + words[i] % 7) << 23);
    if (kind == 3) words[i] = rest;                                   // subnormal
    if (kind == 4) words[i] = rest | (1U << 23);                      // the smallest normal ones
    if (kind == 5) words[i] = rest | ((63U + words[i] % 3) << 23);    // whose squares are as small
    if (kind == 6) words[i] = rest | ((112U + words[i] % 32) << 23);  // what fp16 has
    if (kind == 7 && i % 5 == 0) words[i] &= 0xffff0000U;
  }
  return words;
}

template <typename K>
ExactCheck check_of(const char* name, bool floats, Grid grid) {
  return {name, [=](Workbench& bench) {
            const std::uint32_t* in =
                bench.upload(floats ? float_bits(bench) : bench.random_words(kWords));
            const std::int64_t threads = grid.x * grid.y * grid.z * K::kThreads;
            const TypedAddress out = bench.output(DType::kI32, threads * K::kOut);
            launch<K>(bench.queue(), grid, {in, reinterpret_cast<std::uint32_t*>(out.at), kWords});
            return bench.read(out, threads * K::kOut);
          }};
}

ExactCheck atomics() {
  return {"member atomics", [](Workbench& bench) {
            const std::uint32_t* in = bench.upload(bench.random_words(kWords));
            std::uint32_t* out =
                bench.upload(std::vector<std::uint32_t>{0, 0, ~0U, ~0U, ~0U, ~0U, 0, 0});
            launch<AtomicMember>(bench.queue(), {16}, {in, out, kWords});
            return bench.read(out, 32);
          }};
}

}  // namespace

std::vector<ExactCheck> member_checks() {
  return {
      check_of<ArithmeticMember>("member arithmetic of f32", true, {kWords / 128}),
      check_of<DoubleMember>("member arithmetic of f64", false, {kWords / 128}),
      check_of<ConversionMember>("member conversions", true, {kWords / 128}),
      check_of<WarpMember>("member warp operations", false, {8}),
      check_of<MatrixMember<bf16>>("member ldmatrix, mma of bf16", false, {4}),
      check_of<MatrixMember<fp16>>("member ldmatrix, mma of fp16", false, {4}),
      check_of<CopyMember>("member cp.async", false, {4}),
      atomics(),
      check_of<PlaceMember>("member places, packs, block sums, Philox", false, {3, 2, 2}),
  };
}

}  // namespace phalanx::cuda
