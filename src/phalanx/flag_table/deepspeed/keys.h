#pragma once
// The keys of a DeepSpeed file (ds_config.json): what becomes of each. The reader and the table of
// docs/deepspeed.md are views of these rows.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace phalanx::deepspeed {

// What a value is.
enum class Kind : std::uint8_t {
  kSwitch,
  kInteger,  // 5e8 is one, too
  kReal,
  kText,
  kPair,  // of numbers
  kAny,
};

// What becomes of a key.
enum class Fate : std::uint8_t {
  kFlag,     // it is a flag of Phalanx
  kPart,     // it becomes flags together with other keys
  kTaken,    // what it asks for is always done, or nothing that Phalanx has depends on it
  kOnly,     // some values ask for nothing; the others are refused
  kOff,      // an object of something that is not there: it must be switched off
  kRefused,  // it must not be there
};

struct Key {
  std::string_view path;  // "zero_optimization.stage"
  Kind kind = Kind::kAny;
  Fate fate = Fate::kTaken;
  // The flag, or the flags between blanks.
  std::string_view flag = {};
  // kOnly: the values that ask for nothing; kTaken: those that are taken without a word. Words
  // between blanks, numbers in the shortest form.
  std::string_view values = {};
  // What it becomes, why it needs nothing, or why it is refused and what to do: a clause.
  std::string_view text = {};
  // Read where this holds: "--fp16", "--zero-stage 3". Elsewhere it asks for nothing.
  std::string_view when = {};
};

std::span<const Key> keys();
const Key* find_key(std::string_view path);
// Whether keys begin with this path and a dot.
bool is_section(std::string_view path);
// The key or section of the same section that is nearest to an unknown one.
std::optional<std::string> meant_by(std::string_view path);

// The table of docs/deepspeed.md.
std::string markdown_table();

}  // namespace phalanx::deepspeed
