#pragma once
// Where ranks and launchers meet: the server of the rendezvous, in the process of rank 0 or of the
// first launcher, on a thread of its own. It lets in who knows the secret, carries their texts,
// hears their heartbeats, and tells all of them who failed first.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "phalanx/rendezvous/detector.h"
#include "phalanx/rendezvous/launch_environment.h"
#include "phalanx/rendezvous/secret.h"

namespace phalanx {

namespace rendezvous {
class Server;
}  // namespace rendezvous

struct CoordinatorOptions {
  Endpoint endpoint;      // TCP port 0: any
  bool bind_any = false;  // all interfaces instead of the endpoint's
  Secret secret;
  // MUNGE gives the secret to this user's members that have none (Slurm).
  bool with_munge = false;
  std::string run_id;
  int launchers = 0;   // how many will join
  int world_size = 0;  // 0: ranks wait until begin_attempt()
  // False: what runs as the ranks may join nobody, and nobody waits for it.
  bool ranks_join = true;
  // Attempt: ranks of an older one are refused, those of a newer one wait until it begins.
  int epoch = 0;
  std::chrono::milliseconds join_timeout = std::chrono::minutes(10);
  Detector::Limits limits{};
  // How long its end waits for ranks that have not said goodbye, where none has failed.
  std::chrono::milliseconds farewell = std::chrono::seconds(5);
  // On the coordinator's thread. All have heard of it already.
  std::function<void(const Verdict& verdict)> on_verdict = nullptr;
};

class Coordinator {
 public:
  // Listens. The secret may be empty: who may do without one is the caller's decision.
  // UnavailableError (69) where the port is taken, naming who holds it as far as it can be known;
  // ConfigError (78) where the address is not this machine's.
  explicit Coordinator(const CoordinatorOptions& options);
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // Where it listens, with the port that it got.
  Endpoint endpoint() const;
  // Ranks of earlier attempts are forgotten, and refused should they come.
  void begin_attempt(int epoch, int world_size);
  // The launcher knows more than the end of a connection: "killed by signal 9 (SIGKILL)".
  void rank_ended(int rank, const std::string& how);

 private:
  std::unique_ptr<rendezvous::Server> server_;
};

}  // namespace phalanx
