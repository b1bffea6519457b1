#include "phalanx/launch/option_flags.h"

#include <string_view>

#include "phalanx/launch/option_values.h"

namespace phalanx::launch {
namespace {

void add_rank_flags(FlagSet& flags, FlagValues& values) {
  flags.section("Ranks");
  flags.add({.name = "--nproc-per-node",
             .help = "Ranks of this node: a number, or auto or cpu: one for each usable core",
             .value_name = "N"},
            &values.ranks);
  flags.add({.name = "--nnodes", .help = "Nodes of the run", .value_name = "N"}, &values.nodes);
  flags.add({.name = "--node-rank",
             .help = "This node's number; 0 is where the rendezvous is",
             .range = from_to(0, kMostNodes - 1)},
            &values.node);
  flags.add({.name = "--max-restarts",
             .help = "How often the ranks are started again after a failure that may pass",
             .range = from_to(0, 1000000)},
            &values.max_restarts);
  flags.add({.name = "--role", .help = "ROLE_NAME of the ranks"}, &values.role);
  flags.add({.name = "--virtual-local-rank", .help = "Tell every rank that its LOCAL_RANK is 0"},
            &values.virtual_local_rank);
  flags.add({.name = "--signals-to-handle",
             .help = "Signals that ask the run to save and leave",
             .value_name = "NAMES"},
            &values.signals);
}

void add_rendezvous_flags(FlagSet& flags, FlagValues& values) {
  flags.section("Rendezvous");
  flags.add({.name = "--master-addr",
             .help = "Address of node 0, where the nodes meet",
             .value_name = "HOST"},
            &values.master_address);
  flags.add({.name = "--master-port",
             .help = "Port there; on one node no port is opened",
             .range = from_to(0, kMostPort)},
            &values.master_port);
  flags.add({.name = "--rdzv-endpoint",
             .help = "The same in one",
             .value_name = "HOST[:PORT]",
             .excludes = "--master-addr --master-port"},
            &values.endpoint);
  flags.add(
      {.name = "--rdzv-id",
       .help = "The run's name, the same on all nodes: of its logs, and in TORCHELASTIC_RUN_ID",
       .value_name = "NAME"},
      &values.run_id);
  flags.add({.name = "--rdzv-secret-file",
             .help = "The secret of a run on several nodes: a file of 16 bytes or more that nobody "
                     "else may read (also PHALANX_RDZV_SECRET_FILE)",
             .value_name = "FILE"},
            &values.secret_file);
  flags.add({.name = "--rdzv-insecure",
             .help = "Several nodes without a secret: whoever reaches the port can join",
             .excludes = "--rdzv-secret-file"},
            &values.insecure);
  flags.add({.name = "--rdzv-bind-any",
             .help = "Listen on all interfaces, not on the one of --master-addr alone"},
            &values.bind_any);
  flags.add({.name = "--rdzv-conf",
             .help = "join_timeout=SECONDS: how long nodes and ranks are waited for",
             .value_name = "KEY=VALUE,..."},
            &values.rendezvous_settings);
  flags.add({.name = "--standalone", .help = "This node alone"}, &values.standalone);
}

void add_output_flags(FlagSet& flags, FlagValues& values) {
  flags.section("Output");
  flags.add({.name = "--log-dir",
             .help = "DIR/RUN/attempt_K/rank_N.{out,err} and DIR/RUN/summary.json",
             .value_name = "DIR"},
            &values.log_directory);
  flags.add({.name = "--redirects",
             .help = "Streams that go to the log files alone: 1 standard output, 2 standard error, "
                     "3 both; or by local rank, 0:1,1:3",
             .value_name = "STREAMS",
             .needs = "--log-dir"},
            &values.redirects);
  flags.add({.name = "--tee",
             .help = "Streams of which the console shows every line, too",
             .value_name = "STREAMS"},
            &values.tee);
  flags.add({.name = "--local-ranks-filter",
             .help = "The console shows these local ranks alone",
             .value_name = "N,N,..."},
            &values.console_ranks);
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
