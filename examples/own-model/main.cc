// Trains the model that finds peaks (peak_family.h).

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "peak_family.h"
#include "phalanx/base/error.h"
#include "phalanx/cli/pretrain.h"
#include "phalanx/flags/flag_set.h"

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    return phalanx::pretrain_family(peaks::peak_family(), arguments);
  } catch (const phalanx::HelpRequested& help) {
    std::fputs(help.text.c_str(), stdout);
    return 0;
  } catch (const phalanx::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "internal error: %s\n", error.what());
    return static_cast<int>(phalanx::ErrorCode::kInternal);
  }
}
