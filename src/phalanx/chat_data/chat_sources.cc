#include "phalanx/chat_data/chat_sources.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"
#include "phalanx/chat/unused_keys.h"
#include "phalanx/chat_data/answer_ends.h"
#include "phalanx/data/numpy_random.h"

namespace phalanx {
namespace {

double percent(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

void tell_file(const ConversationTokens& file) {
  const ConversationCounts& counts = file.counts();
  log_info("> {}: {} conversations of {} tokens, the longest of {}; {:.1f} % are trained",
           file.file(), format_count(counts.conversations), format_count(counts.tokens),
           format_count(counts.longest), percent(counts.trained_labels, counts.tokens));
  if (counts.incomplete > 0) {
    log_warning("{}: {} conversations are left out: their last message is not the assistant's",
                file.file(), format_count(counts.incomplete));
  }
  warn_of_unused_keys(file.file(), file.unused_keys());
}

void tell_choice(std::string_view file, SplitKind kind, const ChoiceCounts& counts,
                 std::int64_t most_tokens) {
  if (counts.too_long > 0) {
    log_warning(
        "{}: {} conversations of the {} part are left out: they are longer than --seq-length {}. "
        "Give "
        "a longer one, or --sft-truncation",
        file, format_count(counts.too_long), name_of(kind), most_tokens);
  }
  if (counts.cut > 0) {
    log_warning("{}: {} conversations of the {} part are cut to --seq-length {}", file,
                format_count(counts.cut), name_of(kind), most_tokens);
  }
  if (counts.untrained > 0) {
    log_warning("{}: {} conversations of the {} part are left out: none of their tokens is trained",
                file, format_count(counts.untrained), name_of(kind));
  }
}

}  // namespace

std::vector<std::uint32_t> conversations_of_part(std::int64_t conversations, IndexRange part,
                                                 std::uint32_t seed) {
  std::vector<std::uint32_t> all(static_cast<std::size_t>(conversations));
  std::iota(all.begin(), all.end(), 0U);
  if (part.size() == conversations) return all;
  NumpyRandom(seed).shuffle(std::span(all));
  std::vector<std::uint32_t> chosen(all.begin() + part.begin, all.begin() + part.end);
  std::ranges::sort(chosen);
  return chosen;
}

ChatSources::ChatSources(const Tokenizer& tokenizer, ChatSourceOptions options)
    : DataSources(options.samples.poll), tokenizer_(tokenizer), options_(std::move(options)) {}

DataSources::OpenedData ChatSources::open(const std::string& path, const SourceRequest& request) {
  auto& file = files_[path];
  if (!file) {
    file = ConversationTokens::read(path, tokenizer_, options_.conversations,
                                    options_.samples.cache, poll());
    if (!options_.samples.is_quiet) tell_file(*file);
  }
  const auto samples_of = [this, file, kind = request.kind](IndexRange range,
                                                            std::optional<std::int64_t> samples) {
    const auto numbers = conversations_of_part(file->size(), range, options_.samples.seed);
    auto chosen = std::make_shared<const ChosenConversations>(
        file, numbers, options_.samples.sequence_length, options_.truncation);
    const ChoiceCounts& counts = chosen->counts();
    if (!options_.samples.is_quiet) {
      tell_choice(file->file(), kind, counts, options_.samples.sequence_length);
    }
    if (kind == SplitKind::kTrain && counts.conversations > 0) tell_ends(*chosen);
    if (counts.conversations == 0) {
      throw ConfigError(
          "none of these conversations is left: {} are longer than --seq-length {}, {} have no "
          "token that is trained",
          format_count(counts.too_long), options_.samples.sequence_length,
          format_count(counts.untrained));
    }
    GptSourceOptions of_part = options_.samples;
    of_part.batch.averages_documents &= kind == SplitKind::kTrain;
    const std::int64_t sequences = chosen->sequences();
    return packed_source(of_part, std::move(chosen), {0, sequences}, samples);
  };
  return {.elements = file->size(), .samples_of = samples_of};
}

void ChatSources::tell_ends(const ChosenConversations& chosen) {
  if (options_.samples.is_quiet || has_told_ends_) return;
  const std::string fault = fault_of_answer_ends(chosen, tokenizer_, options_.conversations);
  if (fault.empty()) return;
  log_warning("{}: {}", chosen.name(), fault);
  has_told_ends_ = true;
}

std::shared_ptr<const SampleSource> ChatSources::make_mock(const SourceRequest& /*request*/) {
  throw ConfigError("--mock-data: no conversations are made up; give --data-path FILE.jsonl");
}

std::int64_t ChatSources::tokens() const {
  std::int64_t tokens = 0;
  for (const auto& [path, file] : files_) tokens += file->counts().tokens;
  return tokens;
}

std::int64_t ChatSources::documents() const {
  std::int64_t documents = 0;
  for (const auto& [path, file] : files_) documents += file->size();
  return documents;
}

}  // namespace phalanx
