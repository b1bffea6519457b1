#pragma once
// A settings file that people write by hand as JSON: what is none is told by its place.

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace phalanx::deepspeed {

// An object. DataError with FILE:LINE:COLUMN (in bytes, from 1) for what is no JSON, comments and
// trailing commas among it; with FILE and the key for one that occurs twice; for more than
// kMostDepth objects and lists within each other, and files above kMostBytes.
nlohmann::json parse_settings(std::string_view text, std::string_view file);
// The same of a regular file: InputMissingError where it is not there.
nlohmann::json read_settings(const std::string& path);

inline constexpr std::size_t kMostBytes = std::size_t{1} << 20;
inline constexpr int kMostDepth = 16;

// A value or a key in a message: on one line, of a readable length.
std::string shown(const nlohmann::json& value);
std::string shown_path(std::string_view path);

}  // namespace phalanx::deepspeed
