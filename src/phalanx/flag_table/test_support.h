#pragma once
// Configurations of tests, written as flags.

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "phalanx/flag_table/train_flags.h"

namespace phalanx {

// Assigns the members of `c` that these flags set: "--num-layers 4 --bf16 --data-path a b". It
// checks no value, so that a test can give resolve() what the command line refuses. "--bf16 false"
// switches off; a text or list without a word is empty, an optional number is then not given.
// Beside the flags of the table it knows --world-size and --family.
inline void set_flags(TrainConfig& c, const std::string& flags) {
  struct Assign {
    const std::vector<std::string>& words;
    std::string first = words.empty() ? std::string() : words[0];
    void operator()(std::monostate) const {}
    void operator()(bool* value) const { *value = first != "false"; }
    void operator()(std::int64_t* value) const { *value = std::stoll(first); }
    void operator()(double* value) const { *value = std::stod(first); }
    void operator()(std::optional<double>* value) const {
      *value = words.empty() ? std::optional<double>() : std::stod(first);
    }
    void operator()(std::string* value) const { *value = first; }
    void operator()(std::vector<std::string>* value) const { *value = words; }
    void operator()(std::vector<std::int64_t>* value) const {
      value->clear();
      for (const std::string& word : words) value->push_back(std::stoll(word));
    }
  };
  const auto target_of = [&c](const std::string& name) -> FlagTarget {
    if (name == "--world-size") return &c.layout.world_size;
    if (name == "--family") return &c.model.family;
    const TrainFlag* flag = find_train_flag(name);
    if (flag == nullptr || flag->target == nullptr) {
      throw std::invalid_argument("set_flags: no flag " + name + " sets a member");
    }
    return flag->target(c);
  };
  std::string name;
  std::vector<std::string> words;
  const auto assign_last = [&] {
    if (!name.empty()) std::visit(Assign{words}, target_of(name));
    words.clear();
  };
  for (const std::string_view word : words_of(flags)) {
    if (word.starts_with("--")) {
      assign_last();
      name = word;
    } else {
      words.emplace_back(word);
    }
  }
  assign_last();
}

// `c` with these flags.
inline TrainConfig with_flags(TrainConfig c, const std::string& flags) {
  set_flags(c, flags);
  return c;
}

}  // namespace phalanx
