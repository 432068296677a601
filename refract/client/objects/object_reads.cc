// SPDX-License-Identifier: Apache-2.0
// Getting objects: directly where the memory is mapped here, else by fetching them; and waiting for them.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "refract/base/units.h"
#include "refract/client/objects/object_handles.h"
#include "refract/client/objects/object_work.h"
#include "refract/kv/calls/task_team.h"
#include "refract/memory/host/limits.h"

namespace refract::client {

using object::ObjectCalls;
using object::ObjectParts;
using object::ObjectRecord;
using runtime::Task;
using Held = ObjectLink::Reader::Held;

namespace {

// The server is asked again after so long, so that one that hangs is noticed.
constexpr uint64_t kSlice_ns = 5 * kSecond_ns;
constexpr uint64_t kRetry_ns = 10 * kMillisecond_ns;
constexpr int kHoldsByCallsMax = 8;
// Of the awaits and fetches that a session may have.
constexpr size_t kSideBySideMax = 16;
constexpr size_t kKeysAPage = 256;

ObjectFacts facts_of(uint64_t birth, uint64_t body_bytes, uint32_t metadata_bytes, size_t id_bytes) noexcept {
  return {.birth = birth,
          .parts = {.body_bytes = body_bytes,
                    .metadata_bytes = metadata_bytes,
                    .id_bytes = static_cast<uint16_t>(id_bytes)}};
}

// REQUIRES: `object` is of nothing.
void give_handle(ObjectLink& link, const Held& held, size_t id_bytes, Object& object) noexcept {
  const ObjectRecord& record = held.record;
  link.note_use(record.object_at);
  ObjectHandles::hold(link, held.pin, record.object_at,
                      facts_of(record.birth, record.body_bytes, record.metadata_bytes, id_bytes), object);
}

Report too_many_handles() {
  return {Code::kOverloaded, "this thread holds as many objects as one connection can",
          "let go of some handles first, or get these in another thread"};
}

ObjectRecord record_of(const object::wire::ObjectReply& reply) noexcept {
  return {.object_at = reply.object_at,
          .birth = reply.birth,
          .body_bytes = reply.body_bytes,
          .metadata_bytes = reply.metadata_bytes,
          .flags = reply.flags};
}

// Coroutines of their own, because a lambda that captures must not be one.
Task<Code> ask_await(ObjectLink& link, std::span<const std::byte> id, uint64_t slice_ns, ObjectRecord& record,
                     ObjectCalls::CopyWish wish = {0, 0}) {
  const uint64_t deadline_ns = link.now_ns() + slice_ns + link.timeout_ns();
  const auto reply = co_await link.calls().await(id, slice_ns, deadline_ns, wish);
  if (reply) record = record_of(*reply);
  co_return reply.code();
}

Task<Code> ask_fetch(ObjectLink& link, std::span<const std::byte> id, uint64_t slice_ns,
                     ObjectCalls::Room& room, ObjectRecord& record) {
  const uint64_t deadline_ns = link.now_ns() + slice_ns + link.timeout_ns();
  const auto reply = co_await link.calls().fetch(id, slice_ns, room, deadline_ns);
  if (reply) record = record_of(*reply);
  co_return reply.code();
}

// For what the table leaves to the owner: named by it, pinned, and named by it again.
Task<Code> hold_by_calls(ObjectLink& link, std::span<const std::byte> id, Object& object) {
  for (int attempt = 0; attempt < kHoldsByCallsMax; ++attempt) {
    Held held;
    Code code = co_await ask_await(link, id, 0, held.record);
    if (code != Code::kOk) co_return code;
    if (link.reader() == nullptr) co_return Code::kUnavailable;
    if (!link.reader()->is_inside(held.record, id.size())) co_return Code::kCorrupt;
    held.pin = link.reader()->pin(held.record);
    if (held.pin < 0) co_return Code::kOverloaded;
    // Lets go of it unless it is given on.
    Object pinned;
    give_handle(link, held, id.size(), pinned);
    ObjectRecord again{};
    code = co_await ask_await(link, id, 0, again);
    if (code == Code::kOk && again.object_at == held.record.object_at && again.birth == held.record.birth) {
      object = std::move(pinned);
      co_return Code::kOk;
    }
  }
  co_return Code::kOverloaded;
}

class FetchRoom final : public ObjectCalls::Room {
 public:
  explicit FetchRoom(std::span<const std::byte> id) noexcept : id_(id) {}
  FetchRoom(const FetchRoom&) = delete;
  FetchRoom& operator=(const FetchRoom&) = delete;
  ~FetchRoom() { drop(); }

  [[nodiscard]] std::byte* room(const ObjectParts& parts) override {
    drop();
    asked_bytes_ = parts.filled_bytes();
    memory_ = ObjectMemory::make(parts.filled_bytes(), std::string(Bytes(id_).text()));
    return memory_ == nullptr ? nullptr : memory_->bytes();
  }
  [[nodiscard]] ObjectMemory* take() noexcept { return std::exchange(memory_, nullptr); }
  [[nodiscard]] uint64_t asked_bytes() const noexcept { return asked_bytes_; }

 private:
  void drop() noexcept {
    if (memory_ != nullptr) std::exchange(memory_, nullptr)->end();
  }

  std::span<const std::byte> id_;
  ObjectMemory* memory_ = nullptr;
  uint64_t asked_bytes_ = 0;
};

uint64_t slice_of(const ObjectPeer& peer, Until until) noexcept {
  const uint64_t now_ns = peer.shard().refresh_now();
  return until.moment_ns > now_ns ? std::min(until.moment_ns - now_ns, kSlice_ns) : 0;
}

// One that has to be asked for; it waits until the slice is over.
Task<Result<Object>> fetch_object(ObjectPeer& peer, std::span<const std::byte> id, Until until) {
  FetchRoom room(id);
  ObjectRecord record{};
  const ObjectPeer::Outcome outcome = co_await peer.drive(
      [&](ObjectLink& link) { return ask_fetch(link, id, slice_of(peer, until), room, record); });
  if (outcome.code == Code::kTooLarge) {
    const Reported<> fits = check_own_room(room.asked_bytes(), false);
    peer.set_trouble(fits ? Report{Code::kNoSpace, "there is no memory in this process for the object", ""}
                          : fits.error());
    co_return fail(Code::kNoSpace);
  }
  if (outcome.code != Code::kOk) co_return fail(outcome.code);
  co_return ObjectHandles::of_memory(
      room.take(), facts_of(record.birth, record.body_bytes, record.metadata_bytes, id.size()));
}

// Where the memory is mapped: until the owner says that it is there, or the slice is over.
Task<Code> await_copy(ObjectPeer& peer, std::span<const std::byte> id, Until until,
                      ObjectCalls::CopyWish wish) {
  ObjectRecord record{};
  const ObjectPeer::Outcome outcome = co_await peer.drive(
      [&](ObjectLink& link) { return ask_await(link, id, slice_of(peer, until), record, wish); });
  if (outcome.code == Code::kNoSpace) {
    peer.set_trouble(
        {Code::kNoSpace, "the node has no room for a copy: what it has is held, kept or being made",
         "let go of objects, or give the node more memory: refract object stat says what it has"});
  }
  co_return outcome.code;
}

Task<Code> await_object(ObjectPeer& peer, std::span<const std::byte> id, Until until) {
  co_return co_await await_copy(peer, id, until, {0, 0});
}

// Codes of the direct reader, and kUnavailable: there is no link to read by.
Task<Code> hold_directly(ObjectPeer& peer, std::span<const std::byte> id, Patience& growth, Object& object) {
  for (;;) {
    ObjectLink* const link = peer.reading();
    if (link == nullptr) co_return Code::kUnavailable;
    const Held held = link->reader()->hold(id);
    Code code = held.code;
    if (code == Code::kOk) give_handle(*link, held, id.size(), object);
    if (code == Code::kInvalidated) {
      const ObjectPeer::Outcome outcome =
          co_await peer.drive([&](ObjectLink& at) { return hold_by_calls(at, id, object); });
      code = outcome.code;
    }
    if (code == Code::kOverloaded) peer.set_trouble(too_many_handles());
    if (code != Code::kCorrupt || peer.link() == nullptr) co_return code;
    const bool has_grown = co_await peer.await_growth(*peer.link(), growth);
    if (!has_grown) co_return code;
  }
}

// Whether a wait that ended so may be continued: reads need no server.
bool may_wait_on(const ObjectPeer& peer, Code code) noexcept {
  const bool is_away =
      code == Code::kUnavailable || code == Code::kDeadlineExceeded || code == Code::kOverloaded;
  return is_away && peer.link() != nullptr && peer.link()->reader() != nullptr;
}

struct GetTeam {
  ObjectPeer& peer;
  std::span<const Bytes> ids;
  std::span<Result<Object>> objects;
  Until until;
  size_t next;
  kv::TaskTeam tasks;
};

Task<> get_some(GetTeam& team) {
  while (team.next < team.ids.size()) {
    const size_t index = team.next++;
    if (team.objects[index]) continue;
    if (team.objects[index].code() == Code::kInvalidArgument) continue;
    team.objects[index] = co_await get_object(team.peer, team.ids[index], team.until);
  }
  team.tasks.leave();
}

}  // namespace

bool get_at_once(ObjectPeer& peer, std::span<const std::byte> id, Result<Object>& object) {
  ObjectLink* const link = peer.reading();
  if (link == nullptr) [[unlikely]] {
    object = fail(Code::kUnavailable);
    return false;
  }
  const Held held = link->reader()->hold(id);
  if (held.code == Code::kOk) [[likely]] {
    give_handle(*link, held, id.size(), *object);
    return true;
  }
  object = fail(held.code);
  return held.code == Code::kNotFound && !link->shares_objects();
}

Task<Result<Object>> get_object(ObjectPeer& peer, std::span<const std::byte> id, Until until) {
  Patience growth;
  for (;;) {
    if (peer.link() == nullptr || peer.link()->state() == Link::State::kEnded) {
      Patience reach;
      const bool is_there = co_await peer.await_server(reach);
      if (!is_there) co_return fail(peer.unreached());
    }
    if (peer.reading() == nullptr) {
      // Over a network, or told to ask: the answer has the bytes.
      Result<Object> object = co_await fetch_object(peer, id, until);
      if (object.code() == Code::kInvalidated) continue;  // On its way from another node.
      if (object.code() == Code::kAway) note_away(peer);
      if (object.code() != Code::kNotFound || slice_of(peer, until) == 0) co_return std::move(object);
      continue;
    }
    Object object;
    const Code code = co_await hold_directly(peer, id, growth, object);
    if (code == Code::kOk) co_return std::move(object);
    if (code == Code::kUnavailable) continue;
    if (code != Code::kNotFound) co_return fail(code);
    const bool is_over = slice_of(peer, until) == 0;
    const bool is_shared = peer.link() != nullptr && peer.link()->shares_objects();
    if (is_over && !is_shared) co_return fail(code);
    const Code awaited = co_await await_object(peer, id, until);
    if (awaited == Code::kNotFound && is_over) co_return fail(awaited);
    if (awaited == Code::kOk || awaited == Code::kNotFound || awaited == Code::kInvalidated) continue;
    if (awaited == Code::kAway) note_away(peer);
    if (is_over) co_return fail(awaited);
    if (!may_wait_on(peer, awaited)) co_return fail(awaited);
    // The server is stopped or away, and may have sealed it before.
    co_await peer.shard().sleep_for(std::min(slice_of(peer, until), kRetry_ns));
  }
}

Task<> get_objects(ObjectPeer& peer, std::span<const Bytes> ids, std::span<Result<Object>> objects,
                   Until until) {
  GetTeam team{.peer = peer,
               .ids = ids,
               .objects = objects,
               .until = until,
               .next = 0,
               .tasks = kv::TaskTeam(peer.shard())};
  for (size_t i = 0; i < std::min(ids.size(), kSideBySideMax); ++i) team.tasks.add(get_some(team));
  co_await team.tasks.run();
}

namespace {

Task<Code> ask_where(ObjectLink& link, std::span<const std::byte> id, ObjectPlaces& places) {
  auto reply = co_await link.calls().where(id);
  link.shares_nothing = reply.code() == Code::kUnsupported;
  if (!reply) co_return reply.code();
  places = {.birth = reply->reply.birth,
            .body_bytes = reply->reply.body_bytes,
            .metadata_bytes = reply->reply.metadata_bytes,
            .nodes = std::move(reply->nodes),
            .copies_wanted = reply->reply.wanted,
            .copies = reply->reply.counted};
  co_return Code::kOk;
}

Task<Code> ask_copies(ObjectLink& link, std::span<const std::byte> id, ObjectCopies& copies,
                      uint64_t timeout_ns) {
  const auto reply = co_await link.calls().set_copies(
      id, {.birth = copies.birth, .timeout_ns = timeout_ns, .wanted = static_cast<uint8_t>(copies.wanted)});
  if (!reply) co_return reply.code();
  copies = {.birth = reply->birth, .wanted = reply->wanted, .copies = reply->counted};
  co_return Code::kOk;
}

struct PrefetchTeam {
  ObjectPeer& peer;
  std::span<const Bytes> ids;
  std::span<Code> codes;
  Until until;
  ObjectCalls::CopyWish wish;
  size_t next;
  kv::TaskTeam tasks;
};

Task<> prefetch_some(PrefetchTeam& team) {
  while (team.next < team.ids.size()) {
    const size_t index = team.next++;
    Code& code = team.codes[index];
    if (code == Code::kInvalidArgument) continue;
    do {
      code = co_await await_copy(team.peer, team.ids[index], team.until, team.wish);
    } while (code == Code::kInvalidated || (code == Code::kNotFound && slice_of(team.peer, team.until) > 0));
    if (code == Code::kAway) note_away(team.peer);
  }
  team.tasks.leave();
}

}  // namespace

Task<> prefetch_objects(ObjectPeer& peer, std::span<const Bytes> ids, std::span<Code> codes, Until until,
                        const PrefetchOptions& options) {
  using object::wire::AwaitRequest;
  const auto flags =
      static_cast<uint8_t>(AwaitRequest::kInAdvance | (options.is_checked ? AwaitRequest::kChecked : 0));
  PrefetchTeam team{.peer = peer,
                    .ids = ids,
                    .codes = codes,
                    .until = until,
                    .wish = {.transfer = static_cast<uint8_t>(options.transfer), .flags = flags},
                    .next = 0,
                    .tasks = kv::TaskTeam(peer.shard())};
  for (size_t i = 0; i < std::min(ids.size(), kSideBySideMax); ++i) team.tasks.add(prefetch_some(team));
  co_await team.tasks.run();
}

void note_away(ObjectPeer& peer) {
  peer.set_trouble(
      {Code::kAway,
       fmt::format("it is not here; {}, and may have it, or know which node has", away_text(peer)),
       "look whether all nodes run, with the same list: refract cluster"});
}

void note_shares_nothing(ObjectPeer& peer) {
  peer.set_trouble({Code::kUnsupported, "the node shares its objects with no other node",
                    "start it with --cluster-nodes and --cluster-secret-file"});
}

namespace {

[[nodiscard]] ObjectPath path_of(object::ObjectCalls::Path&& told) {
  const object::wire::PathEntry& entry = told.path;
  ObjectPath path{.node = std::move(told.name),
                  .round_trip_ns = entry.round_trip_ns,
                  .bytes_per_s = entry.bytes_per_s,
                  .switch_bytes = std::nullopt,
                  .curve = {}};
  if (entry.switch_bytes != 0 && entry.switch_bytes != UINT64_MAX) path.switch_bytes = entry.switch_bytes;
  for (size_t i = 0; i < object::wire::kPathSizes; ++i) {
    if (entry.message_ns[i] == 0 && entry.read_ns[i] == 0) continue;
    path.curve.push_back(
        {.bytes = kKiB << i, .message_ns = entry.message_ns[i], .read_ns = entry.read_ns[i]});
  }
  return path;
}

Task<Code> ask_paths(ObjectLink& link, std::vector<ObjectPath>& paths) {
  uint32_t next = 0;
  paths.clear();
  do {
    auto page = co_await link.calls().paths(next);
    if (!page) co_return page.code();
    for (ObjectCalls::Path& told : page->paths) paths.push_back(path_of(std::move(told)));
    next = page->next;
  } while (next != 0);
  co_return Code::kOk;
}

}  // namespace

Task<Result<std::vector<ObjectPath>>> object_paths(ObjectPeer& peer) {
  std::vector<ObjectPath> paths;
  const ObjectPeer::Outcome outcome =
      co_await peer.drive([&](ObjectLink& link) { return ask_paths(link, paths); });
  if (outcome.code == Code::kUnsupported) {
    peer.set_trouble({Code::kUnsupported, "the node shares its objects with no other node",
                      "start it with --cluster-nodes and --cluster-secret-file"});
  }
  if (outcome.code != Code::kOk) co_return fail(outcome.code);
  co_return paths;
}

Task<Result<ObjectPlaces>> locate_object(ObjectPeer& peer, std::span<const std::byte> id) {
  ObjectPlaces places;
  const ObjectPeer::Outcome outcome =
      co_await peer.drive([&](ObjectLink& link) { return ask_where(link, id, places); });
  if (outcome.code == Code::kAway) note_away(peer);
  if (outcome.code == Code::kUnsupported) note_shares_nothing(peer);
  if (outcome.code != Code::kOk) co_return fail(outcome.code);
  co_return places;
}

Task<Code> set_object_copies(ObjectPeer& peer, std::span<const std::byte> id, ObjectCopies& copies,
                             uint64_t timeout_ns) {
  const ObjectPeer::Outcome outcome = co_await peer.drive(
      [&](ObjectLink& link) { return ask_copies(link, id, copies, timeout_ns); }, /*may_repeat=*/false);
  if (outcome.code == Code::kAway) note_away(peer);
  if (outcome.code == Code::kUnsupported) note_shares_nothing(peer);
  co_return outcome.code;
}

Task<Result<ObjectRecord>> look_for_object(ObjectPeer& peer, std::span<const std::byte> id) {
  ObjectRecord record{};
  if (ObjectLink* const link = peer.reading(); link != nullptr) {
    const Code code = link->reader()->look(id, record);
    if (code == Code::kOk) co_return record;
    if (code == Code::kNotFound && !link->shares_objects()) co_return fail(code);
  }
  if (peer.link() == nullptr || !peer.link()->shares_nothing) {
    const auto places = co_await locate_object(peer, id);
    if (places) {
      record.birth = places->birth;
      record.body_bytes = places->body_bytes;
      record.metadata_bytes = places->metadata_bytes;
      co_return record;
    }
    if (places.code() != Code::kUnsupported) co_return fail(places.code());
  }
  const ObjectPeer::Outcome outcome =
      co_await peer.drive([&](ObjectLink& link) { return ask_await(link, id, 0, record); });
  if (outcome.code != Code::kOk) co_return fail(outcome.code);
  co_return record;
}

namespace {

Task<Code> ask_list(ObjectLink& link, uint64_t cursor, ObjectPage& page) {
  auto listed = co_await link.calls().list(cursor);
  if (!listed) co_return listed.code();
  page.next = listed->next;
  for (ObjectCalls::Listed& one : listed->objects) {
    page.objects.push_back({.id = std::move(one.id),
                            .birth = one.object.birth,
                            .body_bytes = one.object.body_bytes,
                            .metadata_bytes = one.object.metadata_bytes,
                            .is_kept = (one.object.flags & ObjectRecord::kKept) != 0,
                            .is_sealed = one.object.is_sealed != 0,
                            .holders = one.object.holders});
  }
  co_return Code::kOk;
}

Code list_directly(ObjectLink::Reader& reader, uint64_t cursor, ObjectPage& page) {
  const auto read =
      reader.scan(cursor, kKeysAPage, [&](std::span<const std::byte> id, const ObjectRecord& record) {
        page.objects.push_back({.id = std::string(Bytes(id).text()),
                                .birth = record.birth,
                                .body_bytes = record.body_bytes,
                                .metadata_bytes = record.metadata_bytes,
                                .is_kept = (record.flags & ObjectRecord::kKept) != 0,
                                .is_sealed = true,
                                .holders = std::nullopt});
      });
  page.next = read.next;
  return read.code;
}

}  // namespace

Task<Result<ObjectPage>> list_objects(ObjectPeer& peer, uint64_t cursor, Listing listing) {
  ObjectPage page;
  if (ObjectLink* const link = peer.reading(); link != nullptr && listing == Listing::kSealed) {
    const Code code = list_directly(*link->reader(), cursor, page);
    if (code == Code::kOk) co_return std::move(page);
    page = {};
  }
  const ObjectPeer::Outcome outcome =
      co_await peer.drive([&](ObjectLink& link) { return ask_list(link, cursor, page); });
  if (outcome.code != Code::kOk) co_return fail(outcome.code);
  if (listing == Listing::kSealed) {
    std::erase_if(page.objects, [](const ListedObject& one) { return !one.is_sealed; });
    for (ListedObject& one : page.objects) one.holders.reset();
  }
  co_return std::move(page);
}

}  // namespace refract::client
