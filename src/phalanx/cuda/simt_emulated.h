#pragma once
// The kernels' language on the emulated machine (emulated/machine.h), whose threads are fibers that
// stop at barriers and warp operations alone. Read through simt.h. Whatever a kernel reads or
// writes is read or written here, in code that sanitizers see.

#include <cmath>
#include <cstring>

#include "phalanx/cuda/emulated/half_conversions.h"
#include "phalanx/cuda/simt_types.h"

namespace phalanx::cuda {

class Machine;

// Ends the run of the emulated machine with this message; outside of a run, an InternalError.
[[noreturn]] void emulated_fault(const char* message);

inline bf16 bf16_of(float value) {
  const auto bits = bits_of_float(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return {0x7fff};
  return {static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
}
inline float fma_of(float a, float b, float c) { return std::fma(a, b, c); }
inline double fma_of(double a, double b, double c) { return std::fma(a, b, c); }
inline float sqrt_of(float x) { return std::sqrt(x); }
inline double sqrt_of(double x) { return std::sqrt(x); }
inline float exp2_of(float x) { return std::exp2(x); }
inline float reciprocal_of(float x) { return 1.0F / x; }
inline float rsqrt_of(float x) { return 1.0F / std::sqrt(x); }
inline double exp_of(double x) { return std::exp(x); }
inline double log_of(double x) { return std::log(x); }
inline double sin_of(double x) { return std::sin(x); }
inline double cos_of(double x) { return std::cos(x); }

inline std::uint32_t pack_bf16(float low, float high) {
  return bf16_of(low).bits | (static_cast<std::uint32_t>(bf16_of(high).bits) << 16);
}

template <int kSize, typename T>
void check_alignment(const T* at) {
  if (reinterpret_cast<std::uintptr_t>(at) % alignof(Pack<T, kSize>) != 0) {
    emulated_fault("a misaligned pack");
  }
}
template <int kSize, typename T>
Pack<T, kSize> load_pack(const T* from) {
  check_alignment<kSize>(from);
  Pack<T, kSize> pack;
  for (int i = 0; i < kSize; ++i) pack.at[i] = from[i];
  return pack;
}
template <int kSize, typename T>
void store_pack(T* to, const Pack<T, kSize>& pack) {
  check_alignment<kSize>(to);
  for (int i = 0; i < kSize; ++i) to[i] = pack.at[i];
}

enum class WarpOp : std::uint8_t {
  kSyncWarp,
  kShuffle,
  kBallot,
  kLdmatrix,
  kLdmatrixTrans,
  kMmaBf16,
  kMmaFp16,
};

// What a lane brings to a warp operation, and what it gets.
struct WarpOperand {
  std::uint32_t words[12];
};

// Where a call stands: its file and line.
#define PHALANX_PLACE const char *file = __builtin_FILE(), int line = __builtin_LINE()

class Thread {
 public:
  int index() const { return index_; }
  int lane() const { return index_ % 32; }
  int warp() const { return index_ / 32; }
  int threads() const { return threads_; }
  std::int64_t block(int d = 0) const { return block_[d]; }
  std::int64_t blocks(int d = 0) const { return blocks_[d]; }

  void sync(PHALANX_PLACE);
  void sync_warp(PHALANX_PLACE);

  template <typename T>
  T shuffle(T value, int from, PHALANX_PLACE) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);
    WarpOperand operand;
    std::memcpy(operand.words, &value, sizeof(T));
    operand.words[2] = static_cast<std::uint32_t>(from) % 32;
    together(WarpOp::kShuffle, operand, file, line);
    std::memcpy(&value, operand.words, sizeof(T));
    return value;
  }
  template <typename T>
  T shuffle_xor(T value, int mask, PHALANX_PLACE) {
    return shuffle(value, lane() ^ mask, file, line);
  }
  std::uint32_t ballot(bool yes, PHALANX_PLACE) {
    WarpOperand operand;
    operand.words[0] = yes ? 1 : 0;
    together(WarpOp::kBallot, operand, file, line);
    return operand.words[0];
  }

  template <typename T>
  T* shared(std::int64_t n) {
    static_assert(alignof(T) <= 128);
    return reinterpret_cast<T*>(carve(n * static_cast<std::int64_t>(sizeof(T))));
  }

  void cp_async16(void* to, const void* from, bool valid, PHALANX_PLACE);
  void cp_commit() { ++groups_; }
  template <int kLeft>
  void cp_wait(PHALANX_PLACE) {
    static_assert(kLeft >= 0);
    deliver(kLeft, file, line);
  }

  void ldmatrix_x4(std::uint32_t (&r)[4], const void* row, PHALANX_PLACE) {
    ldmatrix(WarpOp::kLdmatrix, r, row, file, line);
  }
  void ldmatrix_x4_trans(std::uint32_t (&r)[4], const void* row, PHALANX_PLACE) {
    ldmatrix(WarpOp::kLdmatrixTrans, r, row, file, line);
  }
  template <typename T>
  void mma(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
           PHALANX_PLACE) {
    static_assert(std::is_same_v<T, bf16> || std::is_same_v<T, fp16>);
    WarpOperand operand;
    std::memcpy(operand.words, d, 16);
    std::memcpy(operand.words + 4, a, 16);
    operand.words[8] = b0;
    operand.words[9] = b1;
    together(std::is_same_v<T, bf16> ? WarpOp::kMmaBf16 : WarpOp::kMmaFp16, operand, file, line);
    std::memcpy(d, operand.words, 16);
  }

  // Relaxed: they order nothing else.
  template <typename T>
  T atomic_add(T* to, T value) {
    static_assert(std::is_integral_v<T> && sizeof(T) >= 4);
    return __atomic_fetch_add(to, value, __ATOMIC_RELAXED);
  }
  template <typename T>
  T atomic_or(T* to, T value) {
    static_assert(std::is_integral_v<T> && sizeof(T) >= 4);
    return __atomic_fetch_or(to, value, __ATOMIC_RELAXED);
  }
  template <typename T>
  T atomic_min(T* to, T value) {
    static_assert(std::is_integral_v<T> && sizeof(T) >= 4);
    T old = __atomic_load_n(to, __ATOMIC_RELAXED);
    while (value < old && !__atomic_compare_exchange_n(to, &old, value, false, __ATOMIC_RELAXED,
                                                       __ATOMIC_RELAXED)) {
    }
    return old;
  }

 private:
  friend class Machine;
  static constexpr int kMostCopies = 64;

  struct Copy {
    void* to;
    const void* from;
    bool valid;
    int group;
  };

  std::byte* carve(std::int64_t bytes);
  void together(WarpOp op, WarpOperand& operand, const char* file, int line);
  // Whether the call at this place is switched off (Machine::drop).
  bool dropped(const char* kind, const char* file, int line);

  // A lane reads its row here, where a sanitizer sees it.
  void ldmatrix(WarpOp op, std::uint32_t (&r)[4], const void* row, const char* file, int line) {
    check_alignment<4>(static_cast<const std::uint32_t*>(row));
    WarpOperand operand;
    for (int i = 0; i < 4; ++i) operand.words[i] = static_cast<const std::uint32_t*>(row)[i];
    operand.words[4] = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(row) / 16 % 8);
    together(op, operand, file, line);
    std::memcpy(r, operand.words, 16);
  }

  // Copies arrive here, at the last moment that is allowed.
  void deliver(int left, const char* file, int line) {
    if (dropped("cp_wait", file, line)) return;
    int kept = 0;
    for (int i = 0; i < copy_count_; ++i) {
      const Copy copy = copies_[i];
      if (copy.group >= groups_ - left) {
        copies_[kept++] = copy;
        continue;
      }
      auto* to = static_cast<std::uint32_t*>(copy.to);
      for (int k = 0; k < 4; ++k) {
        to[k] = copy.valid ? static_cast<const std::uint32_t*>(copy.from)[k] : 0;
      }
    }
    copy_count_ = kept;
  }

  Machine* machine_ = nullptr;
  int index_ = 0;
  int threads_ = 0;
  std::int64_t block_[3] = {};
  std::int64_t blocks_[3] = {};
  int carved_ = 0;  // arrays so far
  int groups_ = 0;  // committed ones
  int copy_count_ = 0;
  Copy copies_[kMostCopies] = {};
};

inline void Thread::cp_async16(void* to, const void* from, bool valid, const char* /*file*/,
                               int /*line*/) {
  check_alignment<4>(static_cast<std::uint32_t*>(to));
  if (valid) check_alignment<4>(static_cast<const std::uint32_t*>(from));
  if (copy_count_ == kMostCopies) emulated_fault("more than 64 copies under way in a thread");
  // Nobody may rely on what was there.
  for (int k = 0; k < 4; ++k) static_cast<std::uint32_t*>(to)[k] = 0xffffffffU;
  copies_[copy_count_++] = {to, from, valid, groups_};
}

}  // namespace phalanx::cuda
