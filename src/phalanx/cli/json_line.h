#pragma once
// A document of a command that prints one a line.

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace phalanx {

// The document and a line end. Bytes that are not UTF-8 (a command line may have such) are
// replaced.
std::string json_line(const nlohmann::ordered_json& json);

}  // namespace phalanx
