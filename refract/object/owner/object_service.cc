// SPDX-License-Identifier: Apache-2.0
#include "refract/object/owner/object_service.h"

#include <algorithm>
#include <utility>

#include "refract/base/check.h"
#include "refract/kv/owner/service/service_writes.h"
#include "refract/memory/remote_visible.h"
#include "refract/object/owner/object_service_state.h"

namespace refract::object {

using wire::Method;

namespace {

// An entry of a list with the longest id, and the longest answer of fixed size, fit such a message.
constexpr size_t kPayloadBytesMin = 512;

constexpr std::array<std::string_view, ObjectService::kMethods> kNames = {
    "create", "filled", "seal", "abort",   "put",  "put_many", "await",  "fetch", "fetch_done", "delete",
    "evict",  "keep",   "list", "notices", "stat", "where",    "copies", "rank",  "broadcast"};

}  // namespace

std::string_view name(Method method) noexcept {
  const auto number = static_cast<size_t>(static_cast<uint16_t>(method) - wire::kMethodsBegin);
  return number < kNames.size() ? kNames[number] : std::string_view();
}

Code TakenId::take(std::span<const std::byte>& body, size_t id_bytes) noexcept {
  if (body.size() < id_bytes) return Code::kMalformed;
  if (id_bytes == 0 || id_bytes > kIdBytesMax) return Code::kInvalidArgument;
  copy_possibly_torn(bytes_.data(), body.data(), id_bytes);
  size_ = id_bytes;
  body = body.subspan(id_bytes);
  return Code::kOk;
}

Code TakenId::take_last(std::span<const std::byte> body, size_t id_bytes) noexcept {
  return body.size() == id_bytes ? take(body, id_bytes) : Code::kMalformed;
}

ObjectService::State::State(const Parts& given)
    : parts(given),
      fetcher(given.shard, *this, given.pull_piece_bytes),
      ring(given.store, given.heap, given.notices) {
  parts.store.tell(this);
  adopt_recovered();
  if (parts.elsewhere != nullptr) parts.elsewhere->answer_to(this);
}

ObjectService::State::~State() {
  if (parts.elsewhere != nullptr) parts.elsewhere->answer_to(nullptr);
  parts.store.tell(nullptr);
  opens.for_each([this](OpenCreation& open) { close_window(open); });
  for (const auto& [bits, session] : sessions) {
    for (const Fetch& fetch : session->fetches) close_fetch(fetch);
  }
}

void ObjectService::State::session_opened(rpc::SessionId id) {
  REFRACT_CHECK(server != nullptr);
  const size_t bytes = server->payload_bytes_max(id);
  if (bytes < kPayloadBytesMin) return server->close_session(id);
  const fabric::Capabilities* can = server->capabilities(id);
  auto session = std::make_unique<Session>();
  session->id = id;
  session->payload_bytes_max = bytes;
  session->has_windows = parts.windows != nullptr && can->one_sided_bytes_min > 0;
  // Over devices messages are the better way for values; an object is longer than its message, and is READ.
  const bool is_by_device = can->peer_reads_bypass_cpu && !can->messages_are_stores;
  session->reads_windows = session->has_windows || (parts.windows != nullptr && is_by_device);
  session->pull_region_min = kv::writes::pull_region_min_of(*can);
  session->dies_with_peer = can->messages_are_stores;
  sessions.emplace(id.bits, std::move(session));
}

void ObjectService::State::session_closed(rpc::SessionId id) {
  // The channel has closed, so nothing lands any more.
  fetcher.end(id);
  ring.end(id);
  const auto found = sessions.find(id.bits);
  if (found == sessions.end()) return;
  const std::unique_ptr<Session> session = std::move(found->second);
  sessions.erase(found);
  std::erase_if(waiting, [&](const Waiting& one) {
    if (one.session() != id) return false;
    waiting_bytes -= one.bytes_kept();
    return true;
  });
  std::erase_if(awaiting, [id](const auto& one) { return one.second.from.session == id; });
  std::erase_if(notice_waits, [id](const NoticeWait& wait) { return wait.from.session == id; });
  std::erase_if(evicting, [id](const Evicting& one) { return one.from.session == id; });
  std::erase_if(removing, [id](const auto& one) { return one.second.session == id; });
  for (const Fetch& fetch : session->fetches) close_fetch(fetch);
  for (const uint64_t number : session->creations) {
    if (OpenCreation* open = opens.find(number)) leave(*open, session->dies_with_peer);
  }
  // What others have claimed meanwhile continues with them.
  for (const uint64_t number : std::exchange(crossed, {})) {
    OpenCreation* open = opens.find(number);
    if (open == nullptr) continue;
    if (open->reader != id) {
      crossed.push_back(number);
      continue;
    }
    open->bytes_under_way = 0;
    advance(*open);
  }
  // Its pins go with it.
  room_may_have_come = true;
  departed_seen = 0;
}

Session* ObjectService::State::find(rpc::SessionId id) {
  const auto found = sessions.find(id.bits);
  return found == sessions.end() ? nullptr : found->second.get();
}

void ObjectService::State::handle(const rpc::IncomingCall& call) {
  const rpc::Responder& from = call.from;
  Session* session = find(from.session);
  if (session == nullptr) return answer(from, Code::kUnavailable);
  const auto number = static_cast<size_t>(call.header.method - wire::kMethodsBegin);
  if (number >= kMethods) return answer(from, Code::kUnsupported);
  ++counts.calls[number];
  const std::span<const std::byte> body = call.payload;
  if (parts.elsewhere != nullptr && handle_with_others(call, *session)) return;
  switch (static_cast<Method>(call.header.method)) {
    case Method::kCreate:
      return create(from, *session, body);
    case Method::kFilled:
      return filled(from, *session, body);
    case Method::kSeal:
      return seal(from, *session, body);
    case Method::kAbort:
      return give_up(from, body);
    case Method::kPut:
      return put(from, *session, body);
    case Method::kPutMany:
      return put_many(from, *session, body);
    case Method::kAwait:
      return await(from, *session, false, body);
    case Method::kFetch:
      return await(from, *session, true, body);
    case Method::kFetchDone:
      return fetch_done(from, *session, body);
    case Method::kDelete:
      return erase(from, body);
    case Method::kEvict:
      return evict(from, body);
    case Method::kKeep:
      return keep(from, body);
    case Method::kList:
      return list(from, *session, body);
    case Method::kNotices:
      return notices(from, *session, body);
    case Method::kStat:
      return body.empty() ? answer(from, stat()) : answer(from, Code::kMalformed);
    case Method::kWhere:
    case Method::kCopies:
    case Method::kRank:
    case Method::kBroadcast:
      return answer(from, Code::kUnsupported);
  }
}

void ObjectService::State::answer(const rpc::Responder& to, Code code, std::span<const std::byte> head,
                                  std::span<const std::byte> tail) {
  counts.overloaded += code == Code::kOverloaded ? 1 : 0;
  counts.no_space += code == Code::kNoSpace ? 1 : 0;
  if (server == nullptr) return;
  if (code == Code::kAway && head.empty() && tail.empty()) return answer_away(to);
  server->reply(to, code, head, tail);
}

void ObjectService::State::settle() {
  if (room_may_have_come) retry_waiting();
  answer_awaiting();
  answer_notices();
  look_after_departed();
  if (parts.heap.wants_growth() && parts.growth.can_grow(kChunkBytes)) parts.growth.want(kChunkBytes);
  arrange_timer();
}

void ObjectService::State::sealed(std::span<const std::byte> id, const Object& object) {
  ring.add(wire::NoticeKind::kSealed, id, object);
  if (parts.elsewhere != nullptr) parts.elsewhere->sealed(text_of(id), object);
  // It may be evicted from now on.
  room_may_have_come = true;
  if (awaiting.empty()) return;
  std::string name_of_it(text_of(id));
  if (awaiting.contains(name_of_it)) sealed_ids.push_back(std::move(name_of_it));
}

void ObjectService::State::deleted(std::span<const std::byte> id, const Object& object) {
  ring.add(wire::NoticeKind::kDeleted, id, object);
  if (parts.elsewhere != nullptr) parts.elsewhere->deleted(text_of(id), object);
  room_may_have_come = true;
}

ObjectService::ObjectService(const Parts& parts) : state_(std::make_unique<State>(parts)) {
  state_->arrange_timer();
}

ObjectService::~ObjectService() = default;

void ObjectService::answer_through(rpc::Server* server) noexcept {
  state_->server = server;
  state_->fetcher.reach_through(server);
}

void ObjectService::handle(std::span<const rpc::IncomingCall> calls) noexcept {
  state_->is_handling = true;
  for (const rpc::IncomingCall& call : calls) state_->handle(call);
  state_->is_handling = false;
  state_->settle();
}

void ObjectService::session_opened(rpc::SessionId session) noexcept {
  state_->session_opened(session);
}

void ObjectService::session_closed(rpc::SessionId session) noexcept {
  state_->session_closed(session);
  state_->settle();
}

void ObjectService::on_memory_added() noexcept {
  state_->room_may_have_come = true;
  state_->settle();
}

void ObjectService::on_growth_refused() noexcept {
  state_->room_may_have_come = true;
  state_->settle();
}

void ObjectService::on_store_changed() noexcept {
  state_->room_may_have_come = true;
  state_->settle();
}

wire::StatReply ObjectService::stat() {
  return state_->stat();
}

const kv::PullFetcher& ObjectService::pulls() const noexcept {
  return state_->fetcher;
}

ObjectService::Counts ObjectService::counts() const noexcept {
  Counts counts = state_->counts;
  counts.notices = state_->ring.counts().notices;
  counts.lost = state_->ring.counts().lost;
  counts.replays = state_->ring.counts().replays;
  counts.creations = state_->opens.count();
  counts.unclaimed = state_->unclaimed_count;
  counts.waiting_for_room = state_->waiting.size() + state_->unrecorded.size();
  counts.waiting_bytes = state_->waiting_bytes;
  counts.waiting_for_objects = state_->awaiting.size();
  counts.waiting_for_notices = state_->notice_waits.size();
  for (const auto& [bits, session] : state_->sessions) {
    counts.fetches += session->fetches.size();
    for (const Fetch& fetch : session->fetches) counts.fetch_bytes += fetch.bytes;
  }
  return counts;
}

}  // namespace refract::object
