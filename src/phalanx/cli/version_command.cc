#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "phalanx/base/machine.h"
#include "phalanx/cli/commands.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/ops/cpu/precision.h"
#include "phalanx/ops/cpu/target.h"

namespace phalanx {

int run_version(CommandIo& io, const Arguments& arguments) {
  bool json = false;
  FlagSet flags("phalanx version", "Version, compiler, backends, processor.");
  flags.add({.name = "--json", .help = "One JSON document"}, &json);
  flags.parse(arguments);
  const nlohmann::ordered_json document = {{"version", PHALANX_VERSION},
                                           {"compiler", "g++ " __VERSION__},
                                           {"backends", {"cpu", "meta", "ref"}},
                                           {"transports", {"local", "meta", "ucx"}},
                                           {"processor", cpu::processor_features()},
                                           {"target", cpu::name_of(cpu::active_target())},
                                           {"targets", cpu::names_of_targets_here()},
                                           {"threads", usable_cores().count}};
  if (json) {
    io.print("{}\n", document.dump(2));
    return 0;
  }
  for (const auto& [key, value] : document.items()) {
    io.print("{:<11} {}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return 0;
}

}  // namespace phalanx
