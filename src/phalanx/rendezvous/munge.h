#pragma once
// The run's secret under Slurm without a file, by MUNGE, which authenticates users between the
// hosts of a cluster. The coordinator's process makes a credential that only this user's processes
// can decode. A member without a secret asks for it, decodes it, and checks whose it is. Then both
// prove to each other that they know the secret, as always.

#include <string>

#include "phalanx/rendezvous/secret.h"

namespace phalanx::rendezvous {

inline constexpr std::size_t kLongestCredential = 4096;

// Whether `munge` and `unmunge` are on the PATH.
bool has_munge();

// SystemError if munge gives none (for example, because its daemon does not run).
std::string make_munge_credential(const Secret& secret);

// PermissionError if it is none, or not this user's. A credential that another rank of this host
// has decoded before is valid, since only this user can decode it.
Secret read_munge_credential(const std::string& credential);

}  // namespace phalanx::rendezvous
