#include <array>
#include <string>

#include "phalanx/cli/commands.h"
#include "phalanx/cli/verb.h"

namespace phalanx {

int run_bench(CommandIo& io, const Arguments& arguments) {
  constexpr std::array<Verb, 2> kVerbs = {
      {{"disk", "how fast a disk takes and gives states"},
       {"device", "what products, memory and attention reach here, for plans of time"}}};
  const std::string verb = verb_of("phalanx bench", kVerbs, arguments);
  const Arguments rest{arguments.begin() + 1, arguments.end()};
  return verb == "disk" ? run_bench_disk(io, rest) : run_bench_device(io, rest);
}

}  // namespace phalanx
