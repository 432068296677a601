// SPDX-License-Identifier: Apache-2.0
#include "refract/object/calls/object_calls.h"

#include <algorithm>
#include <utility>

#include "refract/base/check.h"
#include "refract/kv/layout/wire.h"
#include "refract/object/calls/call_front.h"
#include "refract/object/calls/piece_traffic.h"

namespace refract::object {

using kv::wire::take;
using runtime::OpResult;
using runtime::Task;
using wire::Method;

namespace {

constexpr size_t kBodyBytesMin = 1024;
constexpr uint64_t kPauseMin_ns = 50 * kMicrosecond_ns;
constexpr uint64_t kPauseMax_ns = 10 * kMillisecond_ns;
constexpr int kLossesMax = 3;  // Of what the owner held for a fetch.
// No object of a sound answer is longer: its parts are added up below.
constexpr uint64_t kSoundBytesMax = uint64_t{1} << 48;

[[nodiscard]] bool is_sound(const wire::ObjectReply& object) noexcept {
  return object.birth != 0 && object.body_bytes <= kSoundBytesMax &&
         object.metadata_bytes <= kMetadataBytesMax;
}

[[nodiscard]] ObjectParts parts_of(const wire::ObjectReply& object, size_t id_bytes) noexcept {
  return {.body_bytes = object.body_bytes,
          .metadata_bytes = object.metadata_bytes,
          .id_bytes = static_cast<uint16_t>(id_bytes)};
}

[[nodiscard]] std::string text_of(std::span<const std::byte> bytes) {
  std::string text(bytes.size(), '\0');
  if (!bytes.empty()) copy_possibly_torn(text.data(), bytes.data(), bytes.size());
  return text;
}

// Names to the end, each behind its length.
[[nodiscard]] bool take_names(std::span<const std::byte> bytes, std::vector<std::string>& names) {
  while (!bytes.empty()) {
    const auto length = static_cast<size_t>(bytes.front());
    bytes = bytes.subspan(1);
    if (length == 0 || length > bytes.size()) return false;
    names.push_back(text_of(bytes.first(length)));
    bytes = bytes.subspan(length);
  }
  return true;
}

// The answer of rank about so many ids.
[[nodiscard]] bool take_ranked(std::span<const std::byte> bytes, size_t ids, ObjectAnswers::Ranked& ranked) {
  const auto reply = take<wire::RankReply>(bytes);
  if (!reply || reply->ids != ids || reply->told > reply->nodes) return false;
  for (size_t i = 0; i < ids; ++i) {
    const auto code = take<uint16_t>(bytes);
    if (!code) return false;
    ranked.ids.push_back(code_from_wire(*code));
  }
  for (size_t i = 0; i < reply->told; ++i) {
    const auto node = take<wire::RankedNode>(bytes);
    if (!node || node->name_bytes == 0 || node->name_bytes > bytes.size()) return false;
    ranked.nodes.push_back(
        {.name = text_of(bytes.first(node->name_bytes)), .code = code_from_wire(node->code), .node = *node});
    bytes = bytes.subspan(node->name_bytes);
  }
  return bytes.empty();
}

// The answer of broadcast.
[[nodiscard]] bool take_broadcasted(std::span<const std::byte> bytes, ObjectAnswers::Broadcasted& done) {
  const auto reply = take<wire::BroadcastReply>(bytes);
  if (!reply || reply->told > reply->nodes || reply->missed > reply->nodes) return false;
  done = {.reply = *reply, .nodes = {}};
  for (size_t i = 0; i < reply->told; ++i) {
    const auto node = take<wire::BroadcastNode>(bytes);
    if (!node || node->name_bytes == 0 || node->name_bytes > bytes.size()) return false;
    done.nodes.push_back(
        {.name = text_of(bytes.first(node->name_bytes)), .code = code_from_wire(node->code)});
    bytes = bytes.subspan(node->name_bytes);
  }
  return bytes.empty();
}

// What follows `count` times: a struct, then an id.
template <typename Entry, typename Take>
[[nodiscard]] bool take_entries(std::span<const std::byte> bytes, uint32_t count, Take take_one) {
  for (uint32_t i = 0; i < count; ++i) {
    const auto entry = take<Entry>(bytes);
    if (!entry || entry->id_bytes == 0 || entry->id_bytes > std::min(kIdBytesMax, bytes.size())) return false;
    take_one(text_of(bytes.first(entry->id_bytes)), *entry);
    bytes = bytes.subspan(entry->id_bytes);
  }
  return bytes.empty();
}

}  // namespace

ObjectCalls::ObjectCalls(rpc::Session& session, runtime::Shard& shard, const ObjectCallsOptions& options)
    : session_(session), shard_(shard), options_(options), body_bytes_max_(session.payload_bytes_max()) {
  REFRACT_CHECK(body_bytes_max_ >= kBodyBytesMin);
}

uint64_t ObjectCalls::deadline_or_default(uint64_t deadline_ns) const noexcept {
  return deadline_ns != 0 ? deadline_ns : shard_.now_ns() + options_.timeout_ns;
}

// False: the session stays closed, or does not open in time.
Task<bool> ObjectCalls::is_open_again(uint64_t deadline_ns) {
  while (session_.state() != rpc::Session::State::kOpen) {
    if (session_.state() == rpc::Session::State::kClosed && !session_.reopens()) co_return false;
    if (options_.is_given_up && options_.is_given_up()) co_return false;
    if (shard_.now_ns() + kPauseMax_ns >= deadline_ns) co_return false;
    co_await shard_.sleep_for(kPauseMax_ns / 10);
  }
  co_return true;
}

Task<ObjectCalls::Answer> ObjectCalls::ask(Call call) {
  Answer answer;
  uint64_t pause_ns = kPauseMin_ns;
  for (;;) {
    answer.reply = co_await session_.call(
        {.method = static_cast<uint16_t>(call.method), .head = call.head, .tail = call.tail},
        call.deadline_ns);
    if (answer.reply.code == Code::kOverloaded) {
      if (shard_.now_ns() + pause_ns >= call.deadline_ns) co_return answer;
      co_await shard_.sleep_for(pause_ns);
      pause_ns = std::min(pause_ns * 2, kPauseMax_ns);
      continue;
    }
    const bool is_lost = !answer.is_answered() && answer.reply.code == Code::kIndeterminate;
    const bool is_unsent = !answer.is_answered() && answer.reply.code == Code::kUnavailable;
    if (answer.reply.code == Code::kAway && answer.is_answered()) {
      away_.clear();
      (void)take_names(answer.reply.bytes, away_);
    }
    if (!(is_lost && call.may_repeat) && !is_unsent) co_return answer;
    const bool is_open = co_await is_open_again(call.deadline_ns);
    if (!is_open) co_return answer;
    answer.was_lost |= is_lost;
  }
}

Code ObjectCalls::read_outcome(const Answer& answer) const noexcept {
  const Code code = answer.reply.code;
  if (answer.is_answered() || code != Code::kIndeterminate) return code;
  return session_.state() == rpc::Session::State::kClosed ? Code::kUnavailable : Code::kDeadlineExceeded;
}

Code ObjectCalls::write_outcome(const Answer& answer) noexcept {
  const Code code = answer.reply.code;
  if (!answer.was_lost) return code;
  // What ends it early says nothing of the attempt before.
  const bool is_open = !answer.is_answered() || code == Code::kOverloaded;
  return is_open ? Code::kIndeterminate : code;
}

void ObjectCalls::note_no_space(const Answer& answer) noexcept {
  if (answer.reply.code != Code::kNoSpace) return;
  std::span<const std::byte> bytes = answer.reply.bytes;
  no_space_ = take<wire::NoSpaceReply>(bytes);
}

Task<Result<wire::ObjectReply>> ObjectCalls::await(std::span<const std::byte> id, uint64_t timeout_ns,
                                                   uint64_t deadline_ns, CopyWish wish) {
  const wire::AwaitRequest request{.timeout_ns = timeout_ns,
                                   .id_bytes = static_cast<uint16_t>(id.size()),
                                   .transfer = wish.transfer,
                                   .flags = wish.flags,
                                   .reserved = {}};
  const CallFront front({bytes_of(request), id});
  const Answer answer = co_await ask({.method = Method::kAwait,
                                      .head = front.bytes(),
                                      .tail = {},
                                      .deadline_ns = deadline_or_default(deadline_ns)});
  if (answer.reply.code != Code::kOk) co_return fail(read_outcome(answer));
  std::span<const std::byte> bytes = answer.reply.bytes;
  const auto reply = take<wire::ObjectReply>(bytes);
  if (!reply || !is_sound(*reply)) co_return fail(Code::kMalformed);
  co_return *reply;
}

Task<Result<wire::ObjectReply>> ObjectCalls::fetch(std::span<const std::byte> id, uint64_t timeout_ns,
                                                   Room& room, uint64_t deadline_ns) {
  const wire::AwaitRequest request{.timeout_ns = timeout_ns,
                                   .id_bytes = static_cast<uint16_t>(id.size()),
                                   .transfer = 0,
                                   .flags = 0,
                                   .reserved = {}};
  const CallFront front({bytes_of(request), id});
  for (int losses = 0;; ++losses) {
    const Answer answer = co_await ask({.method = Method::kFetch,
                                        .head = front.bytes(),
                                        .tail = {},
                                        .deadline_ns = deadline_or_default(deadline_ns)});
    if (answer.reply.code != Code::kOk) co_return fail(read_outcome(answer));
    std::span<const std::byte> bytes = answer.reply.bytes;
    const auto reply = take<wire::FetchReply>(bytes);
    if (!reply || !is_sound(reply->object)) co_return fail(Code::kMalformed);
    const ObjectParts parts = parts_of(reply->object, id.size());
    const uint64_t filled_bytes = parts.filled_bytes();
    if (bytes.size() != (reply->fetch == 0 ? filled_bytes : 0)) co_return fail(Code::kMalformed);
    std::byte* const target = room.room(parts);
    if (reply->fetch == 0) {
      if (target == nullptr && filled_bytes > 0) co_return fail(Code::kTooLarge);
      if (filled_bytes > 0) copy_possibly_torn(target, bytes.data(), filled_bytes);
      co_return reply->object;
    }
    Code code = Code::kTooLarge;
    if (target != nullptr) code = co_await fetch_rest(*reply, {target, filled_bytes});
    const wire::FetchDoneRequest done{reply->fetch};
    const uint64_t call =
        session_.start({.method = static_cast<uint16_t>(Method::kFetchDone), .head = bytes_of(done)});
    // Its answer is of no interest; without a credit the session's end says the same.
    if (call != 0) (void)session_.finish(call);
    if (code == Code::kOk) co_return reply->object;
    if (code != Code::kAccessDenied || losses == kLossesMax) co_return fail(code);
    // The session that held it for us is gone.
  }
}

Task<Code> ObjectCalls::fetch_rest(const wire::FetchReply& reply, std::span<std::byte> target) {
  PieceTraffic traffic(session_, shard_, options_.timeout_ns);
  const Code code =
      co_await traffic.carry({.op = fabric::Op::kRead, .window = reply.window, .offset = 0, .local = target});
  co_return code;
}

Task<Result<ObjectCalls::Page>> ObjectCalls::list(uint64_t cursor, uint64_t deadline_ns) {
  const wire::ListRequest request{cursor};
  const Answer answer = co_await ask({.method = Method::kList,
                                      .head = bytes_of(request),
                                      .tail = {},
                                      .deadline_ns = deadline_or_default(deadline_ns)});
  if (answer.reply.code != Code::kOk) co_return fail(read_outcome(answer));
  std::span<const std::byte> bytes = answer.reply.bytes;
  const auto reply = take<wire::ListReply>(bytes);
  Page page;
  const bool is_whole = reply && take_entries<wire::ListedObject>(
                                     bytes, reply->count, [&](std::string&& id, const auto& object) {
                                       page.objects.push_back({.id = std::move(id), .object = object});
                                     });
  if (!is_whole) co_return fail(Code::kMalformed);
  page.next = reply->next;
  co_return std::move(page);
}

Task<Result<ObjectCalls::Notices>> ObjectCalls::notices(uint64_t cursor, uint64_t timeout_ns,
                                                        uint64_t deadline_ns) {
  const wire::NoticesRequest request{.cursor = cursor, .timeout_ns = timeout_ns};
  const Answer answer = co_await ask({.method = Method::kNotices,
                                      .head = bytes_of(request),
                                      .tail = {},
                                      .deadline_ns = deadline_or_default(deadline_ns)});
  if (answer.reply.code != Code::kOk) co_return fail(read_outcome(answer));
  std::span<const std::byte> bytes = answer.reply.bytes;
  const auto reply = take<wire::NoticesReply>(bytes);
  Notices notices;
  const bool is_whole =
      reply && reply->next != 0 &&
      take_entries<wire::Notice>(bytes, reply->count, [&](std::string&& id, const auto& notice) {
        notices.notices.push_back({.id = std::move(id), .notice = notice});
      });
  if (!is_whole) co_return fail(Code::kMalformed);
  notices.next = reply->next;
  notices.is_lost = reply->is_lost != 0;
  co_return std::move(notices);
}

Task<Result<wire::StatReply>> ObjectCalls::stat(uint64_t deadline_ns) {
  const Answer answer = co_await ask(
      {.method = Method::kStat, .head = {}, .tail = {}, .deadline_ns = deadline_or_default(deadline_ns)});
  if (answer.reply.code != Code::kOk) co_return fail(read_outcome(answer));
  std::span<const std::byte> bytes = answer.reply.bytes;
  const auto reply = take<wire::StatReply>(bytes);
  if (!reply) co_return fail(Code::kMalformed);
  co_return *reply;
}

Task<Result<ObjectCalls::Removed>> ObjectCalls::remove(std::span<const std::byte> id, uint64_t birth,
                                                       uint64_t deadline_ns) {
  const wire::IdRequest request{
      .birth = birth, .id_bytes = static_cast<uint16_t>(id.size()), .flag = 0, .reserved = {}};
  const CallFront front({bytes_of(request), id});
  // Of any birth: a second one might remove what was made meanwhile.
  const Answer answer = co_await ask({.method = Method::kDelete,
                                      .head = front.bytes(),
                                      .tail = {},
                                      .deadline_ns = deadline_or_default(deadline_ns),
                                      .may_repeat = birth != 0});
  const Code code = write_outcome(answer);
  // It is gone, perhaps by the attempt that was lost.
  const bool is_gone = code == Code::kNotFound || code == Code::kVersionMismatch;
  if (is_gone && answer.was_lost) co_return fail(Code::kIndeterminate);
  if (code != Code::kOk) co_return fail(code);
  std::span<const std::byte> bytes = answer.reply.bytes;
  const auto reply = take<wire::DeleteReply>(bytes);
  Removed removed;
  if (!reply || !take_names(bytes, removed.missed)) co_return fail(Code::kMalformed);
  removed.holders = reply->holders;
  co_return removed;
}

Task<Result<ObjectCalls::Places>> ObjectCalls::where(std::span<const std::byte> id, uint64_t deadline_ns) {
  const wire::IdRequest request{
      .birth = 0, .id_bytes = static_cast<uint16_t>(id.size()), .flag = 0, .reserved = {}};
  const CallFront front({bytes_of(request), id});
  const Answer answer = co_await ask({.method = Method::kWhere,
                                      .head = front.bytes(),
                                      .tail = {},
                                      .deadline_ns = deadline_or_default(deadline_ns)});
  if (answer.reply.code != Code::kOk) co_return fail(read_outcome(answer));
  std::span<const std::byte> bytes = answer.reply.bytes;
  const auto reply = take<wire::WhereReply>(bytes);
  Places places;
  if (!reply || !take_names(bytes, places.nodes)) co_return fail(Code::kMalformed);
  places.reply = *reply;
  co_return places;
}

Task<Result<ObjectCalls::Paths>> ObjectCalls::paths(uint32_t first, uint64_t deadline_ns) {
  const wire::PathsRequest request{.first = first, .reserved = 0};
  const Answer answer = co_await ask({.method = static_cast<Method>(wire::PathMethod::kPaths),
                                      .head = bytes_of(request),
                                      .tail = {},
                                      .deadline_ns = deadline_or_default(deadline_ns)});
  if (answer.reply.code != Code::kOk) co_return fail(read_outcome(answer));
  std::span<const std::byte> bytes = answer.reply.bytes;
  const auto reply = take<wire::PathsReply>(bytes);
  Paths paths;
  for (uint32_t i = 0; reply && i < reply->count; ++i) {
    const auto entry = take<wire::PathEntry>(bytes);
    if (!entry || entry->name_bytes > bytes.size()) co_return fail(Code::kMalformed);
    paths.paths.push_back({.name = text_of(bytes.first(entry->name_bytes)), .path = *entry});
    bytes = bytes.subspan(entry->name_bytes);
  }
  // It ends, since each page has what the one before it did not.
  if (!reply || !bytes.empty() || (reply->next != 0 && reply->next <= first))
    co_return fail(Code::kMalformed);
  paths.next = reply->next;
  co_return paths;
}

Task<Result<wire::CopiesAnswer>> ObjectCalls::set_copies(std::span<const std::byte> id, KeptCopies copies,
                                                         uint64_t deadline_ns) {
  const wire::CopiesCall request{.birth = copies.birth,
                                 .timeout_ns = copies.timeout_ns,
                                 .id_bytes = static_cast<uint16_t>(id.size()),
                                 .wanted = copies.wanted,
                                 .reserved = {}};
  const CallFront front({bytes_of(request), id});
  if (deadline_ns == 0) {
    deadline_ns = deadline_or_default(0) + std::min(copies.timeout_ns, kForever_ns / 4);
  }
  const Answer answer = co_await ask({.method = Method::kCopies,
                                      .head = front.bytes(),
                                      .tail = {},
                                      .deadline_ns = deadline_ns,
                                      .may_repeat = false});
  if (answer.reply.code != Code::kOk) co_return fail(write_outcome(answer));
  std::span<const std::byte> bytes = answer.reply.bytes;
  const auto said = take<wire::CopiesAnswer>(bytes);
  if (!said || !bytes.empty()) co_return fail(Code::kMalformed);
  co_return *said;
}

Task<Result<ObjectCalls::Ranked>> ObjectCalls::rank(std::span<const std::span<const std::byte>> ids,
                                                    uint64_t timeout_ns, uint64_t deadline_ns) {
  if (ids.empty() || ids.size() > wire::kRankIdsMax) co_return fail(Code::kInvalidArgument);
  const wire::RankRequest request{
      .timeout_ns = timeout_ns, .count = static_cast<uint16_t>(ids.size()), .reserved = {}};
  std::vector<std::byte> body(bytes_of(request).begin(), bytes_of(request).end());
  for (const std::span<const std::byte> id : ids) {
    body.push_back(static_cast<std::byte>(id.size()));
    body.insert(body.end(), id.begin(), id.end());
  }
  if (body.size() > session_.payload_bytes_max()) co_return fail(Code::kTooLarge);
  if (deadline_ns == 0) deadline_ns = deadline_or_default(0) + std::min(timeout_ns, kForever_ns / 4);
  const Answer answer =
      co_await ask({.method = Method::kRank, .head = body, .tail = {}, .deadline_ns = deadline_ns});
  if (answer.reply.code != Code::kOk) co_return fail(read_outcome(answer));
  Ranked ranked;
  if (!take_ranked(answer.reply.bytes, ids.size(), ranked)) co_return fail(Code::kMalformed);
  co_return std::move(ranked);
}

Task<Code> ObjectCalls::broadcast(std::span<const std::byte> id, std::span<const std::string> nodes,
                                  uint64_t timeout_ns, Broadcasted& done, uint64_t deadline_ns) {
  if (nodes.size() > wire::kBroadcastNodesMax) co_return Code::kInvalidArgument;
  const wire::BroadcastRequest request{.timeout_ns = timeout_ns,
                                       .id_bytes = static_cast<uint16_t>(id.size()),
                                       .count = static_cast<uint8_t>(nodes.size()),
                                       .reserved = {}};
  std::vector<std::byte> body(bytes_of(request).begin(), bytes_of(request).end());
  body.insert(body.end(), id.begin(), id.end());
  for (const std::string& node : nodes) {
    const auto name = std::as_bytes(std::span(node));
    body.push_back(static_cast<std::byte>(name.size()));
    body.insert(body.end(), name.begin(), name.end());
  }
  if (body.size() > session_.payload_bytes_max()) co_return Code::kTooLarge;
  if (deadline_ns == 0) deadline_ns = deadline_or_default(0) + std::min(timeout_ns, kForever_ns / 4);
  const Answer answer =
      co_await ask({.method = Method::kBroadcast, .head = body, .tail = {}, .deadline_ns = deadline_ns});
  const bool has_nodes = answer.reply.code == Code::kOk ||
                         (answer.reply.code == Code::kInvalidArgument && !answer.reply.bytes.empty());
  if (has_nodes && !take_broadcasted(answer.reply.bytes, done)) co_return Code::kMalformed;
  co_return read_outcome(answer);
}

Task<Code> ObjectCalls::keep(std::span<const std::byte> id, bool is_kept, uint64_t deadline_ns) {
  const wire::IdRequest request{.birth = 0,
                                .id_bytes = static_cast<uint16_t>(id.size()),
                                .flag = static_cast<uint8_t>(is_kept ? 1 : 0),
                                .reserved = {}};
  const CallFront front({bytes_of(request), id});
  const Answer answer = co_await ask({.method = Method::kKeep,
                                      .head = front.bytes(),
                                      .tail = {},
                                      .deadline_ns = deadline_or_default(deadline_ns)});
  co_return write_outcome(answer);
}

Task<Result<uint64_t>> ObjectCalls::evict(uint64_t bytes_wanted, uint64_t deadline_ns) {
  const wire::EvictRequest request{bytes_wanted};
  const Answer answer = co_await ask({.method = Method::kEvict,
                                      .head = bytes_of(request),
                                      .tail = {},
                                      .deadline_ns = deadline_or_default(deadline_ns),
                                      .may_repeat = false});
  if (answer.reply.code != Code::kOk) co_return fail(write_outcome(answer));
  std::span<const std::byte> bytes = answer.reply.bytes;
  const auto reply = take<wire::EvictReply>(bytes);
  if (!reply) co_return fail(Code::kMalformed);
  co_return reply->bytes;
}

}  // namespace refract::object
