#include "phalanx/ops/backend_pieces.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <string_view>
#include <vector>

#include "phalanx/ops/ref/ref_backend.h"

namespace phalanx {
namespace {

// Addresses that nobody may follow.
class FarMemory final : public ArenaMemory {
 public:
  MemorySpace space() const override { return MemorySpace::kDevice; }
  std::byte* reserve(std::string_view /*arena*/, std::int64_t /*bytes*/) override {
    return reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);
  }
  void give_back(std::byte* /*base*/, std::int64_t /*bytes*/) noexcept override {}
};

// Only copies work, from and to the arena's content; it counts them.
class FarBackend final : public Backend {
 public:
  MemorySpace space() const override { return MemorySpace::kDevice; }
  std::int64_t workspace_bytes_of_op(std::size_t, const void*) const override { return 0; }
  void upload(Queue, const Tensor& to, std::span<const std::byte> from) override {
    ++uploads;
    std::memcpy(&content[static_cast<std::size_t>(to.offset)], from.data(), from.size());
  }
  ReadBack read_later(Queue, const Tensor& from) override {
    reads.push_back(from.bytes());
    const std::byte* begin = &content[static_cast<std::size_t>(from.offset)];
    return read_back_of({begin, begin + from.bytes()});
  }
  void read_back(Queue queue, const Tensor& from, std::span<std::byte> to) override {
    ReadBack bytes = read_later(queue, from);
    std::memcpy(to.data(), bytes.wait().data(), to.size());
  }
  Event record(Queue) override { return {}; }
  void wait(Queue, Event) override {}
  bool passed(Event) override { return true; }
  void wait_host(Event) override {}

  std::vector<std::byte> content = std::vector<std::byte>(std::size_t{3} << 20);
  std::vector<std::int64_t> reads;
  int uploads = 0;

 private:
  void run_op(Queue, std::size_t, const void*, const Tensor&) override { FAIL(); }
};

TEST(BackendPieces, ATensorInHostMemoryIsReadAndWrittenWhereItLies) {
  const auto backend = make_ref_backend();
  Arena arena("states", 1 << 12);
  Context context{.backend = *backend, .workspace = arena};
  BackendPieces pieces(context);
  const Tensor tensor = arena.allocate(DType::kF32, {10});
  const std::byte* next = tensor.data();
  pieces.visit(tensor, 15, [&](std::span<const std::byte> piece) {
    EXPECT_EQ(piece.data(), next);
    EXPECT_EQ(piece.size(), next < tensor.data() + 36 ? 12U : 4U);
    next = piece.data() + piece.size();
  });
  EXPECT_EQ(next, tensor.data() + tensor.bytes());
  pieces.fill(tensor, [&](std::span<std::byte> piece) {
    EXPECT_EQ(piece.data(), tensor.data());
    EXPECT_EQ(std::ssize(piece), tensor.bytes());
  });
  EXPECT_THROW(pieces.visit(tensor, 3, [](std::span<const std::byte>) {}), InternalError);
  std::vector<std::byte> few(8);
  EXPECT_THROW(pieces.read(tensor, few), InternalError);
  EXPECT_THROW(pieces.write(tensor, few), InternalError);
}

TEST(BackendPieces, OneOfADeviceComesAndGoesInPieces) {
  FarBackend backend;
  FarMemory memory;
  Arena arena("states", std::ssize(backend.content), memory);
  Context context{.backend = backend, .workspace = arena};
  BackendPieces pieces(context);
  arena.allocate(DType::kU8, {100});
  constexpr std::int64_t kCount = 300'000;  // more than what is written at once
  const Tensor tensor = arena.allocate(DType::kF32, {kCount});
  std::vector<float> values(kCount);
  std::iota(values.begin(), values.end(), 1.0F);
  auto rest = std::as_bytes(std::span(values));
  pieces.fill(tensor, [&](std::span<std::byte> piece) {
    std::memcpy(piece.data(), rest.data(), piece.size());
    rest = rest.subspan(piece.size());
  });
  EXPECT_TRUE(rest.empty());
  EXPECT_EQ(backend.uploads, 2);
  EXPECT_EQ(std::memcmp(&backend.content[static_cast<std::size_t>(tensor.offset)], values.data(),
                        static_cast<std::size_t>(tensor.bytes())),
            0);
  std::vector<std::byte> visited;
  pieces.visit(tensor, 500'001, [&](std::span<const std::byte> piece) {
    visited.insert(visited.end(), piece.begin(), piece.end());
  });
  EXPECT_EQ(backend.reads, (std::vector<std::int64_t>{500'000, 500'000, 200'000}));
  EXPECT_EQ(std::memcmp(visited.data(), values.data(), visited.size()), 0);
  EXPECT_EQ(std::ssize(visited), tensor.bytes());
  std::vector<float> some(2);
  pieces.read(elements_of(tensor, 7, 2), std::as_writable_bytes(std::span(some)));
  EXPECT_EQ(some, (std::vector<float>{8, 9}));
  pieces.write(elements_of(tensor, 9, 2), std::as_bytes(std::span(some)));
  pieces.read(elements_of(tensor, 9, 2), std::as_writable_bytes(std::span(some)));
  EXPECT_EQ(some, (std::vector<float>{8, 9}));
  EXPECT_THROW(
      host_pieces().read(elements_of(tensor, 0, 2), std::as_writable_bytes(std::span(some))),
      InternalError);
}

}  // namespace
}  // namespace phalanx
