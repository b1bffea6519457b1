#include "phalanx/launch/option_flags.h"

#include <string_view>

#include "phalanx/launch/option_values.h"

namespace phalanx::launch {
namespace {

void add_rank_flags(FlagSet& flags, FlagValues& values) {
  flags.section("Ranks");
  flags.add("--nproc-per-node",
            "Ranks of this node: a number, or auto or cpu: one for each usable core", &values.ranks,
            {.value_name = "N"});
  flags.add("--nnodes", "Nodes of the run", &values.nodes, {.value_name = "N"});
  flags.add("--node-rank", "This node's number; 0 is where the rendezvous is", &values.node,
            {.range = from_to(0, kMostNodes - 1)});
  flags.add("--max-restarts", "How often the ranks are started again after a failure that may pass",
            &values.max_restarts, {.range = from_to(0, 1000000)});
  flags.add("--role", "ROLE_NAME of the ranks", &values.role);
  flags.add("--virtual-local-rank", "Tell every rank that its LOCAL_RANK is 0",
            &values.virtual_local_rank);
  flags.add("--signals-to-handle", "Signals that ask the run to save and leave", &values.signals,
            {.value_name = "NAMES"});
}

void add_rendezvous_flags(FlagSet& flags, FlagValues& values) {
  flags.section("Rendezvous");
  flags.add("--master-addr", "Address of node 0, where the nodes meet", &values.master_address,
            {.value_name = "HOST"});
  flags.add("--master-port", "Port there; on one node no port is opened", &values.master_port,
            {.range = from_to(0, kMostPort)});
  flags.add("--rdzv-endpoint", "The same in one", &values.endpoint,
            {.value_name = "HOST[:PORT]", .excludes = "--master-addr --master-port"});
  flags.add("--rdzv-id",
            "The run's name, the same on all nodes: of its logs, and in TORCHELASTIC_RUN_ID",
            &values.run_id, {.value_name = "NAME"});
  flags.add("--rdzv-secret-file",
            "The secret of a run on several nodes: a file of 16 bytes or more that nobody else may "
            "read (also PHALANX_RDZV_SECRET_FILE)",
            &values.secret_file, {.value_name = "FILE"});
  flags.add("--rdzv-insecure", "Several nodes without a secret: whoever reaches the port can join",
            &values.insecure, {.excludes = "--rdzv-secret-file"});
  flags.add("--rdzv-bind-any", "Listen on all interfaces, not on the one of --master-addr alone",
            &values.bind_any);
  flags.add("--rdzv-conf",
            "join_timeout=SECONDS: how long nodes and ranks are waited for (600); "
            "save_timeout=SECONDS: how long a restart waits for the checkpoint that it goes on "
            "from, where --save does not have it (60)",
            &values.rendezvous_settings, {.value_name = "KEY=VALUE,..."});
  flags.add("--standalone", "This node alone", &values.standalone);
}

void add_output_flags(FlagSet& flags, FlagValues& values) {
  flags.section("Output");
  flags.add("--log-dir", "DIR/RUN/attempt_K/rank_N.{out,err} and DIR/RUN/summary.json",
            &values.log_directory, {.value_name = "DIR"});
  flags.add("--redirects",
            "Streams that go to the log files alone: 1 standard output, 2 standard error, 3 both; "
            "or by local rank, 0:1,1:3",
            &values.redirects, {.value_name = "STREAMS", .needs = "--log-dir"});
  flags.add("--tee", "Streams of which the console shows every line, too", &values.tee,
            {.value_name = "STREAMS"});
  flags.add("--local-ranks-filter", "The console shows these local ranks alone",
            &values.console_ranks, {.value_name = "N,N,..."});
}

// Those flags of torchrun that have nothing to do here, or cannot be obeyed.
void add_answered_flags(FlagSet& flags) {
  flags.section("Others of torchrun's");
  const auto satisfied = [&](std::string_view name, FlagType type, std::string_view reason,
                             std::string_view by = {}, std::string_view otherwise = {}) {
    flags.add({.name = name,
               .type = type,
               .state = FlagState::kSatisfied,
               .reason = reason,
               .satisfied_by = by,
               .otherwise = otherwise});
  };
  const auto refused = [&](std::string_view name, FlagType type, std::string_view reason) {
    flags.add({.name = name, .type = type, .state = FlagState::kRefused, .reason = reason});
  };
  satisfied("--rdzv-backend", FlagType::kText, "nodes always meet at node 0", "static c10d",
            "nodes meet at node 0 (--rdzv-endpoint), no other service is asked: leave it out");
  satisfied("--monitor-interval", FlagType::kReal, "the end of a rank is told at once, unasked");
  satisfied("--start-method", FlagType::kText, "ranks are programs of their own", "spawn",
            "ranks are programs of their own, which are started anew: leave it out");
  satisfied("--no-python", FlagType::kSwitch, "nothing runs under Python");
  satisfied("--use-env", FlagType::kSwitch, "ranks read their places from the environment");
  satisfied("--local-addr", FlagType::kText,
            "a node's address is that of the interface which reaches node 0");
  satisfied(
      "--shutdown-timeout", FlagType::kReal,
      "after a failure ranks have a second to leave, another one after SIGTERM; a pre-emption "
      "waits for the save");
  refused("--module", FlagType::kSwitch,
          "nothing runs under Python: a phalanx command follows the flags, pretrain gpt ...");
  refused("--run-path", FlagType::kSwitch,
          "nothing runs under Python: a phalanx command follows the flags, pretrain gpt ...");
  refused("--numa-binding", FlagType::kText,
          "the ranks of a node bind themselves to their shares of its cores, neighbours together; "
          "leave it out (pretrain --no-cpu-affinity: no binding)");
  refused("--logs-specs", FlagType::kText,
          "there is one form of logs: --log-dir, --tee, --redirects");
  refused("--event-log-handler", FlagType::kText,
          "events are told on the console and in summary.json");
  for (const std::string_view name : {"--duplicate-stdout-filters", "--duplicate-stderr-filters"}) {
    refused(name, FlagType::kList, "streams are not filtered: search the files of --log-dir");
  }
}

}  // namespace

void add_launch_flags(FlagSet& flags, FlagValues& values) {
  flags.answers_for("torchrun");
  add_rank_flags(flags, values);
  add_rendezvous_flags(flags, values);
  add_output_flags(flags, values);
  add_answered_flags(flags);
  flags.add_example(
      "phalanx launch --nproc-per-node 4 --log-dir logs pretrain gpt --yaml-cfg run.yaml",
      "four ranks on this machine");
  flags.add_example(
      "phalanx launch --nnodes 2 --node-rank 0 --master-addr n01 --rdzv-secret-file key "
      "--nproc-per-node 8 pretrain gpt --yaml-cfg run.yaml",
      "the first of two nodes");
}

}  // namespace phalanx::launch
