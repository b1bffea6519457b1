#include "phalanx/base/batch_schema.h"

#include <algorithm>

#include "phalanx/base/error.h"

namespace phalanx {

BatchSchema::BatchSchema(std::vector<BatchColumn> columns) : columns_(std::move(columns)) {
  std::ranges::stable_sort(columns_, std::ranges::greater{},
                           [](const BatchColumn& column) { return size_of(column.dtype); });
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    PHALANX_CHECK(index(columns_[i].name) == i, "two columns are called {}", columns_[i].name);
  }
}

std::size_t BatchSchema::index(std::string_view name) const {
  const auto found = std::ranges::find(columns_, name, &BatchColumn::name);
  PHALANX_CHECK(found != columns_.end(), "no column {}", name);
  return static_cast<std::size_t>(found - columns_.begin());
}

std::int64_t BatchSchema::bytes_of(std::size_t column, std::int64_t samples) const {
  return columns_[column].extents.count() * samples * size_of(columns_[column].dtype);
}

std::int64_t BatchSchema::offset(std::size_t column, std::int64_t samples) const {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < column; ++i) bytes += bytes_of(i, samples);
  return bytes;
}

std::int64_t BatchSchema::bytes(std::int64_t samples) const {
  return offset(columns_.size(), samples);
}

bool operator==(const BatchSchema& a, const BatchSchema& b) {
  return std::ranges::equal(a.columns_, b.columns_, [](const BatchColumn& x, const BatchColumn& y) {
    return x.name == y.name && x.dtype == y.dtype && x.extents == y.extents;
  });
}

}  // namespace phalanx
