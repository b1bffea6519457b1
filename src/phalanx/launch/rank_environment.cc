#include "phalanx/launch/rank_environment.h"

#include <fmt/core.h>

#include "phalanx/launch/last_saved.h"

namespace phalanx::launch {

std::vector<std::pair<std::string, std::string>> rank_environment(const AttemptSetup& setup,
                                                                  const NodeGroup& group,
                                                                  int local_rank) {
  const LaunchOptions& options = setup.options;
  const auto text = [](int number) { return fmt::format("{}", number); };
  const std::string rank = text(setup.place.first_rank + local_rank);
  const std::string world_size = text(setup.place.world_size);
  std::vector<std::pair<std::string, std::string>> variables = {
      {"RANK", rank},
      {"LOCAL_RANK", options.virtual_local_rank ? "0" : text(local_rank)},
      {"GROUP_RANK", text(group.node())},
      {"ROLE_RANK", rank},
      {"ROLE_NAME", options.role},
      {"LOCAL_WORLD_SIZE", text(options.ranks)},
      {"WORLD_SIZE", world_size},
      {"GROUP_WORLD_SIZE", text(group.nodes())},
      {"ROLE_WORLD_SIZE", world_size},
      {"MASTER_ADDR", options.master_address},
      {"MASTER_PORT", text(options.master_port)},
      {"TORCHELASTIC_RESTART_COUNT", text(setup.attempt)},
      {"TORCHELASTIC_MAX_RESTARTS", text(options.max_restarts)},
      {"TORCHELASTIC_RUN_ID", setup.run_id},
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},  // torchrun's store is not there
      {"PHALANX_COORDINATOR", group.endpoint()},
      {"PHALANX_LAUNCH", setup.launch_id}};
  if (setup.secret_descriptor >= 0) {
    variables.emplace_back("PHALANX_RDZV_SECRET_FD", text(setup.secret_descriptor));
  }
  if (setup.memory_files.ranks() > 0) {
    variables.emplace_back(kMemoryFilesVariable, setup.memory_files.to_text());
  }
  if (setup.last_saved_descriptor >= 0) {
    variables.emplace_back(kLastSavedVariable, text(setup.last_saved_descriptor));
  }
  if (options.insecure) variables.emplace_back("PHALANX_RDZV_INSECURE", "1");
  const auto file = error_file(setup, setup.place.first_rank + local_rank);
  if (!file.empty()) variables.emplace_back("TORCHELASTIC_ERROR_FILE", file.string());
  return variables;
}

std::vector<std::string> dropped_variables() {
  // The ranks get the secret otherwise; files and places of an outer launcher are not theirs.
  return {"PHALANX_RDZV_SECRET_FILE", "PHALANX_RDZV_SECRET_FD", "PHALANX_RDZV_INSECURE",
          "TORCHELASTIC_ERROR_FILE",  kMemoryFilesVariable,     kLastSavedVariable};
}

std::filesystem::path error_file(const AttemptSetup& setup, int rank) {
  if (setup.directory.empty()) return {};
  return setup.directory / fmt::format("rank_{}.error.json", rank);
}

}  // namespace phalanx::launch
