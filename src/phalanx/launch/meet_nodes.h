#pragma once
// How the launchers of a run and its ranks meet: on one node at a Unix socket without a file, on
// several at TCP on node 0, by a secret that all of them know.

#include <functional>
#include <memory>
#include <string>

#include "phalanx/launch/node_group.h"
#include "phalanx/launch/options.h"
#include "phalanx/rendezvous/secret.h"

namespace phalanx::launch {

// One node: random bytes. Several: those of --rdzv-secret-file or PHALANX_RDZV_SECRET_FILE; none
// with --rdzv-insecure; without either PermissionError (77) that names both.
Secret run_secret(const LaunchOptions& options);

// Node 0 listens; all nodes have joined when it returns. `poll` is asked while waiting: what it
// throws ends that. Errors as of Coordinator and Member.
std::unique_ptr<NodeGroup> meet_nodes(const LaunchOptions& options, const Secret& secret,
                                      const std::string& run_id, const std::function<void()>& poll);

}  // namespace phalanx::launch
