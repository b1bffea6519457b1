// What packing documents is worth: steps of one model on the same documents, one of them in a
// padded sample and many in a packed one, by turns.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench_main.h"
#include "phalanx/base/philox.h"
#include "phalanx/base/text_batches.h"
#include "phalanx/data/packed_samples.h"
#include "phalanx/rules/resolve.h"
#include "ranks_run.h"

namespace phalanx::bench {
namespace {

struct Options {
  GptSize size{.layers = 4, .hidden = 512, .heads = 8, .sequence = 512, .vocabulary = 4096};
  std::int64_t documents = 4000;
  std::int64_t mean_length = 120;
  std::int64_t micro_batch = 2;
  std::int64_t rounds = 5;
  std::int64_t steps = 3;
  std::int64_t threads = 1;

  void add_to(FlagSet& flags) {
    size.add_to(flags);
    flags.add({.name = "--documents", .help = "Documents of the data"}, &documents);
    flags.add({.name = "--mean-length", .help = "Tokens of a document, in the mean"}, &mean_length);
    flags.add({.name = "--micro-batch-size", .help = "Samples of a step"}, &micro_batch);
    flags.add({.name = "--rounds", .help = "Turns of each way"}, &rounds);
    flags.add({.name = "--steps", .help = "Timed steps in a turn, after one of warm-up"}, &steps);
    flags.add({.name = "--threads", .help = "Threads of the rank"}, &threads);
  }
};

// Documents of random tokens, the same in every run. Their lengths are exponential, from 2 on.
class RandomDocuments final : public TokenSequences {
 public:
  explicit RandomDocuments(const Options& o) : vocabulary_(o.size.vocabulary) {
    for (std::int64_t i = 0; i < o.documents; ++i) {
      const double unit = (static_cast<double>(word(i, -1)) + 1.0) * 0x1p-32;
      lengths_.push_back(
          static_cast<std::int32_t>(2.0 - std::log(unit) * static_cast<double>(o.mean_length)));
    }
  }

  std::string_view name() const override { return "documents"; }
  std::int64_t sequences() const override { return std::ssize(lengths_); }
  std::int32_t length(std::int64_t sequence) const override {
    return lengths_[static_cast<std::size_t>(sequence)];
  }
  SequenceLengths lengths(std::int64_t begin, std::int64_t end) const override {
    return SequenceLengths(std::span<const std::int32_t>(lengths_)).part(begin, end);
  }
  void get(std::int64_t sequence, std::int64_t offset, std::span<std::int32_t> out) const override {
    for (std::int32_t& id : out) {
      id = static_cast<std::int32_t>(word(sequence, offset++) % vocabulary_);
    }
  }

 private:
  static std::uint32_t word(std::int64_t document, std::int64_t place) {
    return philox4x32(
        {}, {static_cast<std::uint32_t>(document), static_cast<std::uint32_t>(place), 0, 0})[0];
  }

  std::int64_t vocabulary_;
  std::vector<std::int32_t> lengths_;
};

// A way to put the documents into samples, and its steps of all turns.
struct Way {
  std::string name;
  PackedSamples samples;
  std::vector<double> seconds = {};

  // The share of rows that are tokens.
  double filled(std::int64_t sequence) const {
    const PackingCounts& counts = samples.index().counts;
    return static_cast<double>(counts.tokens) / static_cast<double>(counts.packs * sequence);
  }
  MakeBatch batches() const {
    return [this](std::int64_t first, std::int64_t count) {
      HostBatch batch(samples.schema(), count);
      Sample sample(samples.schema());
      double tokens = 0.0;
      for (std::int64_t i = 0; i < count; ++i) {
        samples.fetch((first + i) % samples.size(), sample, {&tokens, 1});
        batch.put(i, first + i, sample);
      }
      return batch;
    };
  }
};

Way way(std::string name, const Options& o, DocumentPacking packing, std::int64_t multiple) {
  const auto documents = std::make_shared<const RandomDocuments>(o);
  const std::int64_t sequence = o.size.sequence;
  return {.name = std::move(name),
          .samples = PackedSamples(
              documents, {0, documents->sequences()}, o.size.vocabulary,
              {.sequence_length = sequence, .packing = packing, .document_multiple = multiple}, {},
              gpt_batch_schema(sequence))};
}

TrainConfig config_of(const Options& o) {
  TrainConfig c = o.size.config();
  c.data.pack_documents = "best-fit";
  c.layout.micro_batch_size = c.layout.global_batch_size = o.micro_batch;
  c.layout.threads_per_rank = o.threads;
  resolve(c, false);
  return c;
}

void run(const Options& o) {
  const TrainConfig config = config_of(o);
  const std::int64_t sequence = o.size.sequence;
  // Whose document takes all rows of a sample has one in each.
  std::vector<Way> ways;
  ways.push_back(way("one document, padded", o, DocumentPacking::kGreedy, sequence));
  ways.push_back(way("greedy", o, DocumentPacking::kGreedy, 1));
  ways.push_back(way("best-fit", o, DocumentPacking::kBestFit, 1));
  for (std::int64_t round = 0; round < o.rounds; ++round) {
    for (Way& way : ways) {
      append(way.seconds, run_on_ranks(config, o.size.vocabulary, o.steps, way.batches()).seconds);
    }
  }
  const auto rows = static_cast<double>(o.micro_batch * sequence);
  const double padded_rows = rows / median(ways.front().seconds);
  fmt::print(
      "{} layers, hidden {}, sequence {}, vocabulary {}, {} samples a step, {}, {} threads; {} "
      "documents of {} tokens in the mean: {} rounds of {} steps\n",
      o.size.layers, o.size.hidden, sequence, o.size.vocabulary, o.micro_batch,
      o.size.bf16 ? "bf16" : "fp32", o.threads, o.documents, o.mean_length, o.rounds, o.steps);
  fmt::print(
      "| samples | filled | step, median | best | tokens/s | of the padded rows/s |\n"
      "|---|---|---|---|---|---|\n");
  for (const Way& way : ways) {
    const double step = median(way.seconds);
    const double tokens = rows / step * way.filled(sequence);
    fmt::print("| {} | {:.1f} % | {:.1f} ms | {:.1f} ms | {:.0f} | {:.3f} |\n", way.name,
               100.0 * way.filled(sequence), 1e3 * step,
               1e3 * *std::ranges::min_element(way.seconds), tokens, tokens / padded_rows);
  }
}

}  // namespace
}  // namespace phalanx::bench

int main(int argc, char** argv) {
  using namespace phalanx::bench;
  Options options;
  return bench_main(
      argc, argv, "bench_packing", "Times steps on documents that are padded and packed, in turns.",
      [&](phalanx::FlagSet& flags) { options.add_to(flags); }, [&] { run(options); });
}
