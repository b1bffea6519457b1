#include "phalanx/flag_table/train_flags.h"

#include <algorithm>
#include <map>
#include <string>

#include "phalanx/families/family.h"
#include "phalanx/flag_table/sections.h"
#include "phalanx/flag_table/unbound.h"

namespace phalanx {

namespace {

std::vector<TrainFlag> all_flags() {
  std::vector<TrainFlag> all;
  for (const auto part :
       {model_flags(), layer_flags(), expert_flags(), lora_flags(), optimizer_flags(),
        layout_flags(), run_flags(), data_flags(), tokenizer_flags(), chat_flags(),
        unbound_model_flags(), unbound_optimizer_flags(), unbound_layout_flags(),
        unbound_run_flags(), unbound_data_flags(), unbound_program_flags()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  const auto place = [](const TrainFlag& flag) {
    return std::ranges::find(kSections, flag.section);
  };
  std::ranges::stable_sort(all, {}, place);
  return all;
}

bool is_row_of(std::span<const TrainFlag> rows, const TrainFlag& flag) {
  return std::ranges::find(rows, flag.spec.name,
                           [](const TrainFlag& row) { return row.spec.name; }) != rows.end();
}

}  // namespace

const std::vector<TrainFlag>& train_flags() {
  static const std::vector<TrainFlag> all = all_flags();
  return all;
}

bool describes_model(const TrainFlag& flag) {
  return flag.target != nullptr &&
         (is_row_of(model_flags(), flag) || is_row_of(layer_flags(), flag) ||
          (is_row_of(expert_flags(), flag) && flag.spec.resume == ResumeClass::kFixed) ||
          (is_row_of(lora_flags(), flag) && flag.spec.resume == ResumeClass::kFixed) ||
          flag.spec.resume == ResumeClass::kShape || flag.spec.name == "--seq-length" ||
          flag.spec.name == "--decoder-seq-length");
}

bool describes_tokenizer(const TrainFlag& flag) { return is_row_of(tokenizer_flags(), flag); }

const TrainFlag* find_train_flag(std::string_view name) {
  // Cached, because it is called very often.
  static const auto by_name = [] {
    std::map<std::string, const TrainFlag*> flags;
    for (const TrainFlag& flag : train_flags()) {
      flags.emplace(canonical_name(flag.spec.name), &flag);
      for (const auto list : {flag.spec.aliases, flag.spec.old_names}) {
        for (const auto other : words_of(list)) flags.emplace(canonical_name(other), &flag);
      }
    }
    return flags;
  }();
  const auto found = by_name.find(canonical_name(name));
  return found == by_name.end() ? nullptr : found->second;
}

std::vector<std::pair<std::string, std::string>> argument_values(const TrainConfig& config) {
  TrainConfig values = config;  // the table needs variables; they are only read
  std::vector<std::pair<std::string, std::string>> result;
  for (const TrainFlag& flag : train_flags()) {
    if (flag.target == nullptr) continue;
    result.emplace_back(flag.spec.name, text_of(flag.target(values)));
  }
  for (const auto& [flag, value] : config.family_options) result.emplace_back(flag, value);
  return result;
}

bool is_of_family(const TrainFlag& flag, std::string_view family) {
  const auto families = words_of(flag.families);
  return families.empty() || std::ranges::find(families, family) != families.end();
}

void add_train_flags(FlagSet& flags, TrainConfig& config) {
  for (const TrainFlag& flag : train_flags()) {
    flags.section(std::string(flag.section));
    flags.add(flag.spec, flag.target != nullptr ? flag.target(config) : FlagTarget{});
  }
  if (config.family == nullptr) return;
  flags.section(std::string(config.family->title()));
  for (const ModelFamily::OwnFlag& own : config.family->flags()) {
    std::string& value = config.family_options[std::string(own.spec.name)];
    value = own.default_value;
    flags.add(own.spec, &value);
  }
}

}  // namespace phalanx
