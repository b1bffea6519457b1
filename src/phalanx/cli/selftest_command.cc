#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/cli/commands.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/selftest/selftest.h"

namespace phalanx {
namespace {

constexpr const char* kStopping =
    "SIGINT: stopping behind the check that runs; press Ctrl-C again to end at once\n";
constexpr int kEndedBySignal = 128;  // plus the signal's number, as in shells

}  // namespace

int run_selftest(CommandIo& io, const Arguments& arguments) {
  SelftestOptions options;
  FlagSet flags("phalanx selftest",
                "Whether a device computes what it should, and how fast: memory, every kernel "
                "against double precision, products, a tiny training.");
  flags.add({.name = "--device",
             .help = "What is tested: the first CUDA device that the driver shows, the emulated "
                     "one of tests, or the processor",
             .choices = "cpu cuda cuda-emulated"},
            &options.device);
  flags.add({.name = "--quick", .help = "1 GiB of memory, and of every case one type"},
            &options.quick);
  flags.add({.name = "--output",
             .help = "Folder of selftest.txt and selftest.json, which are written after every "
                     "check (without: selftest in $XDG_STATE_HOME/phalanx)",
             .value_name = "DIR"},
            &options.output);
  flags.add({.name = "--only",
             .help = "Parts that are made, instead of all; a processor has cases and training",
             .choices = "memory copies digests functions cases products rates training"},
            &options.parts);
  flags.add_example("phalanx selftest --device cuda --output check", "all of it");
  flags.add_example("phalanx selftest --device cpu --only cases --quick",
                    "the kernels of a processor");
  flags.parse(arguments);

  const auto signals = io.listen(kStopping);
  SelftestCaller caller;
  caller.put = [&io](std::string_view text) { io.write(text); };
  caller.is_stopped = [&] { return signals->received() != 0; };
  // A thread that waits for a device that hangs never ends.
  if (io.owns_process()) {
    caller.hangs = [] { std::_Exit(static_cast<int>(ErrorCode::kInternal)); };
  }
  const SelftestEnd end = selftest(options, caller);
  if (end.is_stopped) {
    log_line(LogLevel::kError, "phalanx selftest: stopped before its end");
    return kEndedBySignal + signals->received();
  }
  return end.failed == 0 ? 0 : static_cast<int>(ErrorCode::kInternal);
}

}  // namespace phalanx
