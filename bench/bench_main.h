#pragma once
// What the main functions of the benches have in common.

#include <fmt/core.h>

#include <functional>
#include <string>

#include "phalanx/base/error.h"
#include "phalanx/flags/flag_set.h"

namespace phalanx::bench {

// Reads the flags that `add` adds, runs `body`, prints help and errors; returns the exit status.
inline int bench_main(int argc, char** argv, const std::string& name,
                      const std::string& description, const std::function<void(FlagSet&)>& add,
                      const std::function<void()>& body) {
  try {
    FlagSet flags(name, description);
    add(flags);
    flags.parse({argv + 1, argv + argc});
    body();
    return 0;
  } catch (const HelpRequested& help) {
    fmt::print("{}", help.text);
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "{}: {}\n", name, error.what());
    return error.exit_status();
  }
}

}  // namespace phalanx::bench
