#include "phalanx/rendezvous/coordinator.h"

#include "phalanx/rendezvous/server.h"

namespace phalanx {

Coordinator::Coordinator(const CoordinatorOptions& options)
    : server_(std::make_unique<rendezvous::Server>(options)) {}

Coordinator::~Coordinator() = default;

Endpoint Coordinator::endpoint() const { return server_->endpoint(); }

void Coordinator::begin_attempt(int epoch, int world_size) {
  server_->begin_attempt(epoch, world_size);
}

void Coordinator::rank_ended(int rank, const std::string& how) { server_->rank_ended(rank, how); }

}  // namespace phalanx
