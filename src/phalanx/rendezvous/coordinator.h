#pragma once
// The server at which ranks and launchers meet: it runs on a thread of its own, in the process of
// rank 0 or of the first launcher. It admits processes that know the secret, exchanges their texts,
// receives their heartbeats, and tells all of them which one failed first.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "phalanx/rendezvous/detector.h"
#include "phalanx/rendezvous/launch_environment.h"
#include "phalanx/rendezvous/secret.h"
#include "phalanx/rendezvous/timing.h"

namespace phalanx {

namespace rendezvous {
class Server;
}  // namespace rendezvous

struct CoordinatorOptions {
  Endpoint endpoint;      // TCP port 0: any
  bool bind_any = false;  // all interfaces instead of the endpoint's
  Secret secret;
  // Members of this user that have no secret get it by MUNGE (Slurm).
  bool with_munge = false;
  std::string run_id;
  int launchers = 0;   // how many will join
  int world_size = 0;  // 0: ranks wait until begin_attempt()
  // False: the processes of the ranks need not join (they may be any program).
  bool ranks_join = true;
  // The attempt: ranks of an older one are refused, ranks of a newer one wait until it begins.
  int epoch = 0;
  std::chrono::milliseconds join_timeout = rendezvous::kJoinTimeout;
  Detector::Limits limits{};
  // How long the destructor waits for goodbyes if no rank has failed.
  std::chrono::milliseconds farewell = rendezvous::kFarewell;
  // Called on the coordinator's thread, after the verdict has been sent to all members.
  std::function<void(const Verdict& verdict)> on_verdict = nullptr;
};

class Coordinator {
 public:
  // Listens. The caller decides whether the secret may be empty. UnavailableError (69) if the port
  // is taken; it names the process that holds it if that can be known. ConfigError (78) if the
  // address is not this machine's.
  explicit Coordinator(const CoordinatorOptions& options);
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // Where it listens, with the actual port.
  Endpoint endpoint() const;
  // Begins a new attempt. Ranks of earlier attempts are refused from now on.
  void begin_attempt(int epoch, int world_size);
  // The launcher reports how a rank's process ended: "killed by signal 9 (SIGKILL)".
  void rank_ended(int rank, const std::string& how);

 private:
  std::unique_ptr<rendezvous::Server> server_;
};

}  // namespace phalanx
