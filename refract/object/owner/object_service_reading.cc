// SPDX-License-Identifier: Apache-2.0
// Readers that cannot map the memory, or that wait for what is not there yet; subscribers.
#include <algorithm>
#include <utility>

#include "refract/object/owner/object_service_state.h"

namespace refract::object {

using kv::wire::take;

namespace {

// So long behind its time a call waits for what other nodes say; then it is asked again.
constexpr uint64_t kLook_ns = 2 * kSecond_ns;

}  // namespace

void ObjectService::State::await(const rpc::Responder& from, Session& session, bool is_fetch,
                                 std::span<const std::byte> body) {
  const auto request = take<wire::AwaitRequest>(body);
  constexpr uint8_t kFlags = wire::AwaitRequest::kInAdvance | wire::AwaitRequest::kChecked;
  if (!request || std::ranges::any_of(request->reserved, [](uint8_t byte) { return byte != 0; }) ||
      request->transfer > static_cast<uint8_t>(TransferWish::kRead) || request->flags > kFlags) {
    return answer(from, Code::kMalformed);
  }
  TakenId id;
  const Code code = id.take_last(body, request->id_bytes);
  if (code != Code::kOk) return answer(from, code);
  const uint64_t until_ns = moment_after(parts.shard.now_ns(), request->timeout_ns);
  const Awaiting one{.from = from, .is_fetch = is_fetch, .until_ns = until_ns};
  const Result<Object> object = parts.store.find(id.bytes());
  if (object) return answer_object(one, session, *object);
  const bool looks = parts.elsewhere != nullptr && !is_node(session);
  if (object.error().code != Code::kNotFound || (request->timeout_ns == 0 && !looks)) {
    return answer(from, object.error().code);
  }
  if (session.awaiting >= wire::kAwaitsPerSession) return answer(from, Code::kOverloaded);
  ++session.awaiting;
  Awaiting& added = awaiting.emplace(id.text(), one)->second;
  added.is_looked_for = looks;
  added.arrival = ++last_arrival;
  awaiting_due_ns = std::min(awaiting_due_ns, due_of(added));
  if (!looks) return;
  parts.elsewhere->want(id.text(), last_arrival,
                        {.by = static_cast<TransferWish>(request->transfer),
                         .is_checked = (request->flags & wire::AwaitRequest::kChecked) != 0,
                         .is_in_advance = (request->flags & wire::AwaitRequest::kInAdvance) != 0});
}

uint64_t ObjectService::State::due_of(const Awaiting& one) {
  return one.is_looked_for ? moment_after(one.until_ns, kLook_ns) : one.until_ns;
}

void ObjectService::State::answer_object(const Awaiting& to, Session& session, const Object& object) {
  const wire::ObjectReply found{.object_at = object.object.value,
                                .birth = object.birth,
                                .body_bytes = object.parts.body_bytes,
                                .metadata_bytes = object.parts.metadata_bytes,
                                .flags = object.is_kept ? ObjectRecord::kKept : 0};
  if (!to.is_fetch) return answer(to.from, found);
  const uint64_t bytes = object.parts.filled_bytes();
  std::byte* const first = parts.writer.base() + object.object.value + ObjectParts::body_at();
  wire::FetchReply reply{.object = found, .fetch = 0, .window = {}};
  if (bytes <= session.payload_bytes_max - sizeof(reply)) {
    if (parts.elsewhere != nullptr) parts.elsewhere->passed_on(session.id, id_of(object));
    return answer(to.from, reply, {first, bytes});
  }
  if (!session.reads_windows) return answer(to.from, Code::kUnsupported);
  if (session.fetches.size() >= wire::kFetchesPerSession) return answer(to.from, Code::kOverloaded);
  const std::optional<kv::Window> window = parts.windows->open({first, bytes}, {.read = true});
  if (!window) return answer(to.from, Code::kOverloaded);
  parts.pins.pin(object.object);
  if (parts.elsewhere != nullptr) parts.elsewhere->passed_on(session.id, id_of(object));
  session.fetches.push_back(
      {.number = ++last_fetch, .object = object.object, .bytes = bytes, .window = *window});
  reply.fetch = last_fetch;
  reply.window = {.address = window->address.bits, .key = window->key.bits};
  answer(to.from, reply);
}

void ObjectService::State::fetch_done(const rpc::Responder& from, Session& session,
                                      std::span<const std::byte> body) {
  const auto request = take<wire::FetchDoneRequest>(body);
  if (!request || !body.empty()) return answer(from, Code::kMalformed);
  const auto found = std::ranges::find(session.fetches, request->fetch, &Fetch::number);
  if (found == session.fetches.end()) return answer(from, Code::kInvalidated);
  close_fetch(*found);
  session.fetches.erase(found);
  room_may_have_come = true;
  answer(from, Code::kOk);
}

// The window first: what comes into the memory afterwards is not the reader's.
void ObjectService::State::close_fetch(const Fetch& fetch) {
  (void)parts.windows->close(fetch.window);
  parts.pins.unpin(fetch.object);
}

void ObjectService::State::answer_awaiting() {
  for (const std::string& id : std::exchange(sealed_ids, {})) {
    const Result<Object> object = parts.store.find(bytes_of(id));
    if (!object) continue;  // Gone again already: the next one is waited for.
    std::vector<Awaiting> ready;
    const auto [begin, end] = awaiting.equal_range(id);
    for (auto at = begin; at != end; ++at) ready.push_back(at->second);
    awaiting.erase(begin, end);
    for (const Awaiting& one : ready) {
      Session* const session = find(one.from.session);
      if (session == nullptr) continue;
      --session->awaiting;
      answer_object(one, *session, *object);
    }
  }
}

void ObjectService::State::end_awaiting(uint64_t now_ns) {
  awaiting_due_ns = kForever_ns;
  std::erase_if(awaiting, [&](const auto& one) {
    if (due_of(one.second) > now_ns) {
      awaiting_due_ns = std::min(awaiting_due_ns, due_of(one.second));
      return false;
    }
    if (Session* session = find(one.second.from.session)) --session->awaiting;
    answer(one.second.from, one.second.is_looked_for ? Code::kInvalidated : one.second.absent);
    return true;
  });
}

void ObjectService::State::notices(const rpc::Responder& from, Session& session,
                                   std::span<const std::byte> body) {
  const auto request = take<wire::NoticesRequest>(body);
  if (!request || !body.empty()) return answer(from, Code::kMalformed);
  const NoticeWait wait{.from = from,
                        .cursor = request->cursor,
                        .until_ns = moment_after(parts.shard.now_ns(), request->timeout_ns)};
  if (!ring.is_at_end(wait.cursor) || request->timeout_ns == 0) return tell_notices(wait, session);
  if (session.awaiting >= wire::kAwaitsPerSession) return answer(from, Code::kOverloaded);
  ++session.awaiting;
  notice_waits.push_back(wait);
  notice_due_ns = std::min(notice_due_ns, wait.until_ns);
}

void ObjectService::State::tell_notices(const NoticeWait& wait, Session& session) {
  ReplyPage page(session.payload_bytes_max - sizeof(wire::NoticesReply));
  const auto told = ring.tell(session.id, wait.cursor, page);
  if (!told) return answer(wait.from, Code::kOverloaded);
  const wire::NoticesReply reply{.next = told->next,
                                 .count = page.count(),
                                 .is_lost = static_cast<uint8_t>(told->is_lost ? 1 : 0),
                                 .reserved = {}};
  answer(wait.from, reply, page.bytes());
}

void ObjectService::State::answer_notices() {
  if (notice_waits.empty() || ring.is_at_end(notice_waits.front().cursor)) return;
  // All of them have waited at the end, which has moved.
  for (const NoticeWait& wait : std::exchange(notice_waits, {})) {
    Session* const session = find(wait.from.session);
    if (session == nullptr) continue;
    --session->awaiting;
    tell_notices(wait, *session);
  }
  notice_due_ns = kForever_ns;
}

void ObjectService::State::end_notice_waits(uint64_t now_ns) {
  notice_due_ns = kForever_ns;
  std::erase_if(notice_waits, [&](const NoticeWait& wait) {
    if (wait.until_ns > now_ns) {
      notice_due_ns = std::min(notice_due_ns, wait.until_ns);
      return false;
    }
    Session* const session = find(wait.from.session);
    if (session == nullptr) return true;
    --session->awaiting;
    tell_notices(wait, *session);
    return true;
  });
}

}  // namespace refract::object
