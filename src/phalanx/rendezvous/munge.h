#pragma once
// The run's secret under Slurm without a file: MUNGE, which authenticates users between the hosts
// of a cluster, carries it. Who hosts the coordinator makes a credential that this user's processes
// alone can decode; who comes without a secret asks for it, decodes it, and sees whose it is. Then
// both prove to each other that they know the secret, as always.

#include <string>

#include "phalanx/rendezvous/secret.h"

namespace phalanx::rendezvous {

inline constexpr std::size_t kLongestCredential = 4096;

// Whether `munge` and `unmunge` are on the PATH.
bool has_munge();

// SystemError where munge does not give one (its daemon does not run).
std::string make_munge_credential(const Secret& secret);

// PermissionError where it is not one, or not of this user. One that was decoded before, by another
// rank of this host, is good: nobody else can decode it.
Secret read_munge_credential(const std::string& credential);

}  // namespace phalanx::rendezvous
