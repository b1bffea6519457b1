#pragma once
// The pages of the manual, made of what commands say for --help.

#include <string>
#include <string_view>
#include <vector>

#include "phalanx/cli/command_io.h"

namespace phalanx {

struct NamedPage {
  std::string name;  // "phalanx-dataset-info"
  std::string text;  // roff
};

// A page for the program, each command and each verb. Of model families the first one's page has
// the flags; the others' point to it.
std::vector<NamedPage> all_man_pages(CommandIo& io);

// The page of a command as it is typed ("dataset info", "phalanx dataset info", or "phalanx" for
// the program's). UsageError if there is none.
std::string man_page_of(CommandIo& io, std::string_view command);

}  // namespace phalanx
