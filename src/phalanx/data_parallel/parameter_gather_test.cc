// With a distributed optimizer, updated parameters are gathered from the ranks that own them.

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/data_parallel/data_parallel.h"
#include "phalanx/data_parallel/test_support.h"

namespace phalanx {
namespace {

using nn::PassKind;
using nn::values_of;

// Records the number of each message when a wait for it starts.
class Watched final : public Communicator {
 public:
  Watched(Communicator& inner, std::vector<int>& waits)
      : Communicator(inner.rank(), inner.group()), inner_(inner), waits_(waits) {}

  std::unique_ptr<Communicator> split(std::span<const std::vector<int>> groups,
                                      std::string name) override {
    return inner_.split(groups, std::move(name));
  }
  void abort(std::string_view reason) noexcept override { inner_.abort(reason); }

 private:
  class Watch final : public Work::State {
   public:
    Watch(Work work, int number, std::vector<int>& waits)
        : work_(std::move(work)), number_(number), waits_(waits) {}
    void wait(Queue queue) override {
      waits_.push_back(number_);
      work_.wait(queue);
    }
    void wait_host(Work::Clock::time_point deadline) override { work_.wait_host(deadline); }
    bool done() override { return work_.done(); }

   private:
    Work work_;
    int number_;
    std::vector<int>& waits_;
  };

  Work watch(Work work) { return Work(std::make_shared<Watch>(std::move(work), next_++, waits_)); }
  // A context that does not record: the message has been recorded already.
  static Context silent(const Context& context) {
    Context copy = context;
    copy.recorder = nullptr;
    return copy;
  }
  Work start_all_reduce(Context& context, const Tensor& tensor, Reduction reduction) override {
    Context inner = silent(context);
    return watch(inner_.all_reduce(inner, tensor, reduction));
  }
  Work start_reduce_scatter(Context& context, const Tensor& output, const Tensor& input,
                            Reduction reduction) override {
    Context inner = silent(context);
    return watch(inner_.reduce_scatter(inner, output, input, reduction));
  }
  Work start_all_gather(Context& context, const Tensor& output, const Tensor& input) override {
    Context inner = silent(context);
    return watch(inner_.all_gather(inner, output, input));
  }
  Work start_broadcast(Context& context, const Tensor& tensor, int root) override {
    Context inner = silent(context);
    return watch(inner_.broadcast(inner, tensor, root));
  }
  Work start_all_to_all(Context& context, const Tensor& output, std::span<const std::int64_t> from,
                        const Tensor& input, std::span<const std::int64_t> to) override {
    Context inner = silent(context);
    return watch(inner_.all_to_all(inner, output, from, input, to));
  }
  void start_barrier(Context& context) override {
    Context inner = silent(context);
    inner_.barrier(inner);
  }
  Work start_exchange(Context& context, std::span<const PointToPoint> messages) override {
    Context inner = silent(context);
    return watch(inner_.exchange(inner, messages));
  }
  void begin_busy(std::string /*what*/) override {}
  void end_busy() noexcept override {}

  Communicator& inner_;
  std::vector<int>& waits_;
  int next_ = 0;
};

class Reader final : public nn::Unit {
 public:
  Reader(std::string name, std::vector<ParamId> parameters) : Unit(std::move(name)) {
    parameters_ = std::move(parameters);
  }
  void forward(nn::Pass& /*pass*/, Tensors /*inputs*/, Tensors /*outputs*/,
               const nn::Saved& /*saved*/) const override {}
  void backward_input(nn::Pass& /*pass*/, Tensors /*inputs*/, Tensors /*output_gradients*/,
                      Tensors /*input_gradients*/, const nn::Saved& /*saved*/) const override {}
  void backward_weight(nn::Pass& /*pass*/, Tensors /*inputs*/, const nn::Saved& /*saved*/,
                       const nn::Gradients& /*gradients*/) const override {}
};

double updated(ParamId id, std::int64_t element) {
  return noise(900 + static_cast<std::uint64_t>(id), static_cast<std::uint64_t>(element));
}

// Writes the "updated" parameters of this rank's shard; others are NaN.
void update_shard(const StoreRank& rank) {
  set_each(rank.parameters.flat(), [](std::int64_t) { return std::nan(""); });
  for (const Segment& segment : rank.parameters.states().segments()) {
    set_each(rank.parameters.weight(segment),
             [&](std::int64_t i) { return updated(segment.id, segment.begin + i); });
  }
}

void expect_updated(const StoreRank& rank, ParamId id) {
  const Tensor& weight = rank.parameters.weight(id);
  const Values values = values_of(weight);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(values[i], ref::round_to(weight.dtype, updated(id, static_cast<std::int64_t>(i))))
        << id << " " << i;
  }
}

TEST(DataParallelParameters, AreGatheredAtOnce) {
  for (const int ranks : {2, 3, 4}) {
    for (const std::int64_t size : {0, 1, 20000}) {
      run_local_ranks(ranks, {}, [&](Communicator& world) {
        StoreRank rank(uneven_table(DType::kBF16),
                       {.domains = {{.rank = world.rank(), .ranks = ranks}}, .bucket_size = size});
        DataParallel data_parallel(rank.parameters, rank.gradients, kUses, {.data = {&world}}, {},
                                   {}, rank.memory);
        data_parallel.begin(rank.context, 0);
        update_shard(rank);
        data_parallel.gather();
        for (ParamId id = 0; id < 5; ++id) expect_updated(rank, id);
      });
    }
  }
}

// With overlap, a unit's forward pass waits for exactly the buckets that it reads; backward passes
// wait for none.
TEST(DataParallelParameters, AreGatheredBeforeTheFirstUnitThatReads) {
  run_local_ranks(2, {}, [](Communicator& world) {
    std::vector<int> waits;
    Watched watched(world, waits);
    StoreRank rank(uneven_table(DType::kF32),
                   {.domains = {{.rank = world.rank(), .ranks = 2}}, .bucket_size = 1});
    const auto contents = contents_of(rank);
    const int buckets = static_cast<int>(contents.size());
    DataParallel data_parallel(rank.parameters, rank.gradients, kUses, {.data = {&watched}}, {},
                               {.overlap_param_gather = true}, rank.memory);
    const Reader first("first", {0, 1}), second("second", {2, 4}), third("third", {0, 3});
    data_parallel.begin(rank.context, 0);
    update_shard(rank);
    data_parallel.gather();
    EXPECT_EQ(static_cast<int>(rank.recorder.messages().size()), buckets);
    EXPECT_TRUE(waits.empty());
    data_parallel.before(first, PassKind::kBackwardInput, 0);
    data_parallel.before(first, PassKind::kBackwardWeight, 0);
    EXPECT_TRUE(waits.empty());
    std::set<int> waited;
    for (const nn::Unit* unit :
         {static_cast<const nn::Unit*>(&first), static_cast<const nn::Unit*>(&second),
          static_cast<const nn::Unit*>(&third)}) {
      data_parallel.before(*unit, PassKind::kForward, 0);
      for (int b = 0; b < buckets; ++b) {
        for (const ParamId id : unit->parameters()) {
          // The last bucket is gathered first.
          if (contents[static_cast<std::size_t>(b)].contains(id)) waited.insert(buckets - 1 - b);
        }
      }
      EXPECT_EQ(std::set<int>(waits.begin(), waits.end()), waited) << unit->name();
      EXPECT_EQ(waits.size(), waited.size()) << "a bucket is waited for once";
      for (const ParamId id : unit->parameters()) expect_updated(rank, id);
    }
    const auto before_finish = waits.size();
    data_parallel.before(first, PassKind::kForward, 1);
    EXPECT_EQ(waits.size(), before_finish);
    data_parallel.finish_gather();
    EXPECT_EQ(static_cast<int>(std::set<int>(waits.begin(), waits.end()).size()), buckets);
  });
}

TEST(DataParallelParameters, WithoutShardsNeedNoGather) {
  run_local_ranks(2, {}, [](Communicator& world) {
    StoreRank rank(uneven_table(DType::kF32));
    DataParallel data_parallel(rank.parameters, rank.gradients, kUses, {.data = {&world}}, {}, {},
                               rank.memory);
    data_parallel.begin(rank.context, 0);
    data_parallel.gather();
    EXPECT_TRUE(rank.recorder.messages().empty());
  });
}

TEST(DataParallelParameters, OfAShardNeedAGroup) {
  StoreRank rank(uneven_table(DType::kF32), {.domains = {{.rank = 0, .ranks = 2}}});
  EXPECT_THROW(DataParallel(rank.parameters, rank.gradients, kUses, {}, {}, {}, rank.memory),
               InternalError);
}

}  // namespace
}  // namespace phalanx
