// SPDX-License-Identifier: Apache-2.0
// Creations: whose they are, how their bytes come, and how they end. (F1) and (F2) are open_creations.h's.
#include <algorithm>
#include <utility>

#include "refract/base/check.h"
#include "refract/object/layout/object_birth.h"
#include "refract/object/owner/object_service_state.h"

namespace refract::object {

using kv::wire::take;
using wire::Method;

namespace {

// What is READ before it is asked again whether to go on: so long an end waits for its READs.
constexpr uint64_t kBytesAtOnce = 8 * kMiB;
constexpr uint64_t kBodyBytesMax = RemotePointer::kOffsetMask / 2;  // So that sums of lengths have room.

template <size_t kCount>
bool is_zero(const uint8_t (&reserved)[kCount]) noexcept {
  return std::ranges::all_of(reserved, [](uint8_t byte) { return byte == 0; });
}

bool is_empty(const wire::Place& place) noexcept {
  return place.address == 0 && place.key == 0;
}

fabric::RemoteSpan span_of(const wire::Place& place) noexcept {
  return {.address = {place.address}, .key = {place.key}};
}

bool is_same(const fabric::RemoteSpan& one, const fabric::RemoteSpan& other) noexcept {
  return one.address == other.address && one.key == other.key;
}

}  // namespace

// What a restart has found waits for its creators.
void ObjectService::State::adopt_recovered() {
  for (const ObjectStore::OpenCreation& found : parts.store.creations()) {
    // The directory has ended these, where there is one.
    if (found.is_pulled) {
      (void)parts.store.end_pull(found.id, found.birth);
      continue;
    }
    const Result<Creation> made = parts.store.creation(found.id, found.birth);
    if (!made || made->is_sealed) continue;
    leave(opens.add(text_of(found.id), *made), false);
  }
}

void ObjectService::State::create(const rpc::Responder& from, Session& session,
                                  std::span<const std::byte> body) {
  const auto request = take<wire::CreateRequest>(body);
  if (!request || request->reserved != 0 || request->wants_window > 1) return answer(from, Code::kMalformed);
  TakenId id;
  const Code code = id.take_last(body, request->id_bytes);
  if (code != Code::kOk) return answer(from, code);
  if (request->metadata_bytes > kMetadataBytesMax || request->body_bytes > kBodyBytesMax) {
    return answer(from, Code::kTooLarge);
  }
  const bool has_bytes = request->body_bytes + request->metadata_bytes > 0;
  if (request->wants_window != 0 && has_bytes && !session.has_windows) {
    return answer(from, Code::kUnsupported);
  }
  make({.from = from,
        .method = Method::kCreate,
        .birth = birth_of(id.bytes(), request->claim),
        .body_bytes = request->body_bytes,
        .metadata_bytes = request->metadata_bytes,
        .wants_window = request->wants_window != 0,
        .until_ns = moment_after(parts.shard.now_ns(), request->timeout_ns),
        .id = id.bytes()},
       session);
}

void ObjectService::State::put(const rpc::Responder& from, Session& session,
                               std::span<const std::byte> body) {
  const auto request = take<wire::PutRequest>(body);
  if (!request || !is_zero(request->reserved)) return answer(from, Code::kMalformed);
  TakenId id;
  const Code code = id.take(body, request->id_bytes);
  if (code != Code::kOk) return answer(from, code);
  if (request->metadata_bytes > kMetadataBytesMax) return answer(from, Code::kTooLarge);
  if (uint64_t{request->body_bytes} + request->metadata_bytes != body.size()) {
    return answer(from, Code::kMalformed);
  }
  make({.from = from,
        .method = Method::kPut,
        .birth = birth_of(id.bytes(), request->claim),
        .body_bytes = request->body_bytes,
        .metadata_bytes = request->metadata_bytes,
        .until_ns = moment_after(parts.shard.now_ns(), request->timeout_ns),
        .id = id.bytes(),
        .body = body.first(request->body_bytes),
        .metadata = body.subspan(request->body_bytes)},
       session);
}

bool ObjectService::State::answer_create(const rpc::Responder& from, OpenCreation& open, bool wants_window) {
  wire::CreateReply reply{};
  reply.object_at = open.made.object.value;
  if (wants_window && open.bytes() > 0) {
    close_window(open);
    // READs and WRITEs are not mixed: what was READ stays, and all is written again.
    const Session* session = find(open.session);
    if (session == nullptr || !session->has_windows) {
      answer(from, Code::kUnsupported);
      return false;
    }
    open.window = parts.windows->open(parts.store.room_of(open.made), {.write = true});
    if (!open.window) {
      answer(from, Code::kOverloaded);
      return false;
    }
    reply.window = {.address = open.window->address.bits, .key = open.window->key.bits};
  }
  answer(from, reply);
  return true;
}

Code ObjectService::State::take_fill(std::span<const std::byte> body, wire::FillRequest& request,
                                     TakenId& id) {
  const auto taken = take<wire::FillRequest>(body);
  if (!taken || !is_zero(taken->reserved)) return Code::kMalformed;
  request = *taken;
  return id.take_last(body, request.id_bytes);
}

Code ObjectService::State::take_id(std::span<const std::byte> body, wire::IdRequest& request, TakenId& id) {
  const auto taken = take<wire::IdRequest>(body);
  if (!taken || !is_zero(taken->reserved) || taken->flag > 1) return Code::kMalformed;
  request = *taken;
  return id.take_last(body, request.id_bytes);
}

Code ObjectService::State::check_source(const Session& session, const wire::FillRequest& request) {
  const RemotePointer first{request.source.address};
  if (request.source.key == 0 || request.filled_bytes > RemotePointer::kOffsetMask - first.offset()) {
    return Code::kInvalidArgument;
  }
  return first.region() < session.pull_region_min ? Code::kUnsupported : Code::kOk;
}

Code ObjectService::State::use(OpenCreation& open, Session& session) {
  if (open.is_ending) return Code::kNotFound;
  if (open.session == session.id) return Code::kOk;
  return open.session.bits == 0 ? claim(open, session) : Code::kAccessDenied;
}

Code ObjectService::State::claim(OpenCreation& open, Session& session) {
  if (open.session == session.id) return Code::kOk;
  if (session.creations.size() >= wire::kCreationsPerSession) return Code::kOverloaded;
  if (Session* before = find(open.session)) std::erase(before->creations, open.number);
  unclaimed_count -= open.session.bits == 0 ? 1 : 0;
  refuse_seals(open, Code::kAccessDenied);
  close_window(open);
  open.session = session.id;
  open.claim_until_ns = kForever_ns;
  open.source = {};
  open.final_bytes = open.read_bytes;
  session.creations.push_back(open.number);
  const bool is_crossed = std::ranges::find(crossed, open.number) != crossed.end();
  if (open.bytes_under_way > 0 && !is_crossed) crossed.push_back(open.number);
  ++counts.claimed;
  return Code::kOk;
}

// Its session has ended, or its owner's run. REQUIRES: none of the session's READs is under way.
void ObjectService::State::leave(OpenCreation& open, bool at_once) {
  if (open.reader == open.session) open.bytes_under_way = 0;
  open.seals.clear();
  close_window(open);
  open.session = {};
  open.final_bytes = open.read_bytes;
  ++unclaimed_count;
  if (at_once || open.is_ending) {
    ++counts.given_up;
    open.is_ending = true;
    return advance(open);
  }
  open.claim_until_ns = moment_after(parts.shard.now_ns(), kClaim_ns);
  unclaimed.push_back({.until_ns = open.claim_until_ns, .number = open.number});
}

void ObjectService::State::end_unclaimed(uint64_t now_ns) {
  while (!unclaimed.empty() && unclaimed.front().until_ns <= now_ns) {
    const Unclaimed one = unclaimed.front();
    unclaimed.pop_front();
    OpenCreation* open = opens.find(one.number);
    if (open == nullptr || open->session.bits != 0 || open->claim_until_ns != one.until_ns) continue;
    ++counts.given_up;
    open->is_ending = true;
    advance(*open);
  }
}

// A READ by way of another session ends when that session's channel does, which may take long.
void ObjectService::State::end_overdue_seals(uint64_t now_ns) {
  for (const uint64_t number : crossed) {
    OpenCreation* open = opens.find(number);
    if (open == nullptr) continue;
    std::erase_if(open->seals, [&](const OpenCreation::Seal& seal) {
      if (seal.until_ns > now_ns) return false;
      answer(seal.from, Code::kDeadlineExceeded);
      return true;
    });
  }
}

void ObjectService::State::close_window(OpenCreation& open) {
  if (!open.window) return;
  (void)parts.windows->close(*open.window);
  open.window.reset();
}

void ObjectService::State::refuse_seals(OpenCreation& open, Code code) {
  for (const OpenCreation::Seal& seal : std::exchange(open.seals, {})) answer(seal.from, code);
}

void ObjectService::State::filled(const rpc::Responder& from, Session& session,
                                  std::span<const std::byte> body) {
  wire::FillRequest request{};
  TakenId id;
  Code code = take_fill(body, request, id);
  if (code != Code::kOk) return answer(from, code);
  const uint64_t birth = birth_of(id.bytes(), request.claim);
  OpenCreation* const open = opens.find(id.text());
  if (open == nullptr || open->birth() != birth) {
    return answer(from, parts.store.creation(id.bytes(), birth).code());
  }
  code = use(*open, session);
  if (code == Code::kOk && request.filled_bytes > open->bytes()) code = Code::kInvalidArgument;
  if (code == Code::kOk && request.filled_bytes > 0) code = check_source(session, request);
  answer(from, code);
  // A seal has said more, and where it all lies.
  if (code != Code::kOk || request.filled_bytes == 0 || !open->seals.empty()) return;
  open->source = span_of(request.source);
  open->read_until_ns = kForever_ns;
  open->final_bytes = std::max(open->final_bytes, request.filled_bytes);
  advance(*open);
}

void ObjectService::State::seal(const rpc::Responder& from, Session& session,
                                std::span<const std::byte> body) {
  wire::FillRequest request{};
  TakenId id;
  Code code = take_fill(body, request, id);
  if (code != Code::kOk) return answer(from, code);
  const uint64_t birth = birth_of(id.bytes(), request.claim);
  OpenCreation* const open = opens.find(id.text());
  if (open == nullptr || open->birth() != birth) {
    // It is no creation any more, or never was: the store knows.
    const Result<Object> object = parts.store.seal(id.bytes(), birth);
    if (object) return answer(from, wire::SealReply{object->object.value});
    return answer(from, object.error().code);
  }
  code = use(*open, session);
  if (code != Code::kOk) return answer(from, code);
  if (request.filled_bytes != open->bytes()) return answer(from, Code::kInvalidArgument);
  if (is_empty(request.source)) {
    if (open->window) {
      // It is closed whatever it has brought: no byte may change any more.
      const uint64_t written = parts.windows->close(*std::exchange(open->window, std::nullopt));
      if (written < open->bytes()) return answer(from, Code::kInvalidArgument);
      open->read_bytes = open->final_bytes = open->bytes();
    }
    // Nothing is known of the bytes: a window of an earlier session, or of the owner's last run, has gone.
    if (open->final_bytes < open->bytes()) return answer(from, Code::kAccessDenied);
  } else {
    code = check_source(session, request);
    if (code != Code::kOk) return answer(from, code);
    close_window(*open);
    open->source = span_of(request.source);
    open->final_bytes = open->bytes();
  }
  const uint64_t until_ns = moment_after(parts.shard.now_ns(), request.timeout_ns);
  open->read_until_ns = until_ns;
  open->seals.push_back({.from = from, .until_ns = until_ns});
  advance(*open);
}

void ObjectService::State::give_up(const rpc::Responder& from, std::span<const std::byte> body) {
  wire::IdRequest request{};
  TakenId id;
  Code code = take_id(body, request, id);
  if (code == Code::kOk && request.flag != 0) code = Code::kMalformed;
  if (code != Code::kOk) return answer(from, code);
  const uint64_t birth = birth_of(id.bytes(), request.birth);  // Which is the claim here.
  OpenCreation* const open = opens.find(id.text());
  if (open == nullptr || open->birth() != birth) {
    const bool has_waited = end_waiting(id.bytes(), birth);
    code = parts.store.abort_creation(id.bytes(), birth);
    return answer(from, has_waited && code == Code::kNotFound ? Code::kOk : code);
  }
  // By way of any session: the claim says whose it is.
  (void)end_waiting(id.bytes(), birth);
  open->ends.push_back(from);
  open->is_ending = true;
  refuse_seals(*open, Code::kNotFound);
  advance(*open);
}

void ObjectService::State::advance(OpenCreation& open) {
  if (open.bytes_under_way > 0) return;
  if (open.is_ending) return end(open);
  if (open.seals.empty()) return read_on(open);
  if (open.read_bytes == open.bytes()) return publish(open);
  if (parts.shard.now_ns() < open.read_until_ns) return read_on(open);
  open.final_bytes = open.read_bytes;
  refuse_seals(open, Code::kDeadlineExceeded);
}

void ObjectService::State::read_on(OpenCreation& open) {
  if (open.final_bytes <= open.read_bytes) return;
  const uint64_t bytes = std::min(open.final_bytes - open.read_bytes, kBytesAtOnce);
  open.reading_at = open.read_bytes;
  open.bytes_under_way = bytes;
  open.reader = open.session;
  open.reading = open.source;
  const RemotePointer first = open.source.address;
  const std::span<std::byte> room = parts.store.room_of(open.made);
  // It may end inside this call.
  fetcher.start({.to = {.session = open.session},
                 .upload = open.number,
                 .source = {.address = RemotePointer::at(first.region(), first.offset() + open.read_bytes),
                            .key = open.source.key},
                 .target = room.subspan(open.read_bytes, bytes),
                 .give_up_ns = open.seals.empty() ? kForever_ns : open.read_until_ns});
}

void ObjectService::State::pulled(const kv::PullFetcher::Pull& pull, Code code) noexcept {
  OpenCreation* const open = opens.find(pull.upload);
  REFRACT_CHECK(open != nullptr && open->bytes_under_way > 0);
  // A window may have brought all meanwhile.
  if (code == Code::kOk) {
    open->read_bytes = std::max(open->read_bytes, open->reading_at + open->bytes_under_way);
  }
  open->bytes_under_way = 0;
  const bool was_crossed = std::erase(crossed, open->number) > 0;
  // What was said since may be better.
  const bool is_over = code != Code::kOk && !was_crossed && is_same(open->reading, open->source);
  if (is_over) {
    open->final_bytes = open->read_bytes;
    refuse_seals(*open, code);
  }
  advance(*open);
  settle();
}

void ObjectService::State::publish(OpenCreation& open) {
  close_window(open);
  const Result<Object> object = parts.store.seal(bytes_of(open.id), open.birth());
  if (object) {
    for (const OpenCreation::Seal& seal : std::exchange(open.seals, {})) {
      answer(seal.from, wire::SealReply{object->object.value});
    }
    return remove(open);
  }
  const Code code = object.error().code;
  const uint64_t until_ns = std::ranges::max(open.seals, {}, &OpenCreation::Seal::until_ns).until_ns;
  if (code == Code::kNoSpace && room_may_come(until_ns)) {
    if (std::ranges::find(unrecorded, open.number) == unrecorded.end()) unrecorded.push_back(open.number);
    retry_ns = std::min(retry_ns, moment_after(parts.shard.now_ns(), is_under_way ? 0 : kMillisecond_ns));
    return;
  }
  for (const OpenCreation::Seal& seal : std::exchange(open.seals, {})) {
    code == Code::kNoSpace ? answer_no_space(seal.from) : answer(seal.from, code);
  }
  if (code != Code::kNoSpace) remove(open);
}

void ObjectService::State::end(OpenCreation& open) {
  close_window(open);
  const std::span<const std::byte> id = bytes_of(open.id);
  const bool is_aborted = !open.ends.empty();
  const Code code =
      is_aborted ? parts.store.abort_creation(id, open.birth()) : parts.store.end_creation(id, open.birth());
  for (const rpc::Responder& from : std::exchange(open.ends, {})) answer(from, code);
  room_may_have_come = true;
  if (parts.elsewhere != nullptr) parts.elsewhere->unclaim(open.id, open.birth());
  remove(open);
}

void ObjectService::State::remove(OpenCreation& open) {
  if (Session* session = find(open.session)) std::erase(session->creations, open.number);
  unclaimed_count -= open.session.bits == 0 ? 1 : 0;
  opens.remove(open);
}

}  // namespace refract::object
