#pragma once
// Memory of a device for one check after the other, with contents that are functions of their
// place, so that a device and the emulated machine begin with the same bytes.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "phalanx/ops/cuda/context.h"

namespace phalanx::cuda {

class Workbench {
 public:
  // `bytes` of device memory for the operands of a check, and scratch memory beside them.
  Workbench(int device, std::int64_t bytes, std::int64_t scratch_bytes = std::int64_t{40} << 20);
  ~Workbench();
  Workbench(const Workbench&) = delete;
  Workbench& operator=(const Workbench&) = delete;

  const CudaContext& context() const { return context_; }
  Queue queue() const { return context_.queue; }
  // The library of products, opened when it is first asked for.
  const CudaContext& with_products();

  // From here on all memory is free again.
  void clear();

  // Bytes with this content, aligned to 256, `offset` bytes behind such an address.
  std::byte* upload(const void* contents, std::int64_t bytes, std::int64_t offset = 0);
  template <typename T>
  T* upload(const std::vector<T>& contents, std::int64_t offset = 0) {
    return reinterpret_cast<T*>(
        upload(contents.data(), static_cast<std::int64_t>(contents.size() * sizeof(T)), offset));
  }
  // Random numbers in [low, high), another sequence in every call since clear().
  TypedAddress uniform(DType type, std::int64_t n, double low, double high,
                       std::int64_t offset = 0);
  std::vector<float> uniform_floats(std::int64_t n, double low, double high);
  std::vector<std::uint32_t> random_words(std::int64_t n);
  // Every byte is 0xff.
  TypedAddress output(DType type, std::int64_t n, std::int64_t offset = 0);
  float* output_floats(std::int64_t n) {
    return reinterpret_cast<float*>(output(DType::kF32, n).at);
  }
  // Without contents.
  std::byte* reserve(std::int64_t bytes, std::int64_t offset = 0);

  // What is there when the queue is done.
  std::vector<std::byte> read(const void* from, std::int64_t bytes);
  std::vector<std::byte> read(TypedAddress from, std::int64_t n) {
    return read(from.at, n * size_of(from.type));
  }
  std::vector<float> read_floats(TypedAddress from, std::int64_t n);
  // `rows` pieces of `bytes` bytes, whose starts are `pitch` bytes apart.
  std::vector<std::byte> read_column(const void* from, std::int64_t pitch, std::int64_t bytes,
                                     std::int64_t rows);

 private:
  std::byte* staging(std::int64_t bytes);

  std::int64_t bytes_;
  std::int64_t used_ = 0;
  std::uint64_t state_ = 0;
  std::byte* memory_;
  std::byte* staging_ = nullptr;
  std::int64_t staging_bytes_ = 0;
  CudaContext context_;
  std::unique_ptr<Lt> lt_;
};

// The contents of n elements as floats.
std::vector<float> floats_of(const std::vector<std::byte>& bytes, DType type);

}  // namespace phalanx::cuda
