#pragma once
// What tests of transports share: worlds of each of them, a program run by every rank of a world,
// each on its own thread with its own arena, context and recorder, and tensors as vectors of
// doubles.

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "phalanx/comm/comm_error.h"
#include "phalanx/comm/local/local_world.h"
#include "phalanx/ops/ref/ref_backend.h"

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
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

// The ends of a world, by rank, and what must outlive them.
struct World {
  std::shared_ptr<void> keeps{};
  std::vector<std::unique_ptr<Communicator>> ends{};
};

struct Transport {
  std::string name;
  std::function<World(int size, const WorldOptions& options)> make;
  // A limit of time in which what has been sent arrives, on a machine that is busy.
  std::chrono::milliseconds patience;
};

inline const Transport& local_transport() {
  static const Transport kLocal{
      .name = "Local",
      .make =
          [](int size, const WorldOptions& options) {
            return World{.ends =
                             make_local_world(size, {.threads_per_rank = options.threads_per_rank,
                                                     .timeout = options.timeout})};
          },
      .patience = std::chrono::milliseconds(5)};
  return kLocal;
}

inline std::vector<const Transport*> all_transports() { return {&local_transport()}; }

using Program = std::function<void(Rank&)>;

// How every rank's program ended: its error, or nothing. A rank that throws aborts the world before
// its memory goes, as a training run does.
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

// A test of what every transport does.
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
