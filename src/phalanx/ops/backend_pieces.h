#pragma once
// The tensors of a backend, read and written by the host: between steps, for saving, loading,
// digests and checks.

#include <vector>

#include "phalanx/ops/backend.h"
#include "phalanx/tensor/host_pieces.h"

namespace phalanx {

// Writes are in the context's queue. Reads are in kCopyOut, behind what that queue has; the host
// waits for their bytes, so what it enqueues later finds them read. Tensors that lie in host memory
// are read and written in place. The context must outlive it.
class BackendPieces final : public HostPieces {
 public:
  explicit BackendPieces(Context& context) : context_(context) {}

  void visit(const Tensor& tensor, std::int64_t bytes,
             const std::function<void(std::span<const std::byte>)>& body) override;
  void fill(const Tensor& tensor, const std::function<void(std::span<std::byte>)>& body) override;
  void read(const Tensor& tensor, std::span<std::byte> to) override;
  void write(const Tensor& tensor, std::span<const std::byte> from) override;

 private:
  // The queue of reads.
  Queue out() const;

  Context& context_;
  std::vector<std::byte> buffer_;
};

}  // namespace phalanx
