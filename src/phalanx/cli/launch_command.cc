#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>

#include "phalanx/base/error.h"
#include "phalanx/base/file_descriptor.h"
#include "phalanx/base/log.h"
#include "phalanx/base/machine.h"
#include "phalanx/cli/command_table.h"
#include "phalanx/cli/commands.h"
#include "phalanx/launch/launcher.h"
#include "phalanx/launch/meet_nodes.h"
#include "phalanx/launch/options.h"
#include "phalanx/rendezvous/secret.h"

namespace phalanx {
namespace {

// The path of this program, which ps shows; /proc/self/exe if the file is gone.
std::filesystem::path own_program() {
  std::error_code fault;
  auto program = std::filesystem::read_symlink("/proc/self/exe", fault);
  if (fault) throw SystemError("/proc/self/exe cannot be read: {}", fault.message());
  return std::filesystem::exists(program, fault) ? program
                                                 : std::filesystem::path("/proc/self/exe");
}

}  // namespace

int run_launch(CommandIo& io, const Arguments& arguments) {
  launch::LaunchOptions options = launch::parse_launch_options(
      arguments, [](const std::string& word) { return is_command(word); });
  if (!io.owns_process()) {
    throw UsageError(
        "phalanx launch starts processes and takes their signals, which only the program can: run "
        "it there");
  }
  options.ranks_join = has_ranks(options.command);
  let_log_drop_lines();
  const Secret secret = launch::run_secret(options);
  const FileDescriptor shared(secret.empty() ? -1 : share_secret(secret));
  launch::LaunchSetup setup;
  setup.program = own_program();
  setup.host = host_name();
  setup.secret_descriptor = shared.get();
  setup.make_group = [&](const std::string& run_id, const std::function<void()>& poll) {
    return launch::meet_nodes(options, secret, run_id, poll);
  };
  return launch::launch(options, setup);
}

}  // namespace phalanx
