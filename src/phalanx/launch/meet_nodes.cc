#include "phalanx/launch/meet_nodes.h"

#include <sstream>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/unique_name.h"
#include "phalanx/launch/saved_progress.h"
#include "phalanx/rendezvous/coordinator.h"
#include "phalanx/rendezvous/launch_environment.h"
#include "phalanx/rendezvous/member.h"

namespace phalanx::launch {
namespace {

// The pause between rounds of NodeBoard, in which n launchers exchange n texts: longer with many.
constexpr int kFewNodes = 16;
constexpr std::chrono::milliseconds kPace{100};
constexpr std::chrono::milliseconds kPaceOfMany{500};

Endpoint endpoint_of(const LaunchOptions& options) {
  Endpoint endpoint;
  if (options.nodes == 1) {
    endpoint.kind = Endpoint::Kind::kUnix;
    endpoint.name = "phalanx-launch-" + random_digits(kUniqueDigits);
  } else {
    endpoint.kind = Endpoint::Kind::kTcp;
    endpoint.host = options.master_address;
    endpoint.port = options.master_port;
  }
  return endpoint;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

class CoordinatorServer : public RankServer {
 public:
  explicit CoordinatorServer(const CoordinatorOptions& options) : coordinator_(options) {}
  Endpoint endpoint() const { return coordinator_.endpoint(); }
  void begin_attempt(int attempt, int world_size) override {
    coordinator_.begin_attempt(attempt, world_size);
  }
  void rank_ended(int rank, const std::string& how) override { coordinator_.rank_ended(rank, how); }

 private:
  Coordinator coordinator_;
};

// The launcher as a member of the rendezvous; it leaves when the last round is over.
class LauncherMember {
 public:
  explicit LauncherMember(const MemberOptions& options) : member_(Member::join(options)) {}
  LauncherMember(const LauncherMember&) = delete;
  LauncherMember& operator=(const LauncherMember&) = delete;
  ~LauncherMember() { member_->leave(); }
  std::vector<std::string> gather(std::string mine) { return member_->gather(std::move(mine)); }
  void give_up(const std::string& reason) { member_->fail(reason); }

 private:
  std::unique_ptr<Member> member_;
};

std::unique_ptr<CoordinatorServer> make_server(const LaunchOptions& options, const Secret& secret,
                                               const std::string& run_id, const Endpoint& endpoint,
                                               std::shared_ptr<VerdictBox> box) {
  CoordinatorOptions coordinator;
  coordinator.endpoint = endpoint;
  coordinator.bind_any = options.bind_any;
  coordinator.secret = secret;
  coordinator.run_id = run_id;
  coordinator.launchers = options.nodes > 1 ? options.nodes : 0;
  coordinator.join_timeout = options.join_timeout;
  coordinator.ranks_join = options.ranks_join;
  coordinator.on_verdict = [box = std::move(box)](const Verdict& verdict) {
    box->put({.rank = verdict.culprits.empty() ? -1 : verdict.culprits[0],
              .host = verdict.host,
              .code = verdict.code,
              .reason = verdict.reason,
              .detected_seconds = verdict.silent_seconds,
              .is_reported = verdict.is_reported},
             lines_of(verdict.report));
  };
  return std::make_unique<CoordinatorServer>(coordinator);
}

MemberOptions member_options(const LaunchOptions& options, const Secret& secret,
                             const std::string& run_id, const Endpoint& endpoint,
                             const std::function<void()>& poll, std::shared_ptr<VerdictBox> box) {
  MemberOptions member;
  member.role = MemberRole::kLauncher;
  member.environment.source = "phalanx launch";
  member.environment.rank = options.node;
  member.environment.world_size = options.nodes;
  member.environment.node = options.node;
  member.environment.run_id = run_id;
  member.environment.endpoint = endpoint;
  member.secret = secret;
  member.join_timeout = options.join_timeout;
  member.silence_limit = silence_timeout_of(options.command);
  member.poll = poll;
  // The launcher with the coordinator gets the whole verdict there.
  if (options.node > 0) {
    member.on_rank_failure = [box = std::move(box)](const RankFailure& failure) {
      box->put({.rank = failure.rank,
                .host = {},
                .code = failure.code,
                .reason = failure.reason,
                .detected_seconds = 0.0},
               {});
    };
  }
  return member;
}

}  // namespace

Secret run_secret(const LaunchOptions& options) {
  if (options.nodes == 1) return make_secret();
  if (!options.secret_file.empty()) {
    return read_secret_file(options.secret_file, options.secret_flag);
  }
  if (options.insecure) return {{}, "--rdzv-insecure"};
  throw PermissionError(
      "--nnodes {}: on several nodes whoever reaches the rendezvous could join the run. Give all "
      "nodes the same secret, --rdzv-secret-file FILE (head -c 32 /dev/urandom > FILE; chmod 600 "
      "FILE), or --rdzv-insecure where nobody else reaches this network",
      options.nodes);
}

std::unique_ptr<NodeGroup> meet_nodes(const LaunchOptions& options, const Secret& secret,
                                      const std::string& run_id,
                                      const std::function<void()>& poll) {
  NodeGroupParts parts;
  parts.nodes = options.nodes;
  parts.node = options.node;
  parts.verdicts = std::make_shared<VerdictBox>();
  parts.pace = options.nodes <= kFewNodes ? kPace : kPaceOfMany;
  Endpoint endpoint = endpoint_of(options);
  if (options.node == 0) {
    auto server = make_server(options, secret, run_id, endpoint, parts.verdicts);
    endpoint = server->endpoint();
    parts.server = std::move(server);
  }
  parts.endpoint = endpoint.to_text();
  if (options.nodes > 1) {
    const auto member = std::make_shared<LauncherMember>(
        member_options(options, secret, run_id, endpoint, poll, parts.verdicts));
    parts.gather = [member](std::string mine) { return member->gather(std::move(mine)); };
    parts.give_up = [member](const std::string& reason) { member->give_up(reason); };
  }
  return std::make_unique<NodeGroup>(std::move(parts));
}

}  // namespace phalanx::launch
