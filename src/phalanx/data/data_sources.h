#pragma once
// The sources of a model family's samples: a split of one dataset, or a blend of several. A family
// says how samples are made of one dataset, and what of it a split divides.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "phalanx/data/data_paths.h"
#include "phalanx/data/indexed_dataset.h"
#include "phalanx/data/sample_source.h"
#include "phalanx/data/split.h"

namespace phalanx {

// What is wanted of a split.
struct SourceRequest {
  SplitKind kind = SplitKind::kTrain;
  // None: each sample once.
  std::optional<std::int64_t> samples = std::nullopt;
  // None: every dataset belongs to this split as a whole.
  std::optional<Split> split = std::nullopt;
};

// Every source restarts from the same seed, as in Megatron.
class DataSources {
 public:
  virtual ~DataSources() = default;

  // Null where no samples are requested or there are none: an empty training part is a ConfigError,
  // an empty one that --split asks for a warning. A dataset of a blend whose part is empty is left
  // out of it, with a warning. ConfigErrors name the dataset.
  //  - One dataset without a weight has at least the requested samples.
  //  - With weights each has Megatron's surplus, and the blend at least the requested samples.
  //  - Without weights each sample of several datasets comes at most once: the blend may have fewer
  //    samples than requested.
  // A family whose data are no such datasets makes its own.
  virtual std::shared_ptr<const SampleSource> make(const DataBlend& blend,
                                                   const SourceRequest& request);
  // A source of mock data; ConfigError if the family has none.
  virtual std::shared_ptr<const SampleSource> make_mock(const SourceRequest& request) = 0;

  // The tokens of all files that were opened, and of mock data, whatever the split.
  virtual std::int64_t tokens() const;
  virtual std::int64_t documents() const;

 protected:
  // `poll` is called every so often while an order is made; what it throws ends that.
  explicit DataSources(std::function<void()> poll) : poll_(std::move(poll)) {}

  const std::function<void()>& poll() const { return poll_; }
  // The part of `count` elements that the split takes; empty where there is none, which is said.
  IndexRange range_of(std::string_view dataset, std::int64_t count, const SourceRequest& request,
                      bool is_blended) const;
  // Calls make(), and puts the dataset and its part before what a ConfigError says.
  std::shared_ptr<const SampleSource> make_named(
      std::string_view dataset, IndexRange range, SplitKind kind,
      const std::function<std::shared_ptr<const SampleSource>()>& make) const;

  // A dataset of a blend.
  struct OpenedData {
    std::int64_t elements = 0;  // what --split divides
    // The samples of these elements: at least the requested ones, or each once.
    std::function<std::shared_ptr<const SampleSource>(IndexRange range,
                                                      std::optional<std::int64_t> samples)>
        samples_of;
  };

 private:
  // What --split divides, for messages ("sequences").
  virtual std::string_view element_name() const = 0;
  // The dataset that a word of the data flags names: of a .bin/.idx dataset, whose prefix it is,
  // what the next two functions say. A family with other files says all of it here.
  virtual OpenedData open(const std::string& path, const SourceRequest& request);
  virtual std::int64_t elements(const IndexedDataset& file) const;
  virtual std::shared_ptr<const SampleSource> samples_of(
      const std::shared_ptr<const IndexedDataset>& file, IndexRange range,
      std::optional<std::int64_t> samples) const;

  std::shared_ptr<const SampleSource> blend_of(const DataBlend& blend,
                                               const SourceRequest& request);

  std::function<void()> poll_;
  std::map<std::string, std::shared_ptr<const IndexedDataset>> files_;
};

}  // namespace phalanx
