#pragma once
// Shared by tests of transports: worlds of each transport; programs that every rank of a world
// runs, on its own thread with its own arena, context and recorder; tensors as vectors of doubles.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "phalanx/comm/call.h"
#include "phalanx/comm/comm_error.h"
#include "phalanx/comm/local/local_world.h"
#include "phalanx/comm/ucx/ucx_world.h"
#include "phalanx/ops/ref/ref_backend.h"
#include "phalanx/rendezvous/local_mailbox.h"
#include "phalanx/rendezvous/rank_watch.h"

namespace phalanx::transports {

// Calls f(T{}) with the C++ type of a dtype.
template <typename F>
void with_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::kF64:
      return f(double{});
    case DType::kF32:
      return f(float{});
    case DType::kBF16:
      return f(bfloat16{});
    case DType::kF16:
      return f(float16{});
    case DType::kI64:
      return f(std::int64_t{});
    case DType::kI32:
      return f(std::int32_t{});
    case DType::kU8:
      return f(std::uint8_t{});
  }
}

inline void write_values(const Tensor& tensor, const std::vector<double>& values) {
  with_type(tensor.dtype, [&]<typename T>(T /*type*/) {
    auto* elements = reinterpret_cast<T*>(tensor.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if constexpr (std::is_same_v<T, bfloat16>) {
        elements[i] = to_bfloat16(static_cast<float>(values[i]));
      } else if constexpr (std::is_same_v<T, float16>) {
        elements[i] = to_float16(static_cast<float>(values[i]));
      } else {
        elements[i] = static_cast<T>(values[i]);
      }
    }
  });
}

inline std::vector<double> read_values(const Tensor& tensor) {
  std::vector<double> values(static_cast<std::size_t>(tensor.count()));
  with_type(tensor.dtype, [&]<typename T>(T /*type*/) {
    const auto* elements = reinterpret_cast<const T*>(tensor.data());
    double* value = values.data();
    for (std::int64_t i = 0; i < tensor.count(); ++i) {
      if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>) {
        value[i] = static_cast<double>(to_float(elements[i]));
      } else {
        value[i] = static_cast<double>(elements[i]);
      }
    }
  });
  return values;
}

inline std::vector<std::byte> bytes_of(const Tensor& tensor) {
  return {tensor.data(), tensor.data() + tensor.bytes()};
}

// One rank of a world.
struct Rank {
  Rank(Communicator& world_end, std::int64_t arena_bytes)
      : world(world_end), arena("test", arena_bytes) {}

  int rank() const { return world.rank(); }
  std::size_t index() const { return static_cast<std::size_t>(world.rank()); }
  Tensor empty(DType dtype, std::int64_t count) { return arena.allocate(dtype, {count}); }
  Tensor tensor(DType dtype, const std::vector<double>& values) {
    const Tensor result = empty(dtype, std::ssize(values));
    write_values(result, values);
    return result;
  }

  Communicator& world;
  std::unique_ptr<Backend> backend = make_ref_backend();
  Arena arena;
  Arena workspace{"workspace", 1 << 12};
  Recorder recorder;
  Context context{.backend = *backend, .workspace = workspace, .recorder = &recorder};
};

struct WorldOptions {
  int threads_per_rank = 1;
  int sum_block = kSumBlock;
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

// The ends of a world, by rank, and what must outlive them.
struct World {
  World(std::shared_ptr<void> kept, std::vector<std::unique_ptr<Communicator>> made)
      : keeps(std::move(kept)), ends(std::move(made)) {}
  World(World&&) = default;
  World& operator=(World&&) = delete;
  // Ends all ranks at the same time, since they exchange goodbyes.
  ~World() {
    std::vector<std::jthread> threads;
    for (auto& end : ends) {
      if (end) threads.emplace_back([&end] { end.reset(); });
    }
  }

  std::shared_ptr<void> keeps;
  std::vector<std::unique_ptr<Communicator>> ends;
};

struct Transport {
  std::string name;
  std::function<World(int size, const WorldOptions& options)> make;
  // Long enough for messages to arrive on a busy machine.
  std::chrono::milliseconds patience;
};

inline const Transport& local_transport() {
  static const Transport kLocal{
      .name = "Local",
      .make =
          [](int size, const WorldOptions& options) {
            return World(nullptr,
                         make_local_world(size, {.threads_per_rank = options.threads_per_rank,
                                                 .sum_block = options.sum_block,
                                                 .timeout = options.timeout}));
          },
      .patience = std::chrono::milliseconds(5)};
  return kLocal;
}

// A watch over ranks that are threads of a test: a failure of one is passed to all.
class SharedWatch {
 public:
  explicit SharedWatch(int size) {
    for (int rank = 0; rank < size; ++rank) ends_.push_back(std::make_unique<End>(*this, rank));
  }
  RankWatch& end(int rank) { return *ends_[static_cast<std::size_t>(rank)]; }
  Mailbox& mailbox() { return mailbox_; }

  // A failure that the watch finds itself.
  void fail(int rank, ErrorCode code, std::string_view reason) noexcept {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = RankFailure{rank, code, std::string(reason)};
    mailbox_.fail(Error(code, std::string(reason)));
    for (const auto& end : ends_) {
      if (end->wake) end->wake();
    }
  }
  // Long waits so far: "rank 0 in world: barrier for ranks 1, 2".
  std::vector<std::string> waits() const {
    const std::lock_guard lock(mutex_);
    return waits_;
  }

 private:
  class End final : public RankWatch {
   public:
    End(SharedWatch& shared, int rank) : shared_(shared), rank_(rank) {}
    void tick() noexcept override {}
    void begin_wait(const CommPlace& at, const std::vector<int>& missing) override {
      const std::lock_guard lock(shared_.mutex_);
      shared_.waits_.push_back(fmt::format("rank {} in {}: {} for {}", at.rank, at.group,
                                           at.operation, spell_ranks(missing)));
    }
    void end_wait() noexcept override {}
    void waited(Clock::duration /*time*/) noexcept override {}
    void begin_busy(std::string what) override {
      const std::lock_guard lock(shared_.mutex_);
      shared_.busy_.emplace_back(rank_, std::move(what));
    }
    void end_busy() noexcept override {
      const std::lock_guard lock(shared_.mutex_);
      const auto last = std::find_if(shared_.busy_.rbegin(), shared_.busy_.rend(),
                                     [&](const auto& busy) { return busy.first == rank_; });
      shared_.busy_.erase(std::next(last).base());
    }
    std::string busy_ranks() const override {
      const std::lock_guard lock(shared_.mutex_);
      if (shared_.busy_.empty()) return {};
      const auto& [rank, what] = shared_.busy_.front();
      return fmt::format("rank {}, which has been {} for 0 s", rank, what);
    }
    void step(std::int64_t /*iteration*/) noexcept override {}
    void fail(std::string_view reason) noexcept override {
      shared_.fail(rank_, ErrorCode::kTemporary, reason);
    }
    std::optional<RankFailure> failure() const override {
      const std::lock_guard lock(shared_.mutex_);
      return shared_.failure_;
    }
    void on_failure(std::function<void()> called) override {
      const std::lock_guard lock(shared_.mutex_);
      wake = std::move(called);
      if (shared_.failure_ && wake) wake();
    }

    std::function<void()> wake;

   private:
    SharedWatch& shared_;
    int rank_;
  };

  LocalMailbox mailbox_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<End>> ends_;
  std::optional<RankFailure> failure_;
  std::vector<std::pair<int, std::string>> busy_;
  std::vector<std::string> waits_;
};

// Ranks as threads that exchange data only through UCX.
inline World make_ucx_threads(const std::vector<RankPlace>& places, const UcxOptions& options) {
  const int size = static_cast<int>(places.size());
  const auto watch = std::make_shared<SharedWatch>(size);
  std::vector<std::unique_ptr<Communicator>> ends(places.size());
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        ends[static_cast<std::size_t>(rank)] =
            make_ucx_world(rank, places, options, watch->end(rank), watch->mailbox());
      });
    }
  }
  return World(watch, std::move(ends));
}

// The ranks of each of `hosts` hosts are consecutive, and as many on each as possible.
inline std::vector<RankPlace> places_of(int size, int hosts) {
  std::vector<RankPlace> places;
  for (int rank = 0; rank < size; ++rank) {
    const int host = rank * hosts / size;
    int first = rank;
    while (first > 0 && (first - 1) * hosts / size == host) --first;
    int last = rank;
    while (last + 1 < size && (last + 1) * hosts / size == host) ++last;
    places.push_back({.rank = rank,
                      .world_size = size,
                      .host = host,
                      .local_rank = rank - first,
                      .local_size = last - first + 1,
                      .host_name = fmt::format("host{}", host)});
  }
  return places;
}

inline UcxOptions ucx_options(const WorldOptions& options) {
  return {.threads_per_rank = options.threads_per_rank,
          .sum_block = options.sum_block,
          .timeout = options.timeout,
          .network_device = "lo"};
}

inline const Transport& shared_memory_transport() {
  static const Transport kSharedMemory{.name = "SharedMemory",
                                       .make =
                                           [](int size, const WorldOptions& options) {
                                             return make_ucx_threads(places_of(size, 1),
                                                                     ucx_options(options));
                                           },
                                       .patience = std::chrono::milliseconds(300)};
  return kSharedMemory;
}

inline const Transport& tcp_transport() {
  static const Transport kTcp{.name = "Tcp",
                              .make =
                                  [](int size, const WorldOptions& options) {
                                    return make_ucx_threads(places_of(size, size),
                                                            ucx_options(options));
                                  },
                              .patience = std::chrono::milliseconds(300)};
  return kTcp;
}

// As on several hosts: ranks of a host talk by shared memory, others by TCP.
inline World make_hosts(int size, int hosts, const WorldOptions& options) {
  return make_ucx_threads(places_of(size, hosts), ucx_options(options));
}

inline std::vector<const Transport*> all_transports() {
  return {&local_transport(), &shared_memory_transport(), &tcp_transport()};
}

using Program = std::function<void(Rank&)>;

// How every rank's program ended: its error, or nothing. A rank that throws aborts the world before
// its memory is freed, as a training run does.
inline std::vector<std::string> errors_of(const World& world, const Program& program,
                                          std::int64_t arena_bytes = 1 << 22) {
  std::vector<std::string> errors(world.ends.size());
  std::vector<std::jthread> threads;
  for (std::size_t r = 0; r < errors.size(); ++r) {
    threads.emplace_back([&, r] {
      Rank rank(*world.ends[r], arena_bytes);
      try {
        program(rank);
      } catch (const std::exception& error) {
        errors[r] = error.what();
        world.ends[r]->abort(error.what());
      }
    });
  }
  threads.clear();
  return errors;
}

inline std::vector<std::string> errors_of(const Transport& transport, int size,
                                          const Program& program, const WorldOptions& options = {},
                                          std::int64_t arena_bytes = 1 << 22) {
  return errors_of(transport.make(size, options), program, arena_bytes);
}

inline void run_ranks(const World& world, const Program& program,
                      std::int64_t arena_bytes = 1 << 22) {
  for (const auto& error : errors_of(world, program, arena_bytes)) EXPECT_EQ(error, "");
}

inline void run_ranks(const Transport& transport, int size, const Program& program,
                      const WorldOptions& options = {}, std::int64_t arena_bytes = 1 << 22) {
  run_ranks(transport.make(size, options), program, arena_bytes);
}

// A test that runs for every transport.
class TransportTest : public testing::TestWithParam<const Transport*> {
 protected:
  static const Transport& transport() { return *GetParam(); }
  static World world(int size, const WorldOptions& options = {}) {
    return transport().make(size, options);
  }
  static void run(int size, const Program& program, std::int64_t arena_bytes = 1 << 22) {
    run_ranks(transport(), size, program, {}, arena_bytes);
  }
};

inline std::string name_of_transport(const testing::TestParamInfo<const Transport*>& info) {
  return info.param->name;
}

}  // namespace phalanx::transports

#define PHALANX_ON_ALL_TRANSPORTS(fixture)                                                         \
  INSTANTIATE_TEST_SUITE_P(All, fixture, testing::ValuesIn(phalanx::transports::all_transports()), \
                           phalanx::transports::name_of_transport)
