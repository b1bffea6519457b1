#pragma once
// The style of a report on light and dark screens and on paper, and the script that shows values
// under the pointer. The page is complete without the script.

#include <string_view>

namespace phalanx {

extern const std::string_view kReportStyle;
extern const std::string_view kReportScript;

}  // namespace phalanx
