#include "phalanx/comm/ucx/slice_sums.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "phalanx/comm/reduce.h"
#include "phalanx/comm/ucx/engine.h"

namespace phalanx::ucx {
namespace {

// What a sum takes at most, unless chunks of the least size need more.
constexpr std::int64_t kScratchBytes = 4 << 20;
// Data is moved and added in chunks. The largest ones fit in a cache. The smallest ones are four
// times as long as what UCX sends without asking (RNDV_THRESH in ucx_wire.cc): the receiver asks
// for longer data when it has memory, so a round trip comes before each chunk, and at the threshold
// itself it would cost as much as the data. Data below the threshold that nobody expects yet is
// copied twice, and fills the receiver's memory.
constexpr std::int64_t kLeastChunk = 64 << 10;
constexpr std::int64_t kMostChunk = 512 << 10;
constexpr std::int64_t kChunkStep = 16 << 10;

// Jobs whose data is received at the same time: for this rank's slice, and for those of others.
constexpr int kTakesAhead = 3;
constexpr int kTakesAheadOfOneBlock = 2;
constexpr int kAddsAhead = 2;
// Chunks of which this rank's own data is under way: bounds the messages that are begun.
constexpr int kSentChunks = 4;
// Sums for other members that are under way.
constexpr int kSentSums = 4;

// The scratch memory of a sum, in chunks of the data.
class Memory {
 public:
  // Sums that wait are `widening` times as long as the data.
  Memory(const SumTree& tree, bool has_adders, int widening) : tree_(&tree), widening_(widening) {
    const bool is_one_block = tree.levels() <= 1;
    takes_ahead_ = is_one_block ? kTakesAheadOfOneBlock : kTakesAhead;
    slot_ = is_one_block ? tree.values() - 1 : tree.block();
    added_ = takes_ahead_ * slot_;
    sent_ = added_ + (has_adders ? kAddsAhead * slot_ : 0);
    levels_ = sent_ + (has_adders ? kSentSums * widening_ : 0);
    total_ = levels_;
    for (int level = 1; level < tree.levels(); ++level) total_ += waiting(level) * widening_;
  }
  int takes_ahead() const { return takes_ahead_; }
  std::int64_t chunk(std::int64_t slice) const {
    const std::int64_t share = kScratchBytes / total_ / kChunkStep * kChunkStep;
    const std::int64_t whole = std::max<std::int64_t>((slice + 63) / 64 * 64, 64);
    return std::min(std::clamp(share, kLeastChunk, kMostChunk), whole);
  }
  std::int64_t bytes(std::int64_t chunk) const { return total_ * chunk; }

  // Where they begin, in chunks: the data of a member of the block that the `index`-th job takes,
  // or adds for another; the `index`-th sum for another; the sum of a node.
  std::int64_t taken(std::int64_t index, int place) const {
    return index % takes_ahead_ * slot_ + place;
  }
  std::int64_t added(std::int64_t index, int place) const {
    return added_ + index % kAddsAhead * slot_ + place;
  }
  std::int64_t sent(std::int64_t index) const { return sent_ + index % kSentSums * widening_; }
  std::int64_t sum(int level, int node) const {
    std::int64_t begin = levels_;
    for (int below = 1; below < level; ++below) begin += std::int64_t{waiting(below)} * widening_;
    return begin + std::int64_t{node % tree_->block()} * widening_;
  }

 private:
  int waiting(int level) const { return std::min(tree_->block(), tree_->nodes(level)); }

  const SumTree* tree_;
  int widening_;
  int takes_ahead_;
  std::int64_t slot_ = 0;  // the data of a block
  std::int64_t added_ = 0, sent_ = 0, levels_ = 0, total_ = 0;
};

int widening_of(DType dtype) {
  return static_cast<int>(size_of(partial_dtype(dtype)) / size_of(dtype));
}

// The data of a block for one member's slice is added.
struct Job {
  int step = 0;
  int block = 0;
  int member = 0;
  std::int64_t begin = 0;  // in the slice: bytes
  std::int64_t bytes = 0;
  std::int64_t index = 0;  // counts those that are done
};

// The jobs of all chunks: `of_chunk`, whose slices have `parts`, for one chunk after the other.
class Jobs {
 public:
  Jobs(std::vector<Job> of_chunk, const Slices& parts, std::int64_t chunk)
      : of_chunk_(std::move(of_chunk)), parts_(parts), chunk_(chunk) {}

  std::optional<Job> next() {
    for (; begin_ < parts_.bytes(0); begin_ += chunk_, next_ = 0) {
      while (next_ < of_chunk_.size()) {
        Job job = of_chunk_[next_++];
        job.begin = begin_;
        job.bytes = std::min(chunk_, parts_.bytes(job.member) - begin_);
        job.index = index_;
        if (job.bytes <= 0) continue;
        ++index_;
        return job;
      }
    }
    return std::nullopt;
  }

 private:
  std::vector<Job> of_chunk_;
  Slices parts_;
  std::int64_t chunk_;
  std::int64_t begin_ = 0, index_ = 0;
  std::size_t next_ = 0;
};

// Up to `kMost` batches, used in turn; those that are needed live in the task's frame.
template <std::size_t kMost>
class Batches {
 public:
  Batches(Operation& operation, std::int64_t count) : count_(count) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      batches_[i].emplace(operation);
    }
  }
  std::int64_t count() const { return count_; }
  Batch& of(std::int64_t index) { return *batches_[static_cast<std::size_t>(index % count_)]; }

 private:
  std::int64_t count_;
  std::array<std::optional<Batch>, kMost> batches_;
};

// Jobs whose data is being received, each with a batch: at most `ahead`, in their order.
class Pipeline {
 public:
  Pipeline(Operation& operation, Jobs jobs, int ahead)
      : jobs_(std::move(jobs)), batches_(operation, ahead) {}
  // Calls receive(batch, job) for those that are begun.
  template <typename F>
  void begin(const F& receive) {
    while (begun_ - done_ < batches_.count()) {
      const std::optional<Job> job = jobs_.next();
      if (!job) return;
      at(begun_++) = *job;
      receive(batches_.of(job->index), *job);
    }
  }
  bool empty() const { return begun_ == done_; }
  const Job& front() { return at(done_); }
  Batch& front_batch() { return batches_.of(done_); }
  void pop() { ++done_; }

 private:
  Job& at(std::int64_t index) { return ring_[static_cast<std::size_t>(index % kTakesAhead)]; }

  Jobs jobs_;
  Batches<kTakesAhead> batches_;
  std::array<Job, kTakesAhead> ring_;
  std::int64_t begun_ = 0, done_ = 0;
};

class Adder {
 public:
  Adder(Operation& operation, Sums& sums, const SliceSum& sum)
      : operation_(operation),
        steps_(sums.steps),
        sum_(sum),
        dtype_(operation.call().dtype),
        partial_(partial_dtype(dtype_)),
        memory_(steps_.tree(), steps_.has_adders(), widening_of(dtype_)),
        chunk_(memory_.chunk(sum.parts.bytes(0))),
        terms_(static_cast<std::size_t>(steps_.tree().levels()), 0) {}

  std::int64_t scratch_bytes() const { return memory_.bytes(chunk_); }
  void set_scratch(std::byte* scratch) { scratch_ = scratch; }
  std::int64_t chunk() const { return chunk_; }
  std::int64_t chunks() const { return (sum_.parts.bytes(0) + chunk_ - 1) / chunk_; }
  int takes_ahead() const { return memory_.takes_ahead(); }
  int adds_ahead() const { return steps_.has_adders() ? kAddsAhead : 0; }
  int sums_sent() const { return steps_.has_adders() ? kSentSums : 0; }

  // The blocks of this rank's slice, in the order of steps.
  Jobs takes() const {
    std::vector<Job> jobs;
    for (int step = 0; step < steps_.steps(); ++step) {
      const int block = steps_.taken_by(own_block(), step);
      if (block >= 0) jobs.push_back({.step = step, .block = block, .member = rank()});
    }
    return {std::move(jobs), sum_.parts, chunk_};
  }
  // This rank's block for slices of others.
  Jobs adds() const {
    std::vector<Job> jobs;
    if (steps_.has_adders()) {
      for_takers([&](int step, int member) {
        if (steps_.adder(own_block(), member) != rank()) return;
        jobs.push_back({.step = step, .block = own_block(), .member = member});
      });
    }
    return {std::move(jobs), sum_.parts, chunk_};
  }

  // This rank's data, in the order in which it is taken.
  void send_data(Batch& batch, std::int64_t chunk) const {
    const std::int64_t begin = chunk * chunk_;
    for_takers([&](int /*step*/, int member) {
      const std::int64_t bytes = std::min(chunk_, sum_.parts.bytes(member) - begin);
      const int adder = steps_.adder(own_block(), member);
      if (member == rank() || adder == rank() || bytes <= 0) return;
      batch.send(adder < 0 ? member : adder, adder < 0 ? Lane::kData : Lane::kBlockData,
                 sum_.input + sum_.parts.begin(member) + begin, unsigned_of(bytes));
    });
  }

  void receive_taken(Batch& batch, const Job& job) const {
    const int adder = steps_.adder(job.block, rank());
    if (adder >= 0) {
      batch.receive(adder, Lane::kBlockSum, at(memory_.taken(job.index, 0)),
                    unsigned_of(partial_bytes(job)));
      return;
    }
    for_others(job.block, [&](int member, int place) {
      batch.receive(member, Lane::kData, at(memory_.taken(job.index, place)),
                    unsigned_of(job.bytes));
    });
  }
  void receive_added(Batch& batch, const Job& job) const {
    for_others(job.block, [&](int member, int place) {
      batch.receive(member, Lane::kBlockData, at(memory_.added(job.index, place)),
                    unsigned_of(job.bytes));
    });
  }

  void add_for_another(int threads, const Job& job) const {
    const auto sources =
        block_sources(job, [&](int place) { return at(memory_.added(job.index, place)); });
    reduce_by_team(threads, terms(dtype_, partial_), sources, at(memory_.sent(job.index)),
                   count(job));
  }
  void send_sum(Batch& batch, const Job& job) const {
    batch.send(job.member, Lane::kBlockSum, at(memory_.sent(job.index)),
               unsigned_of(partial_bytes(job)));
  }

  // A block of this rank's slice: its sum, and then those of the nodes that become complete.
  void add_taken(int threads, const Job& job) {
    const SumTree& tree = steps_.tree();
    std::byte* const output = sum_.output + job.begin;
    const auto taken = [&](int place) { return at(memory_.taken(job.index, place)); };
    const bool comes_added = steps_.adder(job.block, rank()) >= 0;
    const std::vector<const std::byte*> sources =
        comes_added ? std::vector<const std::byte*>{taken(0)} : block_sources(job, taken);
    if (tree.levels() == 1) {
      reduce_by_team(threads, terms(dtype_, dtype_), sources, output, count(job));
      return;
    }
    reduce_by_team(threads, terms(comes_added ? partial_ : dtype_, partial_), sources,
                   waiting(1, job.block), count(job));
    for (int level = 1, node = job.block; level < tree.levels(); ++level) {
      const int parent = node / tree.block();
      const int expected = tree.terms(level + 1, parent);
      int& come = terms_[static_cast<std::size_t>(level)];
      if (++come < expected) return;
      come = 0;
      std::vector<const std::byte*> below;
      for (int i = 0; i < expected; ++i) below.push_back(waiting(level, tree.first(parent) + i));
      const bool is_all = level + 1 == tree.levels();
      reduce_by_team(threads, terms(partial_, is_all ? dtype_ : partial_), below,
                     is_all ? output : waiting(level + 1, parent), count(job));
      node = parent;
    }
  }

 private:
  int rank() const { return operation_.rank(); }
  int own_block() const { return steps_.block_of(rank()); }
  std::int64_t count(const Job& job) const { return job.bytes / size_of(dtype_); }
  std::int64_t partial_bytes(const Job& job) const { return count(job) * size_of(partial_); }
  std::byte* at(std::int64_t chunks) const { return scratch_ + chunks * chunk_; }
  std::byte* waiting(int level, int node) const { return at(memory_.sum(level, node)); }
  Terms terms(DType from, DType to) const {
    return {.from = from,
            .to = to,
            .reduction = operation_.call().reduction,
            .block = steps_.tree().block()};
  }

  // f(step, member) for all that take the data of this rank's block, in their order.
  template <typename F>
  void for_takers(const F& f) const {
    for (int step = 0; step < steps_.steps(); ++step) {
      const int taker = steps_.taker_of(own_block(), step);
      for (int i = 0; taker >= 0 && i < steps_.size(taker); ++i) f(step, steps_.first(taker) + i);
    }
  }
  // f(member, place) for all other members of a block.
  template <typename F>
  void for_others(int block, const F& f) const {
    for (int i = 0, place = 0; i < steps_.size(block); ++i) {
      const int member = steps_.first(block) + i;
      if (member != rank()) f(member, place++);
    }
  }
  // A block's data from left to right; this rank's own where it is.
  template <typename F>
  std::vector<const std::byte*> block_sources(const Job& job, const F& data_at) const {
    std::vector<const std::byte*> sources;
    for_others(job.block, [&](int /*member*/, int place) { sources.push_back(data_at(place)); });
    if (job.block == own_block()) {
      sources.insert(sources.begin() + (rank() - steps_.first(job.block)),
                     sum_.input + sum_.parts.begin(job.member) + job.begin);
    }
    return sources;
  }

  Operation& operation_;
  const SumSteps& steps_;
  SliceSum sum_;
  DType dtype_, partial_;
  Memory memory_;
  std::int64_t chunk_;
  std::byte* scratch_ = nullptr;
  std::vector<int> terms_;  // that have come of the node that is being added, by level
};

bool is_not_after(const Job& a, const Job& b) {
  return std::pair(a.begin, a.step) <= std::pair(b.begin, b.step);
}

}  // namespace

std::int64_t most_slice_sum_bytes(const SumTree& tree, bool has_adders) {
  if (tree.values() == 1) return 0;
  std::int64_t most = 0;
  for (const int widening : {1, 2}) {
    const Memory memory(tree, has_adders, widening);
    most = std::max(most, memory.bytes(memory.chunk(kMostChunk)));
  }
  return most;
}

// In every step a rank first adds for others what they take in this step, and then takes its own.
// All ranks do so in the order of chunks and steps, and the receive of what is taken is begun
// before. So whoever has come furthest waits for no rank that waits for it.
Task add_slices(Operation& operation, Sums& sums, const SliceSum& sum) {
  Adder adder(operation, sums, sum);
  ScratchLease scratch(operation, sums.scratch, adder.scratch_bytes());
  co_await scratch;
  adder.set_scratch(scratch.data());
  Pipeline takes(operation, adder.takes(), adder.takes_ahead());
  Pipeline adds(operation, adder.adds(), adder.adds_ahead());
  Batches<kSentChunks> data(operation, std::min<std::int64_t>(kSentChunks, adder.chunks()));
  Batches<kSentSums> sent(operation, adder.sums_sent());
  std::int64_t chunks_sent = 0;
  for (;;) {
    takes.begin([&](Batch& batch, const Job& job) { adder.receive_taken(batch, job); });
    adds.begin([&](Batch& batch, const Job& job) { adder.receive_added(batch, job); });
    const bool is_over = takes.empty() && adds.empty();
    const bool is_add =
        !adds.empty() && (takes.empty() || is_not_after(adds.front(), takes.front()));
    // A rank without jobs still sends all its data.
    std::int64_t until = adder.chunks();
    if (!is_over) {
      const Job& next = is_add ? adds.front() : takes.front();
      until = std::min(until, next.begin / adder.chunk() + kSentChunks);
    }
    for (; chunks_sent < until; ++chunks_sent) {
      Batch& batch = data.of(chunks_sent);
      co_await batch;
      adder.send_data(batch, chunks_sent);
    }
    if (is_over) break;
    if (is_add) {
      const Job job = adds.front();
      Batch& came = adds.front_batch();
      co_await came;
      Batch& batch = sent.of(job.index);
      co_await batch;  // the memory is free
      auto work = [&](int threads) { adder.add_for_another(threads, job); };
      auto computed = operation.engine().compute(work);
      co_await computed;
      adder.send_sum(batch, job);
      adds.pop();
    } else {
      const Job job = takes.front();
      Batch& came = takes.front_batch();
      co_await came;
      auto work = [&](int threads) { adder.add_taken(threads, job); };
      auto computed = operation.engine().compute(work);
      co_await computed;
      takes.pop();
    }
  }
  for (std::int64_t i = 0; i < data.count(); ++i) {
    Batch& batch = data.of(i);
    co_await batch;
  }
  for (std::int64_t i = 0; i < sent.count(); ++i) {
    Batch& batch = sent.of(i);
    co_await batch;
  }
}

}  // namespace phalanx::ucx
