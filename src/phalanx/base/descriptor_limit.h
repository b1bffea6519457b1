#pragma once
// How many files, sockets and pipes a process may have open.

#include <cstddef>
#include <string_view>

namespace phalanx {

// Makes room for `needed` more descriptors: where the soft limit (ulimit -Sn) is too low it becomes
// the hard one (ulimit -Hn). SystemError (71) with the numbers where that is not enough; `what`
// needs them: "the coordinator of 10000 ranks". To be called before the first is opened.
void raise_descriptor_limit(std::size_t needed, std::string_view what);

}  // namespace phalanx
