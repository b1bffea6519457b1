#pragma once
// How a dataset is divided into training, validation and test parts (`--split 949,50,1`), with
// Megatron's rounding.

#include <array>
#include <cstdint>
#include <string_view>

namespace phalanx {

enum class SplitKind { kTrain = 0, kValid = 1, kTest = 2 };
inline constexpr std::array kSplitKinds{SplitKind::kTrain, SplitKind::kValid, SplitKind::kTest};
// "train", "valid", "test".
std::string_view name_of(SplitKind kind);

// Elements [begin, end).
struct IndexRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
  friend bool operator==(const IndexRange&, const IndexRange&) = default;
};

class Split {
 public:
  // One to three non-negative decimal numbers between commas or slashes, not all zero; missing ones
  // are 0, and they need not add up to anything. ConfigError naming --split otherwise.
  explicit Split(std::string_view text);

  // The fraction of one part; they add up to 1.
  double share(SplitKind kind) const { return shares_[static_cast<std::size_t>(kind)]; }

  // The part's elements out of `count`: cumulative shares times `count`, rounded half to even. For
  // GPT the elements are sequences. The parts cover [0, count) without gap or overlap; one may be
  // empty.
  IndexRange range(SplitKind kind, std::int64_t count) const;

 private:
  std::array<double, 3> shares_{};
};

}  // namespace phalanx
