#pragma once
// For the tests of this room: files, and small datasets.

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "phalanx/base/test_support.h"
#include "phalanx/data/indexed_dataset_writer.h"

namespace phalanx::testing {

// One sequence a document, ids 0, 1, 2, ... through the whole file.
inline void write_counting_dataset(const std::string& prefix,
                                   const std::vector<std::int32_t>& lengths,
                                   TokenType type = TokenType::kI32) {
  IndexedDatasetWriter writer(prefix, type);
  std::int32_t next = 0;
  for (const auto length : lengths) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(length));
    std::iota(ids.begin(), ids.end(), next);
    next += length;
    writer.add_sequence(ids);
    writer.end_document();
  }
  writer.commit();
}

// The lengths behind the golden vectors of the indices: 70 tokens.
inline const std::vector<std::int32_t> kGoldenLengths{7, 3, 12, 5, 9, 4, 8, 6, 11, 5};

}  // namespace phalanx::testing
