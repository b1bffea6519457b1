#include "phalanx/pipeline/message_links.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

std::size_t index(int value) { return static_cast<std::size_t>(value); }

// The payloads that a pass reads from other stages, or makes for them.
std::optional<Payload> payload_of(const Action& pass) {
  if (pass.kind == ActionKind::kForward) return Payload::kActivation;
  if (makes_input_gradient(pass.kind)) return Payload::kGradient;
  return std::nullopt;
}

// A number for each (payload, chunk, microbatch) of a program.
class PayloadTable {
 public:
  explicit PayloadTable(const Program& program)
      : chunks_(program.chunks),
        microbatches_(program.microbatches),
        values_(2 * index(chunks_) * index(microbatches_), kNoLink) {}

  int& at(Payload payload, const Action& action) {
    PHALANX_CHECK(action.chunk >= 0 && action.chunk < chunks_ && action.microbatch >= 0 &&
                      action.microbatch < microbatches_,
                  "{} is outside its program", to_string(action));
    const int plane = static_cast<int>(payload) * chunks_ + action.chunk;
    return values_[index(plane) * index(microbatches_) + index(action.microbatch)];
  }

 private:
  int chunks_;
  int microbatches_;
  std::vector<int> values_;
};

// Links within one program.
std::optional<std::string> link_program(const Program& program, std::size_t rank,
                                        std::vector<int>& links) {
  PayloadTable receives(program);
  PayloadTable sends(program);
  PayloadTable passes(program);
  const auto fault = [&](const Action& action, std::string_view why) {
    return fmt::format("r{}: {} {}", rank, to_string(action), why);
  };
  for (std::size_t i = 0; i < program.actions.size(); ++i) {
    const Action& action = program.actions[i];
    const int place = static_cast<int>(i);
    if (is_pass(action.kind)) {
      const std::optional<Payload> payload = payload_of(action);
      if (!payload) continue;
      links[i] = receives.at(*payload, action);
      passes.at(*payload, action) = place;
    } else if (action.kind == ActionKind::kReceive) {
      if (passes.at(action.payload, action) != kNoLink) {
        return fault(action, "comes behind the pass that reads it");
      }
      if (receives.at(action.payload, action) != kNoLink) return fault(action, "comes twice");
      receives.at(action.payload, action) = place;
    } else if (action.kind == ActionKind::kSend) {
      if (passes.at(action.payload, action) == kNoLink) {
        return fault(action, "comes before the pass that makes it");
      }
      sends.at(action.payload, action) = place;
    } else if (action.kind == ActionKind::kAwaitSend) {
      links[i] = sends.at(action.payload, action);
      if (links[i] == kNoLink) return fault(action, "is awaited before it is sent");
    }
  }
  return std::nullopt;
}

// The ends of the messages from one rank to another: their places in the two lists.
struct Channel {
  std::vector<int> sends;
  std::vector<int> receives;
};
using Channels = std::map<std::pair<int, int>, Channel>;  // by (source, destination)

Channels channels_of(std::span<const Program> programs) {
  Channels channels;
  // The channels of one rank, to and from its few peers.
  std::vector<std::pair<int, Channel*>> to;
  std::vector<std::pair<int, Channel*>> from;
  const auto find = [&](auto& known, int peer, const std::pair<int, int>& ends) -> Channel& {
    for (const auto& [other, channel] : known) {
      if (other == peer) return *channel;
    }
    return *known.emplace_back(peer, &channels[ends]).second;
  };
  for (int rank = 0; rank < static_cast<int>(programs.size()); ++rank) {
    to.clear();
    from.clear();
    int place = 0;
    for (const Action& action : programs[index(rank)].actions) {
      const int peer = action.peer;
      if (action.kind == ActionKind::kSend) {
        find(to, peer, {rank, peer}).sends.push_back(place);
      } else if (action.kind == ActionKind::kReceive) {
        find(from, peer, {peer, rank}).receives.push_back(place);
      }
      ++place;
    }
  }
  return channels;
}

bool same_message(const Action& sent, const Action& received) {
  return std::tie(sent.payload, sent.source_stage, sent.microbatch) ==
         std::tie(received.payload, received.source_stage, received.microbatch);
}

std::string name_of_message(const Action* end) {
  if (end == nullptr) return "nothing";
  return fmt::format("{} {} of stage {}", name_of(end->payload), end->microbatch,
                     end->source_stage);
}

// Links between programs: the k-th message sent over a channel is the k-th received.
std::optional<std::string> link_channels(std::span<const Program> programs, MessageLinks& links) {
  for (const auto& [ends, channel] : channels_of(programs)) {
    const auto [source, destination] = ends;
    const auto end = [&](int rank, const std::vector<int>& places, std::size_t k) {
      return k < places.size() ? &programs[index(rank)].actions[index(places[k])] : nullptr;
    };
    for (std::size_t k = 0; k < std::max(channel.sends.size(), channel.receives.size()); ++k) {
      const Action* sent = end(source, channel.sends, k);
      const Action* received = end(destination, channel.receives, k);
      if (sent == nullptr || received == nullptr || !same_message(*sent, *received)) {
        return fmt::format("message {} from rank {} to rank {}: {} is sent, {} is expected", k,
                           source, destination, name_of_message(sent), name_of_message(received));
      }
      links[index(source)][index(channel.sends[k])] = channel.receives[k];
      links[index(destination)][index(channel.receives[k])] = channel.sends[k];
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> link_messages(std::span<const Program> programs, MessageLinks& links) {
  links.clear();
  for (std::size_t rank = 0; rank < programs.size(); ++rank) {
    links.emplace_back(programs[rank].actions.size(), kNoLink);
    if (auto fault = link_program(programs[rank], rank, links.back())) return fault;
  }
  return link_channels(programs, links);
}

}  // namespace phalanx
