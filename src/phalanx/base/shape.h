#pragma once
// The extents of a tensor, outermost first; at most six, stored without heap memory.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "phalanx/base/error.h"

namespace phalanx {

inline constexpr int kMaxRank = 6;

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents) {
    for (const auto extent : extents) push_back(extent);
  }
  explicit Shape(std::span<const std::int64_t> extents) {
    for (const auto extent : extents) push_back(extent);
  }

  int rank() const { return rank_; }
  std::int64_t operator[](int dim) const { return extents_[static_cast<std::size_t>(dim)]; }
  std::int64_t& operator[](int dim) { return extents_[static_cast<std::size_t>(dim)]; }
  std::int64_t back() const { return (*this)[rank_ - 1]; }
  const std::int64_t* begin() const { return extents_.data(); }
  const std::int64_t* end() const { return extents_.data() + rank_; }

  void push_back(std::int64_t extent) {
    PHALANX_CHECK(rank_ < kMaxRank, "a shape has at most {} extents", kMaxRank);
    extents_[static_cast<std::size_t>(rank_++)] = extent;
  }

  // Product of the extents; 1 for a scalar.
  std::int64_t count() const {
    std::int64_t product = 1;
    for (const auto extent : *this) product *= extent;
    return product;
  }

  // "[256, 4, 768]".
  std::string to_string() const;

  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i) {
      if (a[i] != b[i]) return false;
    }
    return true;
  }

 private:
  std::array<std::int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

}  // namespace phalanx
