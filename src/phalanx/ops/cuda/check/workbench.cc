#include "phalanx/ops/cuda/check/workbench.h"

#include <cstring>

#include "phalanx/base/numeric.h"
#include "phalanx/cuda/simt.h"

namespace phalanx::cuda {
Workbench::Workbench(int device, std::int64_t bytes, std::int64_t scratch_bytes)
    : bytes_(bytes), memory_(allocate(device, bytes)) {
  context_.device = device;
  context_.queue = make_queue(device);
  context_.scratch = allocate(device, scratch_bytes);
  context_.scratch_bytes = scratch_bytes;
}

Workbench::~Workbench() {
  give_back(context_.device, memory_);
  give_back(context_.device, context_.scratch);
  if (staging_ != nullptr) give_back_pinned(staging_);
  give_back(context_.queue);
}

const CudaContext& Workbench::with_products() {
  if (!lt_) {
    lt_ = std::make_unique<Lt>(context_.device);
    context_.lt = lt_.get();
  }
  return context_;
}

void Workbench::clear() {
  wait_host(context_.queue);
  used_ = 0;
  state_ = 0;
}

std::byte* Workbench::staging(std::int64_t bytes) {
  if (bytes > staging_bytes_) {
    wait_host(context_.queue);
    if (staging_ != nullptr) give_back_pinned(staging_);
    staging_bytes_ = round_up(bytes, std::int64_t{1} << 20);
    staging_ = allocate_pinned(staging_bytes_);
  }
  return staging_;
}

std::byte* Workbench::reserve(std::int64_t bytes, std::int64_t offset) {
  PHALANX_CHECK(used_ + bytes + offset <= bytes_, "the workbench has {} bytes, {} are needed",
                bytes_, used_ + bytes + offset);
  std::byte* memory = memory_ + used_ + offset;
  used_ = round_up(used_ + bytes + offset, 256);
  return memory;
}

std::byte* Workbench::upload(const void* contents, std::int64_t bytes, std::int64_t offset) {
  std::byte* memory = reserve(bytes, offset);
  std::byte* pinned = staging(bytes);
  std::memcpy(pinned, contents, static_cast<std::size_t>(bytes));
  copy(context_.queue, memory, pinned, bytes);
  wait_host(context_.queue);
  return memory;
}

std::vector<std::uint32_t> Workbench::random_words(std::int64_t n) {
  std::vector<std::uint32_t> words(static_cast<std::size_t>(n));
  for (std::uint32_t& word : words) {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    word = static_cast<std::uint32_t>(z >> 32);
  }
  return words;
}

std::vector<float> Workbench::uniform_floats(std::int64_t n, double low, double high) {
  std::vector<float> numbers;
  numbers.reserve(static_cast<std::size_t>(n));
  for (const std::uint32_t word : random_words(n)) {
    numbers.push_back(static_cast<float>(low + (high - low) * word * 0x1p-32));
  }
  return numbers;
}

TypedAddress Workbench::uniform(DType type, std::int64_t n, double low, double high,
                                std::int64_t offset) {
  const std::vector<float> numbers = uniform_floats(n, low, high);
  switch (type) {
    case DType::kF64: {
      const std::vector<double> doubles(numbers.begin(), numbers.end());
      return {reinterpret_cast<std::byte*>(upload(doubles, offset)), type};
    }
    case DType::kBF16: {
      std::vector<bf16> halves;
      for (const float number : numbers) halves.push_back(bf16_of(number));
      return {reinterpret_cast<std::byte*>(upload(halves, offset)), type};
    }
    case DType::kF16: {
      std::vector<fp16> halves;
      for (const float number : numbers) halves.push_back(fp16_of(number));
      return {reinterpret_cast<std::byte*>(upload(halves, offset)), type};
    }
    case DType::kF32:
      return {reinterpret_cast<std::byte*>(upload(numbers, offset)), type};
    default:
      throw InternalError("no random numbers of {}", name_of(type));
  }
}

TypedAddress Workbench::output(DType type, std::int64_t n, std::int64_t offset) {
  std::byte* memory = reserve(n * size_of(type), offset);
  set_bytes(context_.queue, memory, 0xff, n * size_of(type));
  return {memory, type};
}

std::vector<std::byte> Workbench::read(const void* from, std::int64_t bytes) {
  std::byte* pinned = staging(bytes);
  copy(context_.queue, pinned, from, bytes);
  wait_host(context_.queue);
  return {pinned, pinned + bytes};
}

std::vector<std::byte> Workbench::read_column(const void* from, std::int64_t pitch,
                                              std::int64_t bytes, std::int64_t rows) {
  std::byte* pinned = staging(bytes * rows);
  copy_rows(context_.queue, pinned, bytes, from, pitch, bytes, rows);
  wait_host(context_.queue);
  return {pinned, pinned + bytes * rows};
}

std::vector<float> Workbench::read_floats(TypedAddress from, std::int64_t n) {
  return floats_of(read(from, n), from.type);
}

std::vector<float> floats_of(const std::vector<std::byte>& bytes, DType type) {
  const auto size = static_cast<std::size_t>(size_of(type));
  std::vector<float> numbers;
  for (std::size_t i = 0; i + size <= bytes.size(); i += size) {
    switch (type) {
      case DType::kBF16: {
        bf16 value;
        std::memcpy(&value, bytes.data() + i, 2);
        numbers.push_back(to_float(value));
        break;
      }
      case DType::kF16: {
        fp16 value;
        std::memcpy(&value, bytes.data() + i, 2);
        numbers.push_back(to_float(value));
        break;
      }
      case DType::kF32: {
        float value = 0.0F;
        std::memcpy(&value, bytes.data() + i, 4);
        numbers.push_back(value);
        break;
      }
      default:
        throw InternalError("no floats of {}", name_of(type));
    }
  }
  return numbers;
}

}  // namespace phalanx::cuda
