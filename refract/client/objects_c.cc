// SPDX-License-Identifier: Apache-2.0
#include "refract/client/objects_c.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "refract/client/client.h"
#include "refract/client/objects.h"

using refract::Bytes;
using refract::Client;
using refract::Code;
using refract::MakeOptions;
using refract::NewObject;
using refract::Object;
using refract::Objects;
using refract::Result;
using refract::Subscription;

// NOLINTBEGIN(readability-identifier-naming): these are the names of C.
struct refract_objects {
  Client client;
  Objects objects;
};
struct refract_object {
  Object object;
};
struct refract_new_object {
  NewObject made;
};
struct refract_subscription {
  Subscription subscription;
  refract::ObjectNotice notice;  // What was shown last.
};
// NOLINTEND(readability-identifier-naming)

namespace {

constexpr bool is_same(int number, Code code) {
  return number == static_cast<int>(code);
}
static_assert(is_same(REFRACT_OK, Code::kOk) && is_same(REFRACT_NOT_FOUND, Code::kNotFound) &&
              is_same(REFRACT_EXISTS, Code::kExists) &&
              is_same(REFRACT_VERSION_MISMATCH, Code::kVersionMismatch) &&
              is_same(REFRACT_INVALID_ARGUMENT, Code::kInvalidArgument) &&
              is_same(REFRACT_TOO_LARGE, Code::kTooLarge) && is_same(REFRACT_NO_SPACE, Code::kNoSpace) &&
              is_same(REFRACT_DEADLINE_EXCEEDED, Code::kDeadlineExceeded) &&
              is_same(REFRACT_INDETERMINATE, Code::kIndeterminate) &&
              is_same(REFRACT_UNAVAILABLE, Code::kUnavailable) &&
              is_same(REFRACT_OVERLOADED, Code::kOverloaded) &&
              is_same(REFRACT_ACCESS_DENIED, Code::kAccessDenied) &&
              is_same(REFRACT_UNSUPPORTED, Code::kUnsupported) && is_same(REFRACT_FORKED, Code::kForked) &&
              is_same(REFRACT_SYSTEM, Code::kSystem) && is_same(REFRACT_CANCELLED, Code::kCancelled) &&
              is_same(REFRACT_AWAY, Code::kAway));
static_assert(REFRACT_NEW_ID_BYTES == Objects::kNewIdBytes && REFRACT_FOREVER == Objects::kForever);

int number_of(Code code) noexcept {
  return static_cast<int>(code);
}

Bytes bytes_of(const void* data, size_t bytes) noexcept {
  return {static_cast<const std::byte*>(data), bytes};
}

void write_text(const std::string& text, char* to, size_t bytes) noexcept {
  if (to == nullptr || bytes == 0) return;
  const size_t length = std::min(text.size(), bytes - 1);
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

refract_object* handle_of(Object&& object) {
  return new refract_object{std::move(object)};
}

}  // namespace

const char* refract_code_text(int code) {
  const Code known = code < 0 ? Code::kMalformed : refract::code_from_wire(static_cast<uint64_t>(code));
  // Literals, which end with a zero.
  return refract::info(known).sentence.data();
}

int refract_objects_open(const char* address, const char* secret_file, refract_objects** objects, char* why,
                         size_t why_bytes) {
  auto client = Client::connect(address == nullptr ? "" : address,
                                {.secret_file = secret_file == nullptr ? "" : secret_file});
  if (!client) {
    write_text(client.error().to_string(), why, why_bytes);
    return number_of(client.error().code);
  }
  auto found = client->objects();
  if (!found) {
    write_text(found.error().to_string(), why, why_bytes);
    return number_of(found.error().code);
  }
  *objects = new refract_objects{.client = std::move(*client), .objects = *found};
  return REFRACT_OK;
}

void refract_objects_close(refract_objects* objects) {
  delete objects;
}

void refract_objects_trouble(refract_objects* objects, char* why, size_t why_bytes) {
  write_text(objects->objects.trouble().to_string(), why, why_bytes);
}

int refract_object_create(refract_objects* objects, const void* id, size_t id_bytes, uint64_t body_bytes,
                          uint32_t metadata_bytes, uint64_t room_timeout_ms, refract_new_object** made) {
  auto created = objects->objects.create(bytes_of(id, id_bytes), body_bytes, metadata_bytes,
                                         {.room_timeout_ms = room_timeout_ms});
  if (created) *made = new refract_new_object{std::move(*created)};
  return number_of(created.code());
}

void* refract_new_object_body(refract_new_object* made) {
  return made->made.body().data();
}

void* refract_new_object_metadata(refract_new_object* made) {
  return made->made.metadata().data();
}

uint64_t refract_new_object_birth(const refract_new_object* made) {
  return made->made.birth();
}

int refract_new_object_filled(refract_new_object* made, uint64_t bytes) {
  return number_of(made->made.filled(bytes));
}

int refract_new_object_seal(refract_new_object* made, refract_object** object) {
  auto sealed = made->made.seal();
  if (!sealed) return number_of(sealed.code());
  if (object != nullptr) *object = handle_of(std::move(*sealed));
  delete made;
  return REFRACT_OK;
}

void refract_new_object_abort(refract_new_object* made) {
  delete made;
}

int refract_object_put(refract_objects* objects, const void* id, size_t id_bytes, const void* body,
                       uint64_t body_bytes, const void* metadata, uint32_t metadata_bytes,
                       uint64_t room_timeout_ms, uint64_t* birth) {
  const Result<uint64_t> put =
      objects->objects.put(bytes_of(id, id_bytes), bytes_of(body, body_bytes),
                           bytes_of(metadata, metadata_bytes), {.room_timeout_ms = room_timeout_ms});
  if (put && birth != nullptr) *birth = *put;
  return number_of(put.code());
}

void refract_object_put_many(refract_objects* objects, refract_put* puts, size_t count) {
  std::vector<refract::PutObject> all;
  all.reserve(count);
  for (const refract_put& put : std::span(puts, count)) {
    all.push_back({.id = bytes_of(put.id, put.id_bytes),
                   .body = bytes_of(put.body, put.body_bytes),
                   .metadata = bytes_of(put.metadata, put.metadata_bytes)});
  }
  objects->objects.put_many(all);
  for (size_t i = 0; i < count; ++i) {
    puts[i].code = number_of(all[i].result.code());
    puts[i].birth = all[i].result.value_or(0);
  }
}

int refract_object_new_id(refract_objects* objects, unsigned char id[REFRACT_NEW_ID_BYTES]) {
  const Result<std::string> made = objects->objects.new_id();
  if (made) std::memcpy(id, made->data(), REFRACT_NEW_ID_BYTES);
  return number_of(made.code());
}

int refract_object_get(refract_objects* objects, const void* id, size_t id_bytes, uint64_t timeout_ms,
                       refract_object** object) {
  auto found = objects->objects.get(bytes_of(id, id_bytes), timeout_ms);
  if (found) *object = handle_of(std::move(*found));
  return number_of(found.code());
}

void refract_object_get_many(refract_objects* objects, refract_get* gets, size_t count, uint64_t timeout_ms) {
  std::vector<Bytes> ids;
  ids.reserve(count);
  for (const refract_get& get : std::span(gets, count)) ids.push_back(bytes_of(get.id, get.id_bytes));
  auto found = objects->objects.get(ids, timeout_ms);
  for (size_t i = 0; i < count; ++i) {
    gets[i].code = number_of(found[i].code());
    gets[i].object = found[i] ? handle_of(std::move(*found[i])) : nullptr;
  }
}

const void* refract_object_body(const refract_object* object) {
  return object->object.body().data();
}

uint64_t refract_object_body_bytes(const refract_object* object) {
  return object->object.body().size();
}

const void* refract_object_metadata(const refract_object* object) {
  return object->object.metadata().data();
}

uint32_t refract_object_metadata_bytes(const refract_object* object) {
  return static_cast<uint32_t>(object->object.metadata().size());
}

uint64_t refract_object_birth(const refract_object* object) {
  return object->object.birth();
}

void refract_object_digest(const refract_object* object, uint64_t digest[2]) {
  const refract::ObjectDigest whole = object->object.digest();
  digest[0] = whole.high;
  digest[1] = whole.low;
}

void refract_object_release(refract_object* object) {
  delete object;
}

int refract_object_contains(refract_objects* objects, const void* id, size_t id_bytes) {
  const Result<bool> found = objects->objects.contains(bytes_of(id, id_bytes));
  if (!found) return number_of(found.code());
  return *found ? REFRACT_OK : REFRACT_NOT_FOUND;
}

int refract_object_where(refract_objects* objects, const void* id, size_t id_bytes, refract_places* places,
                         size_t places_bytes, void (*visit)(void* context, const char* node), void* context) {
  const auto said = objects->objects.where(bytes_of(id, id_bytes));
  if (!said) return number_of(said.code());
  const refract_places all{.birth = said->birth,
                           .body_bytes = said->body_bytes,
                           .metadata_bytes = said->metadata_bytes,
                           .copies_wanted = said->copies_wanted,
                           .copies = said->copies};
  if (places != nullptr) std::memcpy(places, &all, std::min(places_bytes, sizeof(all)));
  for (const std::string& node : said->nodes) visit(context, node.c_str());
  return REFRACT_OK;
}

int refract_object_prefetch(refract_objects* objects, const void* id, size_t id_bytes, uint64_t timeout_ms) {
  const refract::Bytes one = bytes_of(id, id_bytes);
  return number_of(objects->objects.prefetch(std::span(&one, 1), timeout_ms).front());
}

int refract_object_set_copies(refract_objects* objects, const void* id, size_t id_bytes, uint32_t copies,
                              uint64_t timeout_ms, uint32_t* made) {
  const auto said = objects->objects.set_copies(bytes_of(id, id_bytes), copies, timeout_ms);
  if (said && made != nullptr) *made = said->copies;
  return number_of(said.code());
}

int refract_object_broadcast(refract_objects* objects, const void* id, size_t id_bytes,
                             const char* const* nodes, size_t count, uint64_t timeout_ms, uint64_t* missed,
                             void (*visit)(void* context, const refract_brought* node), void* context) {
  std::vector<std::string> names;
  names.reserve(count);
  for (const char* const name : std::span(nodes, count)) names.emplace_back(name);
  const auto done = objects->objects.broadcast(bytes_of(id, id_bytes), names, timeout_ms);
  if (!done) return number_of(done.code());
  if (missed != nullptr) *missed = done->missed;
  for (const refract::BroadcastNode& one : done->nodes) {
    const refract_brought node{.node = one.node.c_str(), .code = number_of(one.code)};
    visit(context, &node);
  }
  return REFRACT_OK;
}

int refract_objects_rank(refract_objects* objects, refract_rank_id* ids, size_t count, uint64_t timeout_ms,
                         void (*visit)(void* context, const refract_ranked* node), void* context) {
  std::vector<refract::Bytes> wanted;
  wanted.reserve(count);
  for (const refract_rank_id& one : std::span(ids, count)) wanted.push_back(bytes_of(one.id, one.id_bytes));
  const auto rank = objects->objects.rank(wanted, timeout_ms);
  if (!rank) return number_of(rank.code());
  for (size_t i = 0; i < count; ++i) ids[i].code = number_of(rank->ids[i]);
  for (const refract::RankedNode& one : rank->nodes) {
    const refract_ranked node{.node = one.node.c_str(),
                              .code = number_of(one.code),
                              .is_guessed = one.is_guessed ? 1 : 0,
                              .time_ns = one.time_ns,
                              .missing_bytes = one.missing_bytes,
                              .missing_objects = one.missing_objects,
                              .unreachable_objects = one.unreachable_objects};
    visit(context, &node);
  }
  return REFRACT_OK;
}

int refract_object_list(refract_objects* objects, uint64_t* cursor,
                        void (*visit)(void* context, const refract_listed* object), void* context) {
  const auto page = objects->objects.list(*cursor);
  if (!page) return number_of(page.code());
  for (const refract::ListedObject& one : page->objects) {
    const refract_listed listed{.id = one.id.data(),
                                .id_bytes = one.id.size(),
                                .birth = one.birth,
                                .body_bytes = one.body_bytes,
                                .metadata_bytes = one.metadata_bytes,
                                .is_kept = one.is_kept ? 1 : 0};
    visit(context, &listed);
  }
  *cursor = page->next;
  return REFRACT_OK;
}

int refract_object_remove(refract_objects* objects, const void* id, size_t id_bytes, uint64_t birth,
                          uint64_t* holders) {
  const Result<uint64_t> removed = objects->objects.remove(bytes_of(id, id_bytes), birth);
  if (removed && holders != nullptr) *holders = *removed;
  return number_of(removed.code());
}

int refract_object_evict(refract_objects* objects, uint64_t bytes, uint64_t* given_back) {
  const Result<uint64_t> evicted = objects->objects.evict(bytes);
  if (evicted && given_back != nullptr) *given_back = *evicted;
  return number_of(evicted.code());
}

int refract_object_keep(refract_objects* objects, const void* id, size_t id_bytes, int is_kept) {
  return number_of(objects->objects.keep(bytes_of(id, id_bytes), is_kept != 0));
}

int refract_objects_stat(refract_objects* objects, refract_object_stat* stat, size_t stat_bytes) {
  const auto said = objects->objects.stat();
  if (!said) return number_of(said.code());
  const refract_object_stat all{.limit = said->limit,
                                .used = said->used,
                                .sealed_bytes = said->sealed_bytes,
                                .creation_bytes = said->creation_bytes,
                                .removed_bytes = said->removed_bytes,
                                .held_bytes = said->held_bytes,
                                .kept_bytes = said->kept_bytes,
                                .objects = said->objects,
                                .creations = said->creations,
                                .removed = said->removed,
                                .held = said->held};
  std::memcpy(stat, &all, std::min(stat_bytes, sizeof(all)));
  return REFRACT_OK;
}

int refract_objects_subscribe(refract_objects* objects, refract_subscription** subscription) {
  auto made = objects->objects.subscribe();
  if (made) *subscription = new refract_subscription{.subscription = std::move(*made), .notice = {}};
  return number_of(made.code());
}

int refract_subscription_next(refract_subscription* subscription, uint64_t timeout_ms,
                              refract_notice* notice) {
  auto next = subscription->subscription.next(timeout_ms);
  if (!next) return number_of(next.code());
  subscription->notice = std::move(*next);
  const refract::ObjectNotice& shown = subscription->notice;
  *notice = {.kind = static_cast<int>(shown.kind),
             .metadata_bytes = shown.metadata_bytes,
             .birth = shown.birth,
             .body_bytes = shown.body_bytes,
             .id = shown.id.data(),
             .id_bytes = shown.id.size()};
  return REFRACT_OK;
}

void refract_subscription_end(refract_subscription* subscription) {
  delete subscription;
}
