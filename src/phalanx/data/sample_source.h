#pragma once
// Where samples come from. Sources stack: windows of documents, padding and masking below, blends
// above; a loader takes from the topmost one.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "phalanx/base/batch_schema.h"

namespace phalanx {

// A sample on its way: its number in the stream of all samples that a run consumes, which dropout
// and order depend on, and its index in the data set, which says what is in it.
struct SampleId {
  std::int64_t number = 0;
  std::int64_t index = 0;
  friend bool operator==(const SampleId&, const SampleId&) = default;
};

// The columns of one sample, in the order of its schema: the memory is used again and again.
class Sample {
 public:
  explicit Sample(const BatchSchema& schema);

  // One sample's elements of a column. T has the size of the column's dtype.
  template <typename T>
  std::span<T> column(std::size_t index) {
    Column& memory = columns_[index];
    return {reinterpret_cast<T*>(memory.words.data()), memory.bytes / sizeof(T)};
  }
  template <typename T>
  std::span<const T> column(std::size_t index) const {
    const Column& memory = columns_[index];
    return {reinterpret_cast<const T*>(memory.words.data()), memory.bytes / sizeof(T)};
  }
  std::span<const std::byte> bytes(std::size_t index) const {
    return std::as_bytes(std::span(columns_[index].words)).first(columns_[index].bytes);
  }

 private:
  struct Column {
    std::vector<std::int64_t> words;  // so that it is aligned
    std::size_t bytes = 0;
  };
  std::vector<Column> columns_;
};

class SampleSource;

// A sample of the source that makes it, below blends and padding.
struct SamplePlace {
  const SampleSource* source = nullptr;
  std::int64_t index = 0;
};

// A number that grows with a document: its tokens, what a model computes for it.
using DocumentMeasure = std::function<double(std::int64_t tokens)>;

class SampleSource {
 public:
  virtual ~SampleSource() = default;

  // Indices are 0 .. size() - 1.
  virtual std::int64_t size() const = 0;
  // The columns that fetch() fills. The columns "sample" and "decoder_sample" (i64), of the number
  // in the consumed stream, are filled by who knows it.
  virtual const BatchSchema& schema() const = 0;
  // Sums of a model family's losses that a sample counts for, in its order: "lm loss".
  virtual int losses() const = 0;
  // Fills every column but those, and the unmasked tokens of each loss. Any number of threads
  // at the same time. DataError names the file, the document and the place in it.
  virtual void fetch(std::int64_t index, Sample& sample, std::span<double> counts) const = 0;
  // The source that makes a sample, and its index there.
  virtual SamplePlace place_of(std::int64_t index) const { return {this, index}; }
  // Where samples are whole documents and padding: the measures of a sample's documents together,
  // in the mean of all samples. Takes time in proportion to the documents.
  virtual std::optional<double> mean_of_documents(const DocumentMeasure& /*measure*/) const {
    return std::nullopt;
  }
};

}  // namespace phalanx
