#pragma once
// The tensors of a checkpoint, for its writer: from this rank's memory, or from the memories of
// many ranks, one after another. No rank has to hold a whole tensor.

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/dtype.h"
#include "phalanx/base/shape.h"
#include "phalanx/mesh/global_tensor.h"

namespace phalanx {

// The prefix of names of tensors that go to optimizer.safetensors; the others go to
// model.safetensors.
inline constexpr std::string_view kOptimizerPrefix = "optimizer.";
// The prefix that makes the name of an optimizer's state from a parameter's name:
// "optimizer.exp_avg.".
std::string state_prefix(std::string_view state);

class TensorSource {
 public:
  struct Info {
    std::string name;
    DType dtype = DType::kF32;
    Shape global_shape;  // without padding
  };
  using Visitor = std::function<void(std::span<const std::byte>)>;

  TensorSource() = default;
  TensorSource(const TensorSource&) = delete;
  TensorSource& operator=(const TensorSource&) = delete;
  virtual ~TensorSource() = default;

  // The model's tensors come first, then the optimizer's.
  virtual int size() const = 0;
  virtual const Info& info(int index) const = 0;
  // Passes the bytes of the global tensor, row-major and little-endian, to `visit`, in pieces. The
  // writer visits each tensor once, in ascending order, so a source may gather by messages here.
  virtual void visit(int index, const Visitor& visitor) = 0;
};

// A source of tensors that are whole on this rank; it puts them in the order that a source must
// have. InternalError if boxes do not cover their tensor. The tensors must outlive the source.
class LocalTensorSource final : public TensorSource {
 public:
  explicit LocalTensorSource(std::span<const GlobalTensor> tensors);

  int size() const override { return static_cast<int>(tensors_.size()); }
  const Info& info(int index) const override { return infos_[static_cast<std::size_t>(index)]; }
  void visit(int index, const Visitor& visitor) override;

 private:
  std::vector<const GlobalTensor*> tensors_;
  std::vector<Info> infos_;
};

}  // namespace phalanx
