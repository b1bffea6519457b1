#pragma once
// The machine on which ranks of a test run, and what they leave on it. With the rights for it every
// test program has a network and a /dev/shm of its own, so that what is there is the test's.

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "child_process.h"

namespace phalanx::processes {

// Gives this process a network (loopback only) and a /dev/shm of its own, where it has
// CAP_NET_ADMIN and CAP_SYS_ADMIN. Called before any thread is there.
void make_own_machine();
bool has_own_machine();

// A process of a test: all of them inherit PHALANX_TEST_RUN=`run`.
struct FoundProcess {
  pid_t pid = 0;
  int rank = -1;  // RANK or SLURM_PROCID of a rank
  bool is_launcher = false;
  std::string command{};
};
std::vector<FoundProcess> processes_of(const std::string& run);
// Of a rank that has been started; 0: not there.
pid_t pid_of_rank(const std::string& run, int rank);

// A line for each thing that is left: processes of the run; on a machine of its own listening
// sockets, Unix sockets and files in /dev/shm. Waits a little for what is about to go.
std::string what_is_left(const std::string& run,
                         std::chrono::milliseconds patience = std::chrono::seconds(5));
// Sockets that listen now, a line each; of the network of `process` (0: of this one).
std::string listening_tcp_sockets(pid_t process = 0);

// A command of the shell, for setting up networks; throws where it fails.
void shell(const std::string& command);

// Hosts on one cable each to one switch: network namespaces, veth pairs, a bridge. Addresses are
// 10.11.12.1, .2, ... and fd00::1, ::2, ...
class Hosts {
 public:
  explicit Hosts(int count);
  ~Hosts();
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  // A process of the host's namespace.
  pid_t process(int host) const { return holders_[static_cast<std::size_t>(host)]->pid(); }
  static std::string address(int host) { return "10.11.12." + std::to_string(host + 1); }
  static std::string address6(int host) { return "fd00::" + std::to_string(host + 1); }

  void link_down(int host) const;
  void link_up(int host) const;
  // The link stays up, and nothing comes through.
  void swallow(int host) const;
  void let_through(int host) const;
  // What the host sends to the other is lost; what comes from there arrives.
  void lose_one_direction(int from, int to) const;
  void slow_down(int host, const std::string& rate) const;
  // Ends connections of the host as a reset does, those of the rendezvous or all the others. False
  // where the kernel does not know how.
  bool reset_control(int host, int port) const;
  bool reset_payload(int host, int port) const;

 private:
  void on(int host, const std::string& command) const;
  bool reset(int host, const std::string& which) const;
  void wait_for_link(int host) const;

  std::string directory_;
  std::vector<std::unique_ptr<ChildProcess>> holders_;
};

}  // namespace phalanx::processes
