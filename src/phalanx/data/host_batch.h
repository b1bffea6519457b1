#pragma once
// One microbatch on the host: the columns of a schema, one behind the other in one piece of memory,
// each [extents..., samples] - so with one extent s a column is [s, b], row r being position r / b
// of sample r % b. Of a context-parallel rank it is that rank's part of the microbatch.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "phalanx/base/batch_schema.h"
#include "phalanx/data/sample_source.h"
#include "phalanx/mesh/context_cut.h"

namespace phalanx {

class HostBatch {
 public:
  HostBatch() = default;
  // Of samples with this schema. `rank` of the cut's ranks has the columns of context_schema()
  // (base/text_batches.h).
  HostBatch(const BatchSchema& schema, std::int64_t samples, ContextCut cut = {}, int rank = 0);

  const BatchSchema& schema() const { return schema_; }
  std::int64_t samples() const { return samples_; }

  // A sample, whole, becomes number `place` of the batch; its columns "sample" and
  // "decoder_sample", where the schema has them, are filled with `number`. Errors as
  // ContextCut::rows() says.
  void put(std::int64_t place, std::int64_t number, const Sample& sample);

  // Everything, as it is uploaded.
  std::span<const std::byte> bytes() const {
    return std::as_bytes(std::span(words_)).first(bytes_);
  }
  // The elements of a column. T has the size of the column's dtype (PHALANX_CHECK).
  template <typename T>
  std::span<T> column(std::string_view name);
  template <typename T>
  std::span<const T> column(std::string_view name) const;

 private:
  std::span<std::byte> memory(std::string_view name, std::size_t element);
  void cut_rows(const Sample& sample);
  // Of a column, the rows of the sample that it has, as they are cut.
  std::span<const ContextCut::Range> rows_of(const BatchColumn& column) const;

  BatchSchema schema_;
  ContextCut cut_;
  int rank_ = 0;
  // Of the sample that is put, where it is cut: the rows of all ranks, in rank order, and where
  // each rank's begin among them.
  std::vector<ContextCut::Range> rows_;
  std::vector<std::size_t> begins_;
  std::int64_t samples_ = 0;
  std::size_t bytes_ = 0;
  std::vector<std::int64_t> words_;  // so that every column is aligned
};

template <typename T>
std::span<T> HostBatch::column(std::string_view name) {
  const auto bytes = memory(name, sizeof(T));
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

template <typename T>
std::span<const T> HostBatch::column(std::string_view name) const {
  return const_cast<HostBatch*>(this)->column<T>(name);  // only its constness differs
}

}  // namespace phalanx
