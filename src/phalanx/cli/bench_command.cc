#include <array>
#include <string>

#include "phalanx/cli/commands.h"
#include "phalanx/cli/verb.h"

namespace phalanx {

int run_bench(CommandIo& io, const Arguments& arguments) {
  constexpr std::array<Verb, 3> kVerbs = {
      {{"disk", "how fast a disk takes and gives states"},
       {"device", "what products, memory and attention reach here, for plans of time"},
       {"cluster", "what messages between the ranks of a job take, for plans of time"}}};
  const std::string verb = verb_of("phalanx bench", kVerbs, arguments);
  const Arguments rest{arguments.begin() + 1, arguments.end()};
  if (verb == "disk") return run_bench_disk(io, rest);
  return verb == "device" ? run_bench_device(io, rest) : run_bench_cluster(io, rest);
}

}  // namespace phalanx
