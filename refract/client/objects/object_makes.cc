// SPDX-License-Identifier: Apache-2.0
// Making objects: creations, which may continue over another link, and whole ones; and removing them.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "refract/base/units.h"
#include "refract/client/objects/object_handles.h"
#include "refract/client/objects/object_work.h"
#include "refract/memory/host/limits.h"

namespace refract::client {

using object::Making;
using object::ObjectCalls;
using object::ObjectParts;
using object::ObjectRecord;
using runtime::Task;

namespace {

// The node copies what is filled while the next piece is: worth a message from so much on.
constexpr uint64_t kToldBytes = kMiB;
constexpr int kRemovesMax = 8;
// From so much on the node's limit is asked for before anything is taken: a message is nothing beside it.
constexpr uint64_t kAskedBytes = 256 * kMiB;

ObjectFacts facts_of(const Making& making) noexcept {
  return {.birth = making.birth(), .parts = making.parts};
}

void note_no_space(ObjectPeer& peer, const ObjectLink& link, uint64_t wanted) {
  const auto& said = link.no_space();
  if (!said) return;
  peer.set_trouble(
      {Code::kNoSpace,
       fmt::format("there is no room for {} bytes: of {} bytes {} are held by readers, {} are kept, and {} "
                   "are of objects that are being made",
                   wanted, said->limit, said->held, said->kept, said->in_creation),
       "wait for readers to let go, remove objects, or start the node with a larger --objects-limit"});
}

void note_home_away(ObjectPeer& peer) {
  peer.set_trouble(
      {Code::kAway,
       fmt::format("another node decides about this id, or must be heard first, and {}", away_text(peer)),
       "look whether all nodes run, with the same list: refract cluster"});
}

// What a node may take, beyond a message, to get memory for so many bytes: on a slow host 20 s for a GiB.
uint64_t growth_ns(uint64_t bytes) noexcept {
  return bytes / kMiB * (20 * kMillisecond_ns);
}

// Coroutines of their own, because a lambda that captures must not be one.
Task<Code> ask_create(ObjectPeer& peer, ObjectLink& link, Making& making, uint64_t room_timeout_ns) {
  const uint64_t deadline_ns =
      link.now_ns() + room_timeout_ns + link.timeout_ns() + growth_ns(making.parts.counted_bytes());
  const Code code = co_await link.calls().create(making, room_timeout_ns, deadline_ns);
  if (code == Code::kNoSpace) note_no_space(peer, link, making.parts.counted_bytes());
  if (code == Code::kAway) note_home_away(peer);
  co_return code;
}

Task<Code> ask_limit(ObjectLink& link, const Making& making) {
  const auto answer = co_await link.calls().stat();
  if (!answer) co_return answer.code();
  co_return making.parts.counted_bytes() > answer->limit ? Code::kTooLarge : Code::kOk;
}

// The creator's handle: by a pin where the memory is mapped here, else with the memory that was filled.
Task<Code> ask_seal(ObjectPeer& peer, ObjectLink& link, Creating& creating, Object& object) {
  Making& making = creating.making;
  const ObjectRecord record{.object_at = making.object_at,
                            .birth = making.birth(),
                            .body_bytes = making.parts.body_bytes,
                            .metadata_bytes = making.parts.metadata_bytes,
                            .flags = 0};
  int pin = -1;
  if (link.reader() != nullptr) {
    // Before it can be removed. A creation's memory is not given back, so nothing has to be looked at again.
    pin = link.reader()->pin(record);
    if (pin < 0) {
      peer.set_trouble({Code::kOverloaded, "this thread holds as many objects as one connection can",
                        "let go of some handles, then seal again"});
      co_return Code::kOverloaded;
    }
  }
  const Code code = co_await link.calls().seal(making);
  if (code == Code::kNoSpace) note_no_space(peer, link, making.parts.counted_bytes());
  const bool is_held = code == Code::kOk && pin >= 0 && making.object_at == record.object_at &&
                       link.reader() != nullptr && link.reader()->is_inside(record, creating.id.size());
  if (is_held) {
    ObjectHandles::hold(link, pin, record.object_at, facts_of(making), object);
  } else if (pin >= 0) {
    link.let_go(pin);
  }
  co_return code;
}

Task<Code> ask_filled(ObjectLink& link, Making& making, uint64_t bytes) {
  const Code code = co_await link.calls().filled(making, bytes);
  co_return code;
}

Task<Code> ask_end(ObjectLink& link, Making& making) {
  const Code code = co_await link.calls().end_creation(making);
  co_return code;
}

Task<Code> ask_put(ObjectPeer& peer, ObjectLink& link, const ObjectCalls::Put& put,
                   uint64_t room_timeout_ns) {
  const uint64_t deadline_ns = link.now_ns() + room_timeout_ns + link.timeout_ns();
  const Code code = co_await link.calls().put(put, room_timeout_ns, deadline_ns);
  if (code == Code::kNoSpace) note_no_space(peer, link, put.body.size() + put.metadata.size());
  if (code == Code::kAway) note_home_away(peer);
  co_return code;
}

Task<Code> ask_put_many(ObjectLink& link, std::span<ObjectCalls::Put> puts) {
  co_await link.calls().put_many(puts);
  // Each has its own; the worst of them says whether they go again.
  Code worst = Code::kOk;
  for (const ObjectCalls::Put& put : puts) {
    const bool is_unanswered = put.code == Code::kUnavailable || put.code == Code::kIndeterminate;
    if (is_unanswered && worst != Code::kIndeterminate) worst = put.code;
  }
  co_return worst;
}

Task<Code> ask_remove(ObjectLink& link, std::span<const std::byte> id, uint64_t birth,
                      ObjectCalls::Removed& removed) {
  auto answer = co_await link.calls().remove(id, birth);
  if (answer) removed = std::move(*answer);
  co_return answer.code();
}

// Fills what was created, tells the node of it piece by piece, and seals.
Task<Code> ask_fill_and_seal(ObjectLink& link, Creating& creating, const ObjectCalls::Put& put,
                             uint64_t& filled_bytes) {
  const std::span<std::byte> body = creating.body();
  while (filled_bytes < body.size()) {
    const uint64_t bytes = std::min(kToldBytes, body.size() - filled_bytes);
    std::memcpy(body.data() + filled_bytes, put.body.data() + filled_bytes, bytes);
    filled_bytes += bytes;
    if (filled_bytes == body.size()) break;
    const Code code = co_await link.calls().filled(creating.making, filled_bytes);
    if (code != Code::kOk) co_return code;
  }
  if (!put.metadata.empty()) {
    std::memcpy(creating.metadata().data(), put.metadata.data(), put.metadata.size());
  }
  const Code code = co_await link.calls().seal(creating.making);
  co_return code;
}

void note_refused_memory(ObjectPeer& peer, const object::Making& making, Code code) {
  if (code != Code::kOverloaded || !making.is_read_refused) return;
  peer.set_trouble(
      {code,
       fmt::format("the node cannot take the {} bytes that were filled: it has as many open files "
                   "as it may have, or as much memory of programs",
                   making.parts.filled_bytes()),
       "seal it again when less is being made, or raise the node's limit of open files (ulimit -n)"});
}

Task<Result<uint64_t>> put_large(ObjectPeer& peer, ClientState& client, ObjectCalls::Put put,
                                 uint64_t room_timeout_ns) {
  Creating creating(client, std::string(Bytes(put.id).text()));
  creating.making.claim = put.claim;
  creating.making.parts = {.body_bytes = put.body.size(),
                           .metadata_bytes = static_cast<uint32_t>(put.metadata.size()),
                           .id_bytes = static_cast<uint16_t>(put.id.size())};
  Code code = co_await create_object(peer, creating, room_timeout_ns);
  if (code != Code::kOk) co_return fail(code);
  uint64_t filled_bytes = 0;
  const ObjectPeer::Outcome outcome = co_await peer.drive(
      [&](ObjectLink& link) { return ask_fill_and_seal(link, creating, put, filled_bytes); });
  code = outcome.code;
  if (code == Code::kOk) co_return put.birth();
  note_refused_memory(peer, creating.making, code);
  // One that may have been sealed is no creation, or ends with the link.
  if (!creating.making.maybe_sealed) (void)co_await end_creation(peer, creating);
  co_return fail(code);
}

}  // namespace

Creating::Creating(ClientState& the_client, std::string the_id) : client(&the_client), id(std::move(the_id)) {
  client->refer();
  making.id = std::as_bytes(std::span(id));
}

Creating::~Creating() {
  if (buffer && !buffer->is_of_this_process()) {
    // A child has only a copy of what its parent continues to use.
    (void)buffer.release();
  } else if (buffer) {
    client->refer();
    client->take_back(std::move(buffer));
  }
  client->release();
}

Code Creating::take_memory() {
  const uint64_t bytes = making.parts.filled_bytes();
  if (bytes == 0) return Code::kOk;
  Result<SharedBufferHold> taken = client->take_memory(bytes);
  if (!taken) return taken.code();
  buffer = std::move(*taken);
  making.shared = buffer.get();
  making.bytes = buffer->bytes().data();
  // The padding travels, too.
  const uint64_t padding = making.parts.metadata_at() - ObjectParts::body_at() - making.parts.body_bytes;
  if (padding > 0) std::memset(making.bytes + making.parts.body_bytes, 0, padding);
  return Code::kOk;
}

std::span<std::byte> Creating::metadata() const noexcept {
  if (making.parts.metadata_bytes == 0) return {};
  return {making.bytes + (making.parts.metadata_at() - ObjectParts::body_at()), making.parts.metadata_bytes};
}

Task<Code> create_object(ObjectPeer& peer, Creating& creating, uint64_t room_timeout_ns) {
  if (creating.making.parts.counted_bytes() >= kAskedBytes) {
    // What the node refuses must not take the memory of this host before.
    const ObjectPeer::Outcome asked =
        co_await peer.drive([&](ObjectLink& link) { return ask_limit(link, creating.making); });
    if (asked.code != Code::kOk) co_return asked.code;
  }
  // Whether the owner READs depends on where the bytes are, so they have their place before.
  const Code code = creating.take_memory();
  if (code != Code::kOk) {
    const uint64_t bytes = creating.making.parts.filled_bytes();
    const Reported<> fits = check_own_room(bytes, true);
    const std::string why = fits ? "" : ": " + fits.error().what;
    peer.set_trouble(
        {code, fmt::format("this process gets no memory for {} bytes{}", bytes, why),
         "the object is filled there before the node copies it: look at this process's limits of "
         "memory, open files (ulimit -n) and file sizes (ulimit -f)"});
    co_return code;
  }
  const ObjectPeer::Outcome outcome = co_await peer.drive(
      [&](ObjectLink& link) { return ask_create(peer, link, creating.making, room_timeout_ns); });
  creating.is_open = outcome.code == Code::kOk;
  co_return outcome.code;
}

Task<Code> tell_filled(ObjectPeer& peer, Creating& creating, uint64_t bytes) {
  const ObjectPeer::Outcome outcome =
      co_await peer.drive([&](ObjectLink& link) { return ask_filled(link, creating.making, bytes); });
  co_return outcome.code;
}

Task<Result<Object>> seal_object(ObjectPeer& peer, Creating& creating) {
  Object object;
  const ObjectPeer::Outcome outcome =
      co_await peer.drive([&](ObjectLink& link) { return ask_seal(peer, link, creating, object); });
  const Code code = outcome.code;
  const bool may_go_again = code == Code::kOverloaded || code == Code::kUnavailable ||
                            code == Code::kDeadlineExceeded || code == Code::kNoSpace;
  creating.is_open = may_go_again;
  note_refused_memory(peer, creating.making, code);
  if (code != Code::kOk) co_return fail(code);
  const bool is_mapped = peer.link() != nullptr && peer.link()->reader() != nullptr;
  if (object.birth() != 0) co_return std::move(object);
  if (is_mapped) {
    // It was sealed at another place than it was created at, or over another link.
    Result<Object> found = co_await get_object(peer, creating.making.id, Until{});
    if (found && found->birth() != creating.making.birth()) co_return fail(Code::kNotFound);
    co_return std::move(found);
  }
  ObjectMemory* memory = nullptr;
  if (creating.buffer)
    memory = ObjectMemory::adopt(std::move(creating.buffer), *creating.client, creating.id);
  if (memory == nullptr) memory = ObjectMemory::make(0, creating.id);
  co_return ObjectHandles::of_memory(memory, facts_of(creating.making));
}

Task<Code> end_creation(ObjectPeer& peer, Creating& creating) {
  creating.is_open = false;
  const ObjectPeer::Outcome outcome =
      co_await peer.drive([&](ObjectLink& link) { return ask_end(link, creating.making); });
  // By the attempt that was lost, or with the link.
  if (outcome.was_lost && outcome.code == Code::kNotFound) co_return Code::kOk;
  co_return outcome.code;
}

Task<Result<uint64_t>> put_object(ObjectPeer& peer, ClientState& client, ObjectCalls::Put put,
                                  uint64_t room_timeout_ns) {
  Patience patience;
  while (peer.link() == nullptr || peer.link()->state() != Link::State::kUp) {
    const bool is_there = co_await peer.await_server(patience);
    if (!is_there) co_return fail(peer.unreached());
  }
  put.claim = peer.new_claim();
  if (!peer.link()->calls().fits_message(put)) {
    const Result<uint64_t> birth = co_await put_large(peer, client, put, room_timeout_ns);
    co_return birth;
  }
  const ObjectPeer::Outcome outcome =
      co_await peer.drive([&](ObjectLink& link) { return ask_put(peer, link, put, room_timeout_ns); });
  if (outcome.code != Code::kOk) co_return fail(outcome.code);
  co_return put.birth();
}

Task<> put_objects(ObjectPeer& peer, ClientState& client, std::span<PutObject> objects) {
  Patience patience;
  while (peer.link() == nullptr || peer.link()->state() != Link::State::kUp) {
    const bool is_there = co_await peer.await_server(patience);
    if (is_there) continue;
    for (PutObject& one : objects) one.result = fail(peer.unreached());
    co_return;
  }
  std::vector<ObjectCalls::Put> puts;
  std::vector<PutObject*> of_puts;
  std::vector<PutObject*> large;
  for (PutObject& one : objects) {
    if (one.result.code() == Code::kInvalidArgument) continue;
    const ObjectCalls::Put put{
        .id = one.id, .body = one.body, .metadata = one.metadata, .claim = peer.new_claim()};
    if (!peer.link()->calls().fits_message(put)) {
      large.push_back(&one);
      continue;
    }
    puts.push_back(put);
    of_puts.push_back(&one);
  }
  if (!puts.empty()) {
    // All go again where some were lost: by their claims they are known.
    const ObjectPeer::Outcome outcome =
        co_await peer.drive([&](ObjectLink& link) { return ask_put_many(link, puts); });
    for (size_t i = 0; i < puts.size(); ++i) {
      const bool is_unanswered = puts[i].code == Code::kUnavailable || puts[i].code == Code::kIndeterminate;
      const Code code = is_unanswered ? outcome.code : puts[i].code;
      of_puts[i]->result = code == Code::kOk ? Result<uint64_t>(puts[i].birth()) : fail(code);
    }
  }
  for (PutObject* one : large) {
    one->result =
        co_await put_object(peer, client, {.id = one->id, .body = one->body, .metadata = one->metadata}, 0);
  }
}

Task<Result<uint64_t>> remove_object(ObjectPeer& peer, std::span<const std::byte> id, uint64_t birth,
                                     std::vector<std::string>& missed) {
  for (int attempt = 0; attempt < kRemovesMax; ++attempt) {
    uint64_t named = birth;
    if (birth == 0) {
      // By its birth, so that a call that goes again does not remove what was made meanwhile.
      const Result<ObjectRecord> record = co_await look_for_object(peer, id);
      if (!record) co_return fail(record.error());
      named = record->birth;
    }
    ObjectCalls::Removed removed;
    const ObjectPeer::Outcome outcome =
        co_await peer.drive([&](ObjectLink& link) { return ask_remove(link, id, named, removed); });
    if (outcome.code == Code::kOk) {
      missed = std::move(removed.missed);
      co_return removed.holders;
    }
    if (outcome.code == Code::kAway) note_home_away(peer);
    const bool is_gone = outcome.code == Code::kNotFound || outcome.code == Code::kVersionMismatch;
    if (is_gone && outcome.was_lost) co_return fail(Code::kIndeterminate);
    if (outcome.code != Code::kVersionMismatch || birth != 0) co_return fail(outcome.code);
  }
  co_return fail(Code::kVersionMismatch);
}

}  // namespace refract::client
