#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "phalanx/base/error.h"
#include "phalanx/base/hash.h"
#include "phalanx/base/input_path.h"
#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/corpus_flags.h"
#include "phalanx/cli/output_files.h"
#include "phalanx/cli/tokenizer_flags.h"
#include "phalanx/corpus/preprocess.h"
#include "phalanx/data/indexed_dataset.h"

namespace phalanx {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kStopping =
    "SIGINT: stopping; of --partitions, those that are complete stay for the same command to go on "
    "from; press Ctrl-C again to end at once\n";

constexpr double kMegabyte = 1e6;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string format_time(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

// Lines on standard error, at most one a second.
class ProgressLines {
 public:
  void show(const PreprocessProgress& progress) {
    if (seconds_since(shown_) < 1.0) return;
    shown_ = Clock::now();
    log_info("{}", line(progress));
  }

  double seconds() const { return seconds_since(start_); }

 private:
  std::string line(const PreprocessProgress& p) const {
    const double elapsed = std::max(seconds(), 1e-9);
    auto text = fmt::format("Processed {} documents ({:.1f} docs/s, {:.2f} MB/s).", p.documents,
                            static_cast<double>(p.documents) / elapsed,
                            static_cast<double>(p.text_bytes) / kMegabyte / elapsed);
    if (p.bytes_total > 0 && p.bytes_read > 0) {
      const double share =
          std::min(static_cast<double>(p.bytes_read) / static_cast<double>(p.bytes_total), 1.0);
      text += fmt::format(" {:.1f} %, ETA {}", 100.0 * share,
                          format_time(elapsed * (1.0 - share) / share));
    }
    return text;
  }

  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = start_;
};

// What the ids depend on: the flags, and the digest of each file that they name.
std::string identity_of(const Tokenizer& tokenizer, const TokenizerOptions& options) {
  nlohmann::ordered_json identity = {{"type", tokenizer.name()},
                                     {"vocab_size", tokenizer.vocab_size()},
                                     {"vocab_extra_ids", options.vocab_extra_ids},
                                     {"tiktoken_pattern", options.tiktoken_pattern},
                                     {"tiktoken_num", options.tiktoken_num_special_tokens},
                                     {"tiktoken_special", options.tiktoken_special_tokens}};
  if (options.vocab_file_only) identity["vocab_file_only"] = true;
  for (const TokenizerFile& file : tokenizer_files(options)) {
    if (!input_fault(file.path).empty()) continue;
    identity[file.flag + " " + file.name] = digest_to_text(digest_file(file.path).xxh3);
  }
  return identity.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

struct PreprocessFlags {
  PreprocessOptions options;
  CorpusFlags corpus{options};
  std::string language = "auto";
  std::int64_t workers = 0;
  bool overwrite = false;

  void add_output_to(FlagSet& flags) {
    flags.section("Output");
    flags.add({.name = "--output-prefix",
               .help = "PREFIX of PREFIX_KEY_document.{bin,idx}, or PREFIX_KEY_sentence",
               .value_name = "PREFIX",
               .required = true},
              &options.output_prefix);
    flags.add({.name = "--overwrite", .help = "Replace a dataset that is there"}, &overwrite);
    flags.add({.name = "--append-eod", .help = "End every document with end-of-document"},
              &options.append_eod);
    flags.add({.name = "--split-sentences", .help = "One sequence a sentence, for BERT and T5"},
              &options.split_sentences);
    flags.add({.name = "--keep-newlines",
               .help = "White space behind a sentence stays in it",
               .needs = "--split-sentences"},
              &options.sentences.keep_newlines);
    flags.add({.name = "--lang",
               .help = "Of the sentences; auto: by the script of each text",
               .choices = "auto english chinese japanese"},
              &language);
  }

  void add_work_to(FlagSet& flags) {
    flags.section("Work");
    flags.add({.name = "--workers",
               .help = "Threads that encode (default: all usable cores)",
               .range = from_to(1, 1024)},
              &workers);
    flags.add({.name = "--partitions",
               .help = "Parts of the input; those that are complete are not made again",
               .range = from_to(1, 9999)},
              &options.partitions);
    flags.add({.name = "--log-interval",
               .help = "Documents between progress lines, at most one a second",
               .range = at_least(1)},
              &options.progress_interval);
    add_answers_to(flags);
  }

  // Flags of Megatron's tool that need nothing here, or make no sense.
  static void add_answers_to(FlagSet& flags) {
    flags.add({.name = "--keep-sequential-samples",
               .state = FlagState::kSatisfied,
               .reason = "partitions always keep the order of the documents"});
    flags.add({.name = "--dataset-impl",
               .type = FlagType::kText,
               .state = FlagState::kSatisfied,
               .reason = "datasets are always of the kind that is mapped into memory",
               .satisfied_by = "mmap",
               .otherwise = "only mapped datasets are written; leave the flag out"});
    flags.add({.name = "--chunk-size",
               .type = FlagType::kInteger,
               .state = FlagState::kSatisfied,
               .reason = "workers take text by the megabyte"});
    flags.add({.name = "--make-vocab-size-divisible-by",
               .type = FlagType::kInteger,
               .state = FlagState::kSatisfied,
               .reason = "no id and no file depends on a padded vocabulary"});
    flags.add({.name = "--find-optimal-num-workers",
               .state = FlagState::kRefused,
               .reason = "--workers is all usable cores unless it is given, and more than those "
                         "gain nothing; leave the flag out"});
    for (const char* name : {"--workers-to-check", "--max-documents"}) {
      flags.add({.name = name,
                 .type = FlagType::kList,
                 .state = FlagState::kRefused,
                 .reason = "it is for --find-optimal-num-workers, which is not needed here; leave "
                           "the flag out"});
    }
  }

  // To be called after parsing. Checks that the output may be written before anything is read.
  void complete() {
    if (language == "english") options.sentences.language = SentenceLanguage::kEnglish;
    if (language == "chinese") options.sentences.language = SentenceLanguage::kChinese;
    if (language == "japanese") options.sentences.language = SentenceLanguage::kJapanese;
    corpus.complete(workers);
    for (const std::string& prefix : preprocess_output_prefixes(options)) {
      check_output("--output-prefix", bin_path(prefix), overwrite);
      check_output("--output-prefix", idx_path(prefix), overwrite);
    }
  }
};

void show_end(const PreprocessResult& result, double seconds) {
  for (const auto& prefix : result.output_prefixes) log_info("{}.bin, {}.idx", prefix, prefix);
  if (result.reused_partitions > 0) {
    log_info("{} partitions were complete before", result.reused_partitions);
  }
  if (result.skipped_lines > 0) {
    log_info("{} bad lines were left out", format_count(result.skipped_lines));
  }
  if (result.empty_documents > 0) {
    log_info("{} documents have no tokens", format_count(result.empty_documents));
  }
  const double elapsed = std::max(seconds, 1e-9);
  log_info(
      "{} documents, {} sequences, {} tokens of {} of text in {:.1f} s ({:.1f} docs/s, {:.2f} "
      "MB/s)",
      format_count(result.documents), format_count(result.sequences), format_count(result.tokens),
      format_bytes(result.text_bytes), seconds, static_cast<double>(result.documents) / elapsed,
      static_cast<double>(result.text_bytes) / kMegabyte / elapsed);
}

}  // namespace

int run_preprocess_data(CommandIo& io, const Arguments& arguments) {
  TokenizerFlags tokenizer_flags;
  PreprocessFlags given;
  FlagSet flags("phalanx preprocess-data",
                "Text or JSON lines into PREFIX_KEY_document.{bin,idx}.");
  given.corpus.add_to(flags);
  given.add_output_to(flags);
  given.add_work_to(flags);
  flags.section("Tokenizer");
  tokenizer_flags.add_to(flags);
  flags.parse(arguments);
  for (const std::string& note : flags.notes()) log_info("{}", note);
  given.complete();
  const auto tokenizer = tokenizer_flags.make();
  PreprocessOptions& options = given.options;
  options.eod = tokenizer->end_of_document();
  options.vocabulary_size = tokenizer->vocab_size();
  options.tokenizer = identity_of(*tokenizer, tokenizer_flags.options());

  const auto signals = io.listen(kStopping);
  ProgressLines lines;
  options.progress = [&](const PreprocessProgress& progress) { lines.show(progress); };
  options.stop_requested = [&] { return signals->received() != 0; };
  try {
    const auto result =
        preprocess(options, [&](std::string_view text) { return tokenizer->encode(text); });
    show_end(result, lines.seconds());
  } catch (const PreprocessStopped& stopped) {
    constexpr int kEndedBySignal = 128;  // plus the signal's number, as in shells
    log_line(LogLevel::kError, fmt::format("phalanx preprocess-data: {}", stopped.what()));
    return kEndedBySignal + signals->received();
  }
  return 0;
}

}  // namespace phalanx
