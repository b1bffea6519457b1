#pragma once
// The values of a DeepSpeed file, read by the table of its keys (keys.h): those that are flags by
// themselves, those that wait for others, and what is wrong with the rest.

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/flag_table/deepspeed/keys.h"
#include "phalanx/flags/flag_set.h"

namespace phalanx::deepspeed {

class Settings {
 public:
  // `file` opens every message.
  Settings(std::string file, const nlohmann::json& json);

  // Flags of keys that stand for one, whatever else is said; what is to be said of the others.
  FileFlags& flags() { return flags_; }

  // The words of a key that waits for others. "auto" and null are as if it was not there.
  const std::map<std::string, std::vector<std::string>, std::less<>>& waiting() const {
    return waiting_;
  }
  bool has(std::string_view path) const { return waiting_.contains(path); }
  std::string text(std::string_view path) const;  // "" where it is not there
  bool is_on(std::string_view path) const { return text(path) == "true"; }
  std::optional<double> number(std::string_view path) const;

  // "FILE: a.b": what a message about a key begins with.
  std::string place(std::string_view path) const;
  void give(std::string_view path, std::string_view flag, const std::string& word);
  // The key's own words.
  void give(std::string_view path, std::string_view flag);
  // The key's value is not possible, for this reason.
  void refuse(std::string_view path, std::string_view why);
  // A thing to say of several keys is said once.
  void note(std::string_view path, std::string_view what);
  // Moves what was noted into the flags' notes and hands these out.
  FileFlags take();

 private:
  void read_object(const nlohmann::json& object, const std::string& section);
  void read_value(const Key& key, const nlohmann::json& value);
  void read_switched_off(const Key& key, const nlohmann::json& value);
  void misuse(std::string_view path, const nlohmann::json& value, std::string_view why);

  std::string file_;
  FileFlags flags_;
  std::map<std::string, std::vector<std::string>, std::less<>> waiting_;
  std::vector<std::pair<std::string, std::vector<std::string>>> notes_;  // what, and of which keys
};

}  // namespace phalanx::deepspeed
