#pragma once
// One kernel for every member of Thread and every function of the kernels' language: what a device
// gives must be what the emulated machine gives.

#include "phalanx/cuda/simt.h"

namespace phalanx::cuda {

// Every NaN is the same one.
PHALANX_DEVICE std::uint32_t word_of(float value) {
  return value != value ? 0x7fffffffU : bits_of_float(value);
}

struct MemberParams {
  const std::uint32_t* in;
  std::uint32_t* out;
  std::int64_t n;  // words of in
};

// out[6 i ..]: sums, products, quotients, roots, joined products of any two floats' bits.
struct ArithmeticMember {
  static constexpr int kThreads = 128;
  static constexpr std::int64_t kOut = 6;
  using Params = MemberParams;
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t i = t.block() * kThreads + t.index();
    if (i + 2 >= p.n) return;
    const float a = float_of_bits(p.in[i]);
    const float b = float_of_bits(p.in[i + 1]);
    const float c = float_of_bits(p.in[i + 2]);
    std::uint32_t* out = p.out + kOut * i;
    out[0] = word_of(a + b);
    out[1] = word_of(a * b);
    out[2] = word_of(a / b);
    out[3] = word_of(sqrt_of(a));
    out[4] = word_of(fma_of(a, b, c));
    out[5] = word_of(a * b + c);  // two roundings
  }
};

// The same in double, of numbers that two words make.
struct DoubleMember {
  static constexpr int kThreads = 128;
  static constexpr std::int64_t kOut = 12;
  using Params = MemberParams;
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void put(std::uint32_t* out, double value) {
    // Split into floats that add up to it, as far as they do.
    const auto high = static_cast<float>(value);
    const auto low = static_cast<float>(value - static_cast<double>(high));
    out[0] = word_of(high);
    out[1] = word_of(low);
  }
  PHALANX_DEVICE static double number(std::uint32_t word) {
    return (static_cast<double>(word) + 0.5) * 0x1p-30 - 2.0;
  }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t i = t.block() * kThreads + t.index();
    if (i + 2 >= p.n) return;
    const double a = number(p.in[i]);
    const double b = number(p.in[i + 1]);
    const double c = number(p.in[i + 2]);
    std::uint32_t* out = p.out + kOut * i;
    put(out, a + b);
    put(out + 2, a * b);
    put(out + 4, a / b);
    put(out + 6, sqrt_of(a < 0.0 ? -a : a));
    put(out + 8, fma_of(a, b, c));
    put(out + 10, a * b + c);
  }
};

// Conversions of any float's bits, and back.
struct ConversionMember {
  static constexpr int kThreads = 128;
  static constexpr std::int64_t kOut = 5;
  using Params = MemberParams;
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t i = t.block() * kThreads + t.index();
    if (i + 2 >= p.n) return;
    const float a = float_of_bits(p.in[i]);
    std::uint32_t* out = p.out + kOut * i;
    out[0] = round_to<bf16>(a).bits;
    out[1] = round_to<fp16>(a).bits;
    out[2] = word_of(to_float(fp16{static_cast<std::uint16_t>(p.in[i])}));
    out[3] = word_of(to_float(bf16{static_cast<std::uint16_t>(p.in[i])}));
    out[4] = pack_bf16(a, float_of_bits(p.in[i + 1]));
  }
};

// Shuffles, ballots, sums and maxima of warps.
struct WarpMember {
  static constexpr int kThreads = 128;
  static constexpr std::int64_t kOut = 8;
  using Params = MemberParams;
  static std::int64_t shared_bytes(const Params& /*p*/) { return 4 * kThreads; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    auto* words = t.shared<std::uint32_t>(kThreads);
    const std::int64_t i = t.block() * kThreads + t.index();
    const std::uint32_t word = i < p.n ? p.in[i] : 7U;
    const float value = static_cast<float>(word >> 8) * 0x1p-20F;
    std::uint32_t* out = p.out + kOut * i;
    out[0] = t.shuffle(word, 5);
    out[1] = t.shuffle(word, (t.lane() * 7 + 3) % 32);
    out[2] = t.shuffle_xor(word, 13);
    out[3] = t.ballot(word % 3 == 0);
    out[4] = word_of(warp_sum(t, value));
    out[5] = word_of(warp_max(t, value));
    const double twice = t.shuffle(static_cast<double>(value) * 0.5, 31 - t.lane());
    out[6] = word_of(static_cast<float>(twice));
    words[t.index()] = word;
    t.sync_warp();
    // Another lane's.
    out[7] = words[32 * t.warp() + (t.lane() + 11) % 32] +
             static_cast<std::uint32_t>(t.lane() + 32 * t.warp() + 1000 * t.threads());
  }
};

// Fragments from rows that lie at chunk ^ (row & 7), both ways, and a product of small numbers,
// which is exact in any order. A warp a block.
template <typename T>
struct MatrixMember {
  static constexpr int kThreads = 32;
  static constexpr std::int64_t kOut = 12;
  using Params = MemberParams;
  static std::int64_t shared_bytes(const Params& /*p*/) { return 2 * 16 * 128; }
  PHALANX_DEVICE static T* chunk(T* rows, int row, int column_chunk) {
    return rows + row * 64 + 8 * (column_chunk ^ (row & 7));
  }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    T* a = t.template shared<T>(16 * 64);
    T* b = t.template shared<T>(16 * 64);
    for (int i = t.lane(); i < 16 * 64; i += 32) {
      const std::uint32_t word = p.in[(t.block() * 1024 + i) % p.n];
      const int row = i / 64;
      const int column = i % 64;
      T* to = chunk(a, row, column / 8) + column % 8;
      *to = round_to<T>(static_cast<float>(static_cast<int>(word % 31) - 15) * 0.125F);
      to = chunk(b, row, column / 8) + column % 8;
      *to = round_to<T>(static_cast<float>(static_cast<int>(word / 31 % 29) - 14) * 0.25F);
    }
    t.sync_warp();
    std::uint32_t af[4];
    std::uint32_t bf[4];
    t.ldmatrix_x4(af, chunk(a, t.lane() % 16, t.lane() / 16));
    t.ldmatrix_x4_trans(bf, chunk(b, t.lane() % 16, t.lane() / 16));
    float d[4] = {1.0F, 2.0F, 3.0F, 4.0F};
    t.template mma<T>(d, af, bf[0], bf[1]);
    t.template mma<T>(d, af, bf[2], bf[3]);
    std::uint32_t* out = p.out + kOut * (t.block() * kThreads + t.lane());
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      out[i] = af[i];
      out[4 + i] = bf[i];
      out[8 + i] = word_of(d[i]);
    }
  }
};

// Two groups of copies, one lane's not valid, the first used while the second is under way.
struct CopyMember {
  static constexpr int kThreads = 64;
  static constexpr std::int64_t kOut = 8;
  using Params = MemberParams;
  static std::int64_t shared_bytes(const Params& /*p*/) { return 2 * kThreads * 16; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    auto* first = t.shared<std::uint32_t>(4 * kThreads);
    auto* second = t.shared<std::uint32_t>(4 * kThreads);
    const std::int64_t from = (t.block() * kThreads + t.index()) * 4 % (p.n - 4);
    t.cp_async16(first + 4 * t.index(), p.in + from, t.index() != 9);
    t.cp_commit();
    t.cp_async16(second + 4 * t.index(), p.in + from, true);
    t.cp_commit();
    t.cp_wait<1>();
    t.sync();
    // Another warp's.
    const int other = (t.index() + 33) % kThreads;
    std::uint32_t* out = p.out + kOut * (t.block() * kThreads + t.index());
    for (int k = 0; k < 4; ++k) out[k] = first[4 * other + k];
    t.cp_wait<0>();
    t.sync();
    for (int k = 0; k < 4; ++k) out[4 + k] = second[4 * other + k];
  }
};

// out: a sum in 32 and in 64 bits, an or, a minimum.
struct AtomicMember {
  static constexpr int kThreads = 256;
  static constexpr std::int64_t kOut = 0;
  using Params = MemberParams;
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t i = t.block() * kThreads + t.index();
    const std::uint32_t word = p.in[i % p.n];
    auto* wide = reinterpret_cast<std::uint64_t*>(p.out);
    t.atomic_add(p.out + 6, word);
    t.atomic_add(wide, std::uint64_t{word} << 20);
    t.atomic_or(p.out + 7, 1U << (word % 37 % 32));
    t.atomic_min(wide + 1, (std::uint64_t{word} << 32) | static_cast<std::uint64_t>(i));
    t.atomic_min(wide + 2, std::uint64_t{word % 1000} << 40);
  }
};

// Packs of all sizes, places in the grid, a block's sum, the words of Philox.
struct PlaceMember {
  static constexpr int kThreads = 96;
  static constexpr std::int64_t kOut = 12;
  using Params = MemberParams;
  static std::int64_t shared_bytes(const Params& /*p*/) { return 128 + 2 * kThreads; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    auto* parts = t.shared<float>(3);
    auto* halves = t.shared<std::uint16_t>(kThreads);
    const std::int64_t block = t.block(0) + t.blocks(0) * (t.block(1) + t.blocks(1) * t.block(2));
    const std::int64_t i = block * kThreads + t.index();
    const std::int64_t at = i * 8 % (p.n - 8) / 8 * 8;
    halves[t.index()] = static_cast<std::uint16_t>(p.in[at]);
    const float sum = block_sum(t, static_cast<float>(p.in[at] >> 9), parts);
    std::uint32_t* out = p.out + kOut * i;
    const auto four = load_pack<4>(p.in + at);
    const auto two = load_pack<2>(p.in + at + 4);
    const auto eight = load_pack<8>(reinterpret_cast<const bf16*>(p.in + at));
    Pack<std::uint32_t, 4> mixed;
    mixed.at[0] = four.at[0] ^ four.at[3];
    mixed.at[1] = two.at[1];
    mixed.at[2] = eight.at[1].bits | static_cast<std::uint32_t>(eight.at[7].bits) << 16;
    mixed.at[3] = halves[(t.index() + 50) % kThreads];
    store_pack<4>(out, mixed);
    out[4] = word_of(sum);
    out[5] = static_cast<std::uint32_t>(block);
    out[6] = static_cast<std::uint32_t>(t.block(0) + 10 * t.block(1) + 100 * t.block(2));
    out[7] = static_cast<std::uint32_t>(t.blocks(0) + 10 * t.blocks(1) + 100 * t.blocks(2));
    const Words4 words =
        philox(p.in[at], p.in[at + 1], {{p.in[at + 2], static_cast<std::uint32_t>(i), 3U, 4U}});
    for (int k = 0; k < 4; ++k) out[8 + k] = words.at[k];
  }
};

// Functions that a device approximates: 2^x, 1 / sqrt(x), erfc(x), 1 / x, and in double log, sin,
// cos.
struct ApproximateMember {
  static constexpr int kThreads = 128;
  static constexpr std::int64_t kOut = 7;
  struct Params {
    const float* in;  // in (0, 8)
    float* out;
    std::int64_t n;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t i = t.block() * kThreads + t.index();
    if (i >= p.n) return;
    const float x = p.in[i];
    float* out = p.out + kOut * i;
    out[0] = exp2_of(x);
    out[1] = rsqrt_of(x);
    out[2] = erfc_of(x - 4.0F);
    out[3] = static_cast<float>(log_of(static_cast<double>(x)));
    out[4] = static_cast<float>(sin_of(static_cast<double>(x)));
    out[5] = static_cast<float>(cos_of(static_cast<double>(x)));
    out[6] = reciprocal_of(x);
  }
};

// Every word of a large memory: written as a function of its place, or compared with it.
struct MemoryMember {
  static constexpr int kThreads = 256;
  static constexpr std::int64_t kWords = 64 * kThreads;  // of a block
  struct Params {
    std::uint32_t* words;
    std::int64_t n;
    std::uint32_t salt;
    std::uint64_t* wrong;  // null: write
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static std::uint32_t word(std::int64_t i, std::uint32_t salt) {
    const auto x = static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15U + salt;
    return static_cast<std::uint32_t>(x >> 31);
  }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    std::uint64_t wrong = 0;
    for (int j = 0; j < 16; ++j) {
      const std::int64_t i = t.block() * kWords + 4 * (t.index() + std::int64_t{j} * kThreads);
      if (i + 4 > p.n) break;
      if (p.wrong == nullptr) {
        Pack<std::uint32_t, 4> pack;
#pragma unroll
        for (int e = 0; e < 4; ++e) pack.at[e] = word(i + e, p.salt);
        store_pack<4>(p.words + i, pack);
      } else {
        const auto pack = load_pack<4>(p.words + i);
#pragma unroll
        for (int e = 0; e < 4; ++e) wrong += pack.at[e] == word(i + e, p.salt) ? 0 : 1;
      }
    }
    if (wrong != 0) t.atomic_add(p.wrong, wrong);
  }
};

}  // namespace phalanx::cuda
