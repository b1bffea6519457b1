#pragma once
// Connects the launchers of a run, and starts the coordinator for its ranks: on one node over a
// Unix socket in the abstract namespace, on several over TCP to node 0, with a secret that all
// know.

#include <functional>
#include <memory>
#include <string>

#include "phalanx/launch/node_group.h"
#include "phalanx/launch/options.h"
#include "phalanx/rendezvous/secret.h"

namespace phalanx::launch {

// The run's secret. One node: random bytes. Several: the bytes of --rdzv-secret-file or
// PHALANX_RDZV_SECRET_FILE; none with --rdzv-insecure; without either a PermissionError (77) that
// names both.
Secret run_secret(const LaunchOptions& options);

// Returns when all nodes have joined; node 0 hosts the coordinator. `poll` is called while waiting;
// an exception ends that. Errors as in Coordinator and Member.
std::unique_ptr<NodeGroup> meet_nodes(const LaunchOptions& options, const Secret& secret,
                                      const std::string& run_id, const std::function<void()>& poll);

}  // namespace phalanx::launch
