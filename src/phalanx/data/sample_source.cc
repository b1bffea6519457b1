#include "phalanx/data/sample_source.h"

#include "phalanx/base/numeric.h"

namespace phalanx {

Sample::Sample(const BatchSchema& schema) {
  constexpr std::int64_t kWord = sizeof(std::int64_t);
  for (std::size_t i = 0; i < schema.columns().size(); ++i) {
    const std::int64_t bytes = schema.bytes_of(i, 1);
    columns_.push_back({std::vector<std::int64_t>(static_cast<std::size_t>(ceil_div(bytes, kWord))),
                        static_cast<std::size_t>(bytes)});
  }
}

}  // namespace phalanx
