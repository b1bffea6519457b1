#pragma once
// Ranks that are processes: the program as one rank of many, started by hand or by its launcher.

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "../program_test.h"
#include "child_process.h"
#include "machine.h"

namespace phalanx::processes {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

// Of everything that ends by itself; ten times what it takes at most.
constexpr std::chrono::seconds kLimit = 60s;

class ProcessesTest : public ProgramTest {
 protected:
  ProcessesTest();
  ~ProcessesTest() override;

  // Flags of a small model; one thread a rank.
  static std::string model() { return training() + "--threads-per-rank 1 --no-cpu-affinity "; }
  // The same without an end in sight.
  static std::string endless() {
    return model() +
           "--train-iters 1000000 --lr-decay-iters 1000000 --eval-iters 0 "
           "--save-interval 1000000 --hang-timeout-s 5 --silence-timeout-s 3 ";
  }

  using Variables = std::map<std::string, std::string>;
  // Words of a shell's command line, without its quoting. `before`: words before the program.
  ChildProcess start(const std::string& name, const std::string& words,
                     const Variables& environment = {}, pid_t host_of = 0,
                     const std::vector<std::string>& before = {}) const;
  // `phalanx launch LAUNCH -- pretrain gpt FLAGS`.
  ChildProcess launch(const std::string& name, const std::string& launch, const std::string& flags,
                      pid_t host_of = 0) const;
  // A rank as torchrun would start it, all on one host.
  ChildProcess start_rank(int rank, int world_size, const std::string& flags,
                          const Variables& more = {}, const std::string& name = "") const;
  // On hosts of their own, all at one address.
  Variables host_of_its_own(int rank, int world_size, const std::string& address) const;
  // Free now, and not given out twice by this test.
  static int free_port();

  // Both end with `status` within the limit; their output is told where they do not.
  static void expect_end(ChildProcess& process, int status);
  // A process's last line of errors, as it stands there.
  static std::string last_line(const ChildProcess& process);
  // The same with HOST for this machine's name, PID and PORT for numbers of processes and ports.
  static std::string golden_line(const ChildProcess& process);

  // Iterations that metrics.jsonl has.
  int iterations(const std::string& save) const;
  // False as soon as no process of the test is there any more.
  bool has_begun(const std::string& save) const;
  // What of metrics.jsonl does not depend on time.
  std::vector<std::string> results(const std::string& save) const;
  Json digest(const std::string& save) const;
  Json summary(const std::string& log_dir) const;
  // Expects no process, socket, shared memory or temporary file. A killed rank 0 may leave its
  // .joining file.
  void expect_clean(const std::string& save = "", bool was_rank_0_killed = false) const;

  const std::string& run_mark() const { return run_; }

 private:
  std::string run_;
};

}  // namespace phalanx::processes
