#include "phalanx/selftest/training_checks.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/checkpoint/diff.h"
#include "phalanx/data/indexed_dataset_writer.h"
#include "phalanx/flag_table/train_flags.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/train/pretrain.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

constexpr double kSeconds = 300;  // of a run
constexpr int kSteps = 20;
constexpr int kStop = 10;  // the step after which a run is stopped and resumed

constexpr const char* kFlags =
    "--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 "
    "--max-position-embeddings 16 --make-vocab-size-divisible-by 32 --micro-batch-size 2 "
    "--global-batch-size 2 --lr 1e-2 --min-lr 1e-3 --lr-decay-style cosine --lr-warmup-iters 2 "
    "--split 100,0,0 --eval-iters 0 --tokenizer-type NullTokenizer --vocab-size 48 "
    "--threads-per-rank 1 --no-cpu-affinity";

struct Precision {
  const char* name;
  const char* flag;  // empty: none
  double tolerance;  // of losses, relative
};
constexpr Precision kPrecisions[] = {{"fp32", "", 1e-5}, {"bf16", "--bf16", 5e-3}};

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::error_code error;
    std::string path = fs::temp_directory_path(error) / "phalanx_selftest_XXXXXX";
    if (error) {
      throw OutputError("TMPDIR is no folder that can be written: {}: set it to one that is",
                        error.message());
    }
    if (::mkdtemp(path.data()) == nullptr) {
      throw OutputError("{}: cannot be made: set TMPDIR to a folder that can be written", path);
    }
    path_ = path;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string operator/(const char* name) const { return path_ / name; }

 private:
  fs::path path_;
};

// Documents of 48 ids: a ramp with noise, so that there is something to learn.
void write_documents(const std::string& prefix) {
  IndexedDatasetWriter writer(prefix, TokenType::kU16);
  std::uint32_t state = 1;
  for (int document = 0; document < 40; ++document) {
    std::vector<std::int32_t> tokens;
    for (int i = 0; i < 40 + document; ++i) {
      state = state * 1664525U + 1013904223U;
      tokens.push_back(
          static_cast<std::int32_t>((state >> 28) < 12 ? (i + document) % 47 : (state >> 8) % 47));
    }
    tokens.push_back(48);
    writer.add_sequence(tokens);
    writer.end_document();
  }
  writer.commit();
}

// What a run tells of its checkpoints is not of interest here.
class QuietLog {
 public:
  QuietLog() { set_log_level(LogLevel::kWarning); }
  ~QuietLog() { set_log_level(LogLevel::kInfo); }
  QuietLog(const QuietLog&) = delete;
  QuietLog& operator=(const QuietLog&) = delete;
};

class LossSink final : public RunSink {
 public:
  explicit LossSink(std::vector<double>& losses) : losses_(losses) {}
  std::string name() const override { return "the selftest"; }
  void iteration(const IterationReport& report) override {
    losses_.push_back(report.losses.at(0).value);
  }

 private:
  std::vector<double>& losses_;
};

// The runs of one precision on one device, with the folder where they leave their checkpoints.
class TinyRuns {
 public:
  TinyRuns(const Precision& precision, std::string device, std::string products,
           std::function<bool()> is_stopped)
      : precision_(precision),
        device_(std::move(device)),
        products_(std::move(products)),
        is_stopped_(std::move(is_stopped)) {
    write_documents(folder_ / "data");
  }

  // The losses of the steps `first` to `last`; a run that does not begin goes on from `save`.
  std::vector<double> train(const char* save, int first, int last) const {
    std::vector<std::string> words;
    std::istringstream text(kFlags);
    for (std::string word; text >> word;) words.push_back(word);
    words.insert(words.end(), {"--train-iters", std::to_string(kSteps), "--data-path",
                               folder_ / "data", "--device", device_});
    if (*precision_.flag != '\0') words.emplace_back(precision_.flag);
    if (!products_.empty()) words.insert(words.end(), {"--matmul-precision", products_});
    if (save != nullptr) {
      const std::string path = folder_ / save;
      words.insert(words.end(), {"--save", path, "--save-interval", "1000"});
      if (first > 1) words.insert(words.end(), {"--load", path});
    }
    if (last < kSteps) words.insert(words.end(), {"--exit-interval", std::to_string(last)});
    TrainConfig config;
    FlagSet flags("selftest", "");
    add_train_flags(flags, config);
    flags.parse(words);
    const QuietLog quiet;
    std::vector<double> losses;
    RunSinks sinks;
    sinks.add(std::make_unique<LossSink>(losses));
    const RunEnd end = pretrain(
        config, [this] { return is_stopped_ && is_stopped_() ? kAskedByProgram : 0; }, sinks);
    if (end != RunEnd::kFinished) throw SelftestStopped();
    return losses;
  }

  // What differs between two checkpoints, or an empty string.
  std::string difference(const char* a, const char* b) const {
    const CheckpointDifference found =
        diff_checkpoints(CheckpointReader::open(folder_ / a), CheckpointReader::open(folder_ / b));
    return found.tensors_equal() ? std::string() : to_text(found);
  }

 private:
  TemporaryFolder folder_;
  const Precision& precision_;
  std::string device_;
  std::string products_;
  std::function<bool()> is_stopped_;
};

const Precision& precision_of(const std::string& name) {
  const auto found =
      std::ranges::find_if(kPrecisions, [&](const Precision& one) { return one.name == name; });
  PHALANX_CHECK(found != std::end(kPrecisions), "no precision {}", name);
  return *found;
}

void compare_losses(const std::vector<double>& found, const std::vector<double>& expected,
                    CheckResult& result) {
  result.passed = found.size() == expected.size();
  if (!result.passed) {
    result.more = fmt::format("{} losses of {}", found.size(), expected.size());
    return;
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double error = std::abs(found[i] - expected[i]) / expected[i];
    if (error <= result.error) continue;
    result.error = error;
    result.more =
        fmt::format("step {}: {:.7g}, the processor had {:.7g}", i + 1, found[i], expected[i]);
    if (std::isnan(error)) break;
  }
  result.passed = result.error <= result.tolerance;
  if (result.passed) result.more.clear();
}

template <typename Run>
void tell(SelftestReport& report, CheckResult result, const Run& run) {
  report.begin(result.name, kSeconds);
  const auto begin = std::chrono::steady_clock::now();
  try {
    run(result);
  } catch (const Error& error) {
    result.passed = false;
    result.more = error.what();
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  report.add(result);
}

}  // namespace

void check_training(const TrainingChecks& checks, SelftestReport& report) {
  for (const StoredLosses& stored : checks.stored) {
    const Precision& precision = precision_of(stored.precision);
    const std::string products = precision.flag[0] == '\0' ? std::string() : checks.products;
    const std::string title = fmt::format("tiny GPT, {}{}", precision.name,
                                          products.empty() ? "" : ", " + products + " products");
    std::optional<TinyRuns> runs;
    std::vector<double> losses;
    tell(report,
         {.name = fmt::format("{}: losses of {} steps", title, kSteps),
          .tolerance = precision.tolerance},
         [&](CheckResult& result) {
           runs.emplace(precision, checks.device, products, checks.is_stopped);
           losses = runs->train("whole", 1, kSteps);
           compare_losses(losses, stored.losses, result);
         });
    tell(report, {.name = fmt::format("{}: stopped at {} and resumed, equal bits", title, kStop)},
         [&](CheckResult& result) {
           if (losses.empty()) throw InternalError("the run itself has failed");
           std::vector<double> parts = runs->train("parts", 1, kStop);
           const std::vector<double> rest = runs->train("parts", kStop + 1, kSteps);
           parts.insert(parts.end(), rest.begin(), rest.end());
           result.more = runs->difference("whole", "parts");
           if (parts != losses) result.more = "losses differ; " + result.more;
           result.passed = result.more.empty();
         });
  }
}

std::vector<double> tiny_losses(const std::string& precision, const std::string& device,
                                const std::string& products) {
  return TinyRuns(precision_of(precision), device, products, nullptr).train(nullptr, 1, kSteps);
}

}  // namespace phalanx
