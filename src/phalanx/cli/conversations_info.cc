#include "phalanx/cli/conversations_info.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/chat/unused_keys.h"
#include "phalanx/chat_data/answer_ends.h"
#include "phalanx/chat_data/chosen_conversations.h"
#include "phalanx/families/conversation_sources.h"
#include "phalanx/flag_table/train_flags.h"
#include "phalanx/rules/rules.h"

namespace phalanx {
namespace {

constexpr std::string_view kLength = "--seq-length";
constexpr std::array<std::string_view, 9> kFlags = {"--sft",
                                                    "--sft-loss",
                                                    "--sft-drop-incomplete",
                                                    "--sft-special-tokens-in-content",
                                                    "--chat-template",
                                                    "--chat-template-args",
                                                    "--chat-template-date",
                                                    "--sft-truncation",
                                                    "--data-cache-path"};

}  // namespace

void ConversationsInfo::add_to(FlagSet& flags) {
  for (const std::string_view name : kFlags) {
    const TrainFlag& flag = *find_train_flag(name);
    flags.add(flag.spec, flag.target(config_));
  }
  const TrainFlag& length = *find_train_flag(kLength);
  flags.add({.name = kLength,
             .help = "Tokens of a sample: says how many conversations are longer",
             .range = length.spec.range,
             .needs = "--sft"},
            length.target(config_));
  tokenizer_.add_to(flags);
}

void ConversationsInfo::check(const FlagSet& flags) const {
  const bool names_tokenizer = TokenizerFlags::names_tokenizer(flags);
  if (is_wanted() && !names_tokenizer) {
    throw UsageError("--sft needs the tokenizer: give --tokenizer-type");
  }
  if (!is_wanted() && (names_tokenizer || flags.given("--data-cache-path"))) {
    throw UsageError("flags of a tokenizer and --data-cache-path need --sft: leave them out");
  }
  if (config_.data.seq_length == 0 && flags.given("--sft-truncation")) {
    throw UsageError("--sft-truncation needs --seq-length");
  }
  Faults faults;
  check_chat(config_, faults);
  faults.raise();
}

nlohmann::ordered_json ConversationsInfo::of(const std::string& file) const {
  const auto tokenizer = tokenizer_.make();
  const IndexCache cache(config_.data.data_cache_path);
  const auto options = conversation_options(config_.data, tokenizer_.options(), *tokenizer);
  const auto all = ConversationTokens::read(
      file, *tokenizer, options, config_.data.data_cache_path.empty() ? nullptr : &cache, nullptr);
  const ConversationCounts& counts = all->counts();
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < all->size(); ++i) lengths.push_back(all->entry(i).tokens);
  std::ranges::sort(lengths);
  // The least length that this share of the conversations does not exceed.
  const auto length_of = [&](double share) {
    if (lengths.empty()) return std::int64_t{0};
    const auto last = static_cast<double>(lengths.size() - 1);
    return lengths[static_cast<std::size_t>(share * last)];
  };
  nlohmann::ordered_json info{{"conversations", counts.conversations},
                              {"tokens", counts.tokens},
                              {"trained_tokens", counts.trained_labels},
                              {"dropped_incomplete", counts.incomplete},
                              {"shortest", length_of(0.0)},
                              {"median", length_of(0.5)},
                              {"of_90_percent", length_of(0.9)},
                              {"of_99_percent", length_of(0.99)},
                              {"longest", length_of(1.0)}};
  const bool has_length = config_.data.seq_length > 0;
  std::vector<std::uint32_t> numbers(static_cast<std::size_t>(all->size()));
  std::iota(numbers.begin(), numbers.end(), 0U);
  const ChosenConversations chosen(all, numbers,
                                   has_length ? config_.data.seq_length : counts.longest,
                                   truncation_of(config_.data));
  warn_of_unused_keys(file, all->unused_keys());
  if (const auto fault = fault_of_answer_ends(chosen, *tokenizer, options); !fault.empty()) {
    log_warning("{}: {}", file, fault);
  }
  info["dropped_untrained"] = chosen.counts().untrained;
  if (has_length) {
    info["dropped_too_long"] = chosen.counts().too_long;
    info["cut"] = chosen.counts().cut;
    info["kept_conversations"] = chosen.counts().conversations;
    info["kept_tokens"] = chosen.counts().tokens;
    info["kept_trained_tokens"] = chosen.counts().trained_labels;
  }
  return info;
}

}  // namespace phalanx
