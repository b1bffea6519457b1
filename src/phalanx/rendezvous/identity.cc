#include "phalanx/rendezvous/identity.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <cstddef>
#include <fstream>
#include <string>

#include "phalanx/base/machine.h"

namespace phalanx::rendezvous {

std::string own_machine() {
  std::string boot_id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot_id;
  if (boot_id.empty()) boot_id = host_name();
  struct stat status {};
  if (::stat("/proc/self/ns/net", &status) != 0) return boot_id;
  return fmt::format("{}/{}", boot_id, status.st_ino);
}

bool is_stopped_process(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  const std::size_t end = line.rfind(") ");  // of its name, which may hold anything
  if (end == std::string::npos || end + 2 >= line.size()) return false;
  return line[end + 2] == 'T' || line[end + 2] == 't';
}

}  // namespace phalanx::rendezvous
