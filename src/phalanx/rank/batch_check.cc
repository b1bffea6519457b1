#include "phalanx/rank/batch_check.h"

#include <string>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/model/batch_binding.h"

namespace phalanx {
namespace {

void check_sequence(const HostBatch& batch, const std::string& prefix, const RowPattern& pattern) {
  const auto samples = batch.column<std::int64_t>(prefix + "sample");
  // Element (row, sample) of a column has this place.
  const auto check = [&](std::string_view name, const auto& expected) {
    const auto numbers = batch.column<std::int32_t>(prefix + std::string(name));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::int64_t row = static_cast<std::int64_t>(i) / batch.samples();
      if (numbers[i] == expected(row)) continue;
      throw DataError(
          "--check-batches: {}{} of row {} of sample {} is {}, where this model's batches have {}; "
          "its data source must fill the column so, or the model must not say so "
          "(Model::row_patterns)",
          prefix, name, row, samples[i % samples.size()], numbers[i], expected(row));
    }
  };
  if (pattern.consecutive) check("position", [&](std::int64_t row) { return pattern.first + row; });
  if (pattern.one_document) check("document", [](std::int64_t) { return 0; });
}

}  // namespace

void check_row_patterns(const HostBatch& batch, const nn::RowPatterns& patterns) {
  check_sequence(batch, "", patterns[0]);
  if (has_decoder_rows(batch.schema())) check_sequence(batch, "decoder_", patterns[1]);
}

}  // namespace phalanx
