#pragma once
// `phalanx import hf` and `phalanx export hf`: they take the words after these.

#include "phalanx/cli/commands.h"

namespace phalanx {

int run_import_hugging_face(CommandIo& io, const Arguments& arguments);
int run_export_hugging_face(CommandIo& io, const Arguments& arguments);

}  // namespace phalanx
