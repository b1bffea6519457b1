#include "phalanx/saving/state_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/saving/load_plan.h"
#include "phalanx/saving/load_targets.h"
#include "phalanx/saving/rank_numbers.h"

namespace phalanx {
namespace {

constexpr std::uint64_t kKey = message_key(MessageKind::kOther, 0, 0);
constexpr std::size_t kNumbersPerBox = 5;

std::vector<std::vector<NeededBox>> gather_needs(Rank& rank, const std::vector<NeededBox>& mine) {
  std::vector<std::int64_t> numbers;
  for (const auto& [parameter, box] : mine) {
    numbers.insert(numbers.end(), {parameter, box.row, box.column, box.rows, box.columns});
  }
  std::vector<std::vector<NeededBox>> needs;
  for (const auto& all : gather_numbers(rank, numbers)) {
    auto& of_rank = needs.emplace_back();
    for (std::size_t n = 0; n < all.size(); n += kNumbersPerBox) {
      of_rank.push_back(
          {static_cast<int>(all[n]), {all[n + 1], all[n + 2], all[n + 3], all[n + 4]}});
    }
  }
  return needs;
}

// Copies a part of a piece that lies row-major in a chunk.
void pack(const StoredChunk::Piece& piece, const MatrixBox& cut, std::span<const std::byte> chunk,
          std::byte* to) {
  const std::int64_t size = size_of(piece.entry->dtype);
  const std::int64_t rows_at_once = cut.columns == piece.box.columns ? cut.rows : 1;
  const std::int64_t bytes = rows_at_once * cut.columns * size;
  for (std::int64_t row = cut.row; row < cut.row + cut.rows; row += rows_at_once) {
    const std::int64_t element =
        (row - piece.box.row) * piece.box.columns + cut.column - piece.box.column;
    std::memcpy(to, chunk.data() + piece.offset + element * size, static_cast<std::size_t>(bytes));
    to += bytes;
  }
}

// The rounds of one rank.
class Loading {
 public:
  Loading(const CheckpointReader& reader, Rank& rank, LoadTargets& targets, LoadPlan plan)
      : reader_(reader.chunk_reader()),
        world_(*rank.ranks().control),
        context_(rank.host_context()),
        targets_(targets),
        plan_(std::move(plan)),
        arena_("loading", plan_.largest_chunk + plan_.largest_sent + plan_.largest_received +
                              3 * kArenaAlignment),
        chunk_(arena_.allocate(DType::kU8, {plan_.largest_chunk})),
        sent_(arena_.allocate(DType::kU8, {plan_.largest_sent})),
        received_(arena_.allocate(DType::kU8, {plan_.largest_received})) {}

  void run() {
    const std::size_t rounds = std::max(plan_.reads.size(), plan_.receipts.size());
    for (std::size_t round = 0; round < rounds; ++round) {
      if (round < plan_.reads.size()) read(plan_.reads[round]);
      if (round < plan_.receipts.size()) {
        for (const LoadPlan::Receipt& receipt : plan_.receipts[round]) receive(receipt);
      }
      for (const Work& send : sends_) send.wait(context_.queue);
      sends_.clear();
    }
  }

  std::int64_t bytes_read() const { return reader_->bytes_read(); }
  std::int64_t bytes_sent() const { return bytes_sent_; }
  const std::string& fault() const { return fault_; }

 private:
  // A rank that has found damage sends on, so that nobody waits for it. What it sends is not used.
  void read(const LoadPlan::Read& read) {
    const std::span bytes(chunk_.data(), static_cast<std::size_t>(read.chunk->bytes));
    if (fault_.empty()) {
      try {
        reader_->read(*read.chunk, bytes);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::kInternal) throw;
        fault_ = error.what();
      }
    }
    std::int64_t end = 0;
    for (const LoadPlan::Share& share : read.shares) {
      bool is_packed = false;
      for (const int peer : share.ranks) {
        if (peer == world_.rank()) {
          fill(*read.chunk, share.cuts, bytes);
          continue;
        }
        const Tensor message = sent_.slice(0, end, share.bytes);
        if (!is_packed) pack_all(*read.chunk, share.cuts, bytes, message.data());
        is_packed = true;
        sends_.push_back(world_.send(context_, message, peer, kKey));
        bytes_sent_ += share.bytes;
      }
      if (is_packed) end += share.bytes;
    }
  }

  static void pack_all(const StoredChunk& chunk, const std::vector<ChunkCut>& cuts,
                       std::span<const std::byte> bytes, std::byte* to) {
    for (const auto& [number, box] : cuts) {
      const StoredChunk::Piece& piece = chunk.pieces[number];
      pack(piece, box, bytes, to);
      to += box.count() * size_of(piece.entry->dtype);
    }
  }

  void fill(const StoredChunk& chunk, const std::vector<ChunkCut>& cuts,
            std::span<const std::byte> bytes) {
    for (const auto& [number, box] : cuts) {
      const StoredChunk::Piece& piece = chunk.pieces[number];
      const auto size = static_cast<std::size_t>(box.count() * size_of(piece.entry->dtype));
      if (box == piece.box) {
        targets_.fill(*piece.entry, box,
                      bytes.subspan(static_cast<std::size_t>(piece.offset), size));
        continue;
      }
      cut_.resize(size);
      pack(piece, box, bytes, cut_.data());
      targets_.fill(*piece.entry, box, cut_);
    }
  }

  void receive(const LoadPlan::Receipt& receipt) {
    const Tensor message = received_.slice(0, 0, receipt.bytes);
    world_.receive(context_, message, receipt.from, kKey).wait(context_.queue);
    const std::byte* from = message.data();
    for (const auto& [number, box] : receipt.cuts) {
      const Manifest::Entry& entry = *receipt.chunk->pieces[number].entry;
      const auto size = static_cast<std::size_t>(box.count() * size_of(entry.dtype));
      targets_.fill(entry, box, {from, size});
      from += size;
    }
  }

  std::unique_ptr<ChunkReader> reader_;
  Communicator& world_;
  Context& context_;
  LoadTargets& targets_;
  LoadPlan plan_;
  Arena arena_;
  Tensor chunk_, sent_, received_;
  std::vector<Work> sends_;
  std::vector<std::byte> cut_;
  std::int64_t bytes_sent_ = 0;
  std::string fault_;
};

}  // namespace

LoadFacts load_states(const CheckpointReader& reader, Rank& rank, const LoadOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const int number = rank.ranks().world->rank();
  LoadTargets targets(reader, rank, options);
  std::vector<std::vector<NeededBox>> needs(static_cast<std::size_t>(rank.ranks().world->size()));
  if (options.in_shares) {
    needs = gather_needs(rank, targets.needs());
  } else {
    needs[static_cast<std::size_t>(number)] = targets.needs();
  }
  const std::vector<StoredUnit> units = reader.units(targets.wanted());
  Loading loading(
      reader, rank, targets,
      load_plan(
          units, [&](const auto& entry) { return targets.parameter_of(entry); }, needs, number));
  loading.run();
  targets.finish();
  LoadFacts facts;
  const std::vector<std::int64_t> mine = {loading.fault().empty() ? 0 : 1, loading.bytes_read(),
                                          loading.bytes_sent()};
  bool has_fault = false;
  for (const auto& of_rank : gather_numbers(rank, mine)) {
    has_fault = has_fault || of_rank[0] != 0;
    facts.bytes_read += of_rank[1];
    facts.bytes_sent += of_rank[2];
  }
  if (has_fault) {
    const std::vector<std::string> faults = gather_texts(rank, loading.fault());
    const auto first = std::ranges::find_if(faults, [](const auto& f) { return !f.empty(); });
    facts.fault = fmt::format("{} (found by rank {})", *first, first - faults.begin());
    return facts;
  }
  rank.states().data_parallel().gather_loaded(rank.context());
  facts.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return facts;
}

}  // namespace phalanx
