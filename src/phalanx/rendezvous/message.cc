#include "phalanx/rendezvous/message.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "phalanx/base/error.h"
#include "phalanx/rendezvous/heartbeat_code.h"
#include "phalanx/rendezvous/place_list.h"
#include "phalanx/rendezvous/wire.h"

namespace phalanx::rendezvous {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestText = 4096;  // within the JSON object

// Bytes that are not UTF-8 (a host's name, a path in a reason) become U+FFFD.
std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string cut(const std::string& text) { return text.substr(0, kLongestText); }

// ---- writing

struct Writer {
  json header;
  std::string texts{};

  void operator()(const JoinRequest& join) {
    header = {{"type", "join"},
              {"world_size", join.world_size},
              {"node", join.node},
              {"local_rank", join.local_rank},
              {"local_size", join.local_size},
              {"pid", join.pid},
              {"host_name", cut(join.host_name)},
              {"machine", cut(join.machine)},
              {"session", cut(join.session)},
              {"heard", join.last_received}};
  }
  void operator()(const RoundPart& part) {
    header = {{"type", "part"}, {"round", part.round}, {"kind", static_cast<int>(part.kind)}};
    texts = part.text;
  }
  void operator()(const Heartbeat&) {}  // is not JSON
  void operator()(const Failing& failing) {
    header = {{"type", "failing"}, {"reason", cut(failing.reason)}};
  }
  void operator()(const Goodbye&) { header = {{"type", "goodbye"}}; }
  void operator()(const Refusal& refusal) {
    header = {{"type", "refusal"},
              {"code", static_cast<int>(refusal.code)},
              {"later", refusal.later},
              {"text", cut(refusal.text)}};
  }
  void operator()(const Welcome& welcome) {
    header = {{"type", "welcome"},
              {"coordinator", cut(welcome.coordinator)},
              {"hosted_by", welcome.coordinator_rank}};
    texts = welcome.places.text();
  }
  void operator()(const RoundResult& result) {
    json runs = json::array();
    for (const RoundResult::Run& run : result.runs) {
      runs.push_back({run.first, run.count, run.text.size()});
      texts += run.text;
    }
    header = {{"type", "result"},
              {"round", result.round},
              {"kind", static_cast<int>(result.kind)},
              {"runs", std::move(runs)}};
  }
  void operator()(const Ping& ping) {
    header = {{"type", "ping"},
              {"waiting", cut(ping.waiting)},
              {"busy", cut(ping.busy)},
              {"silence_ms", ping.silence.count()}};
  }
  void operator()(const Failed& failed) {
    header = {{"type", "failed"},
              {"rank", failed.failure.rank},
              {"code", static_cast<int>(failed.failure.code)},
              {"reason", cut(failed.failure.reason)},
              {"of_own_group", failed.of_own_group}};
  }
  void operator()(const GoodbyeConfirmed&) { header = {{"type", "goodbye_heard"}}; }
  void operator()(const MailPart& part) {
    header = {{"type", "post"}, {"name", cut(part.name)}, {"total", part.total}};
    texts = part.text;
  }
  void operator()(const MailRequest& request) {
    header = {{"type", "read"}, {"name", cut(request.name)}, {"take", request.take}};
  }
  void operator()(const Mail& mail) {
    header = {{"type", "mail"}, {"name", cut(mail.name)}, {"kind", static_cast<int>(mail.kind)}};
    texts = mail.text;
  }
};

// ---- reading

constexpr std::int64_t kMostInt = std::numeric_limits<std::int32_t>::max();

[[noreturn]] void refuse(const char* what) {
  throw UnavailableError("a control message that cannot be read: {}", what);
}

const json& field(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) refuse(key);
  return *found;
}

std::int64_t integer(const json& value, std::int64_t low, std::int64_t high, const char* what) {
  if (!value.is_number_integer()) refuse(what);
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
    refuse(what);
  }
  const auto number = value.get<std::int64_t>();
  if (number < low || number > high) refuse(what);
  return number;
}
std::int64_t integer(const json& object, const char* key, std::int64_t low, std::int64_t high) {
  return integer(field(object, key), low, high, key);
}
int small(const json& object, const char* key, std::int64_t low) {
  return static_cast<int>(integer(object, key, low, kMostInt));
}

std::string text(const json& value, const char* what) {
  // dump() makes three bytes of each one that is not UTF-8.
  if (!value.is_string() || value.get_ref<const std::string&>().size() > 3 * kLongestText) {
    refuse(what);
  }
  return value.get<std::string>();
}
std::string text_field(const json& object, const char* key) {
  return text(field(object, key), key);
}

bool truth(const json& object, const char* key) {
  const json& value = field(object, key);
  if (!value.is_boolean()) refuse(key);
  return value.get<bool>();
}

ErrorCode code(const json& object) {
  const std::int64_t number = integer(object, "code", 1, 255);
  for (const ErrorCode known :
       {ErrorCode::kUsage, ErrorCode::kBadData, ErrorCode::kInputMissing, ErrorCode::kUnavailable,
        ErrorCode::kInternal, ErrorCode::kSystem, ErrorCode::kCannotCreate, ErrorCode::kIo,
        ErrorCode::kTemporary, ErrorCode::kNotPermitted, ErrorCode::kConfiguration,
        ErrorCode::kPreempted, ErrorCode::kDoNotRestart, ErrorCode::kHang}) {
    if (static_cast<std::int64_t>(known) == number) return known;
  }
  refuse("code");
}

constexpr std::int64_t kMostNumber = std::numeric_limits<std::int64_t>::max();

JoinRequest read_join(const json& header) {
  return {small(header, "world_size", 1),
          small(header, "node", 0),
          small(header, "local_rank", 0),
          small(header, "local_size", 1),
          small(header, "pid", 0),
          text_field(header, "host_name"),
          text_field(header, "machine"),
          text_field(header, "session"),
          static_cast<std::uint64_t>(integer(header, "heard", 0, kMostNumber))};
}

RoundPart read_part(const json& header, std::string_view texts) {
  const auto kind = static_cast<RoundKind>(integer(header, "kind", 0, 1));
  if (texts.size() > (kind == RoundKind::kGather ? kLongestGathered : kLongestBroadcast)) {
    refuse("a text that is too long");
  }
  return {integer(header, "round", 0, kMostNumber), kind, std::string(texts)};
}

Welcome read_welcome(const json& header, std::string_view texts) {
  return {text_field(header, "coordinator"), small(header, "hosted_by", -1),
          PlaceList::read(std::string(texts))};
}

RoundResult read_result(const json& header, std::string_view texts) {
  RoundResult result;
  result.round = integer(header, "round", 0, kMostNumber);
  result.kind = static_cast<RoundKind>(integer(header, "kind", 0, 1));
  const json& runs = field(header, "runs");
  if (!runs.is_array()) refuse("runs");
  std::int64_t end = 0;
  for (const json& run : runs) {
    if (!run.is_array() || run.size() != 3) refuse("runs");
    const std::int64_t first = integer(run[0], end, kMostInt, "runs");
    const std::int64_t count = integer(run[1], 1, kMostInt - first, "runs");
    const auto bytes = static_cast<std::size_t>(
        integer(run[2], 0, static_cast<std::int64_t>(texts.size()), "runs"));
    end = first + count;
    result.runs.push_back(
        {static_cast<int>(first), static_cast<int>(count), std::string(texts.substr(0, bytes))});
    texts.remove_prefix(bytes);
  }
  if (!texts.empty()) refuse("runs");
  return result;
}

std::string mail_name(const json& header) {
  std::string name = text_field(header, "name");
  if (name.empty() || name.size() > kLongestMailName) refuse("name");
  return name;
}

MailPart read_mail_part(const json& header, std::string_view texts) {
  if (texts.size() > kLongestMailPart) refuse("a text that is too long");
  return {mail_name(header),
          static_cast<std::uint64_t>(integer(header, "total", 0, std::int64_t{kLongestMail})),
          std::string(texts)};
}

Mail read_mail(const json& header, std::string_view texts) {
  if (texts.size() > kLongestMail) refuse("a text that is too long");
  constexpr auto kLast = static_cast<std::int64_t>(Mail::Kind::kNotThere);
  return {mail_name(header), static_cast<Mail::Kind>(integer(header, "kind", 0, kLast)),
          std::string(texts)};
}

}  // namespace

std::string encode(const ControlMessage& message) {
  if (const auto* heartbeat = std::get_if<Heartbeat>(&message)) {
    std::string bytes(4, '\0');
    append_heartbeat(bytes, *heartbeat);
    return bytes;
  }
  Writer writer;
  std::visit(writer, message);
  const std::string header = dump(writer.header);
  std::string bytes;
  bytes.reserve(4 + header.size() + writer.texts.size());
  append_number(bytes, header.size(), 4);
  return bytes.append(header).append(writer.texts);
}

ControlMessage decode(std::string_view bytes) {
  if (bytes.size() < 4) refuse("it ends early");
  const std::size_t size = read_number(bytes, 0, 4);
  if (size == 0) return read_heartbeat(bytes.substr(4));
  if (size > bytes.size() - 4) refuse("it ends early");
  const json header = json::parse(bytes.substr(4, size), nullptr, false);
  if (!header.is_object()) refuse("not JSON");
  const std::string_view texts = bytes.substr(4 + size);
  const std::string type = text_field(header, "type");
  if (type == "join") return read_join(header);
  if (type == "part") return read_part(header, texts);
  if (type == "failing") return Failing{text_field(header, "reason")};
  if (type == "goodbye") return Goodbye{};
  if (type == "refusal")
    return Refusal{code(header), truth(header, "later"), text_field(header, "text")};
  if (type == "welcome") return read_welcome(header, texts);
  if (type == "result") return read_result(header, texts);
  if (type == "ping") {
    return Ping{text_field(header, "waiting"), text_field(header, "busy"),
                std::chrono::milliseconds(integer(header, "silence_ms", 0, kMostInt))};
  }
  if (type == "failed") {
    return Failed{{small(header, "rank", -1), code(header), text_field(header, "reason")},
                  truth(header, "of_own_group")};
  }
  if (type == "goodbye_heard") return GoodbyeConfirmed{};
  if (type == "post") return read_mail_part(header, texts);
  if (type == "read") return MailRequest{mail_name(header), truth(header, "take")};
  if (type == "mail") return read_mail(header, texts);
  refuse("of no known type");
}

}  // namespace phalanx::rendezvous
