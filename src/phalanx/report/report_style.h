#pragma once
// How a report looks, in light, in the dark and on paper, and the script that shows values under
// the pointer. The page says everything without the script.

#include <string_view>

namespace phalanx {

extern const std::string_view kReportStyle;
extern const std::string_view kReportScript;

}  // namespace phalanx
