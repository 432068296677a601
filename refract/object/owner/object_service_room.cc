// SPDX-License-Identifier: Apache-2.0
// Creations and whole objects find room, or wait for it: until memory comes, until something goes, or until
// a timer looks again what readers hold.
#include <algorithm>
#include <utility>

#include "refract/memory/remote_visible.h"
#include "refract/object/layout/object_birth.h"
#include "refract/object/owner/object_service_state.h"

namespace refract::object {

using kv::wire::take;
using wire::Method;

namespace {

constexpr size_t kWaitingMax = 256;
constexpr size_t kWaitingPerSession = 32;
constexpr uint64_t kWaitingBytesMax = 8 * kMiB;
constexpr uint64_t kPauseMin_ns = kMillisecond_ns;
constexpr uint64_t kPauseMax_ns = 10 * kMillisecond_ns;
// So often the first one that waits is overtaken, and then has so long a turn; of the next ones twice as
// often. So a large one comes, and one that never can costs the others little.
constexpr uint64_t kOvertakings = 16;
constexpr uint64_t kTurn_ns = 100 * kMillisecond_ns;
constexpr int kTurnsDoubled = 40;

bool has_lengths_of(const ObjectParts& parts, const MakeCall& making) noexcept {
  return parts.body_bytes == making.body_bytes && parts.metadata_bytes == making.metadata_bytes;
}

// REQUIRES: no READ is under way into it.
void fill(Writer& writer, const Creation& creation, const MakeCall& making) {
  const ObjectParts& parts = creation.parts;
  const Offset body_at = creation.object.plus(ObjectParts::body_at());
  if (!making.body.empty()) writer.copy(body_at, making.body);
  const uint64_t padding = parts.metadata_at() - ObjectParts::body_at() - parts.body_bytes;
  writer.zero(body_at.plus(parts.body_bytes), padding);
  if (!making.metadata.empty()) writer.copy(creation.object.plus(parts.metadata_at()), making.metadata);
}

}  // namespace

void ObjectService::State::make(const MakeCall& making, Session& session) {
  const Code code = try_make(making, session);
  if (code == Code::kOk) return;
  if (code != Code::kNoSpace) return refuse(making, code);
  release_for(making);
  if (!room_may_come(making.until_ns)) return refuse(making, code);
  Waiting one{.making = making};
  for (auto* part : {&one.making.id, &one.making.body, &one.making.metadata}) {
    const size_t at = one.bytes.size();
    one.bytes.resize(at + part->size());
    if (!part->empty()) copy_possibly_torn(&one.bytes[at], part->data(), part->size());
  }
  std::span<const std::byte> rest = one.bytes;
  for (auto* part : {&one.making.id, &one.making.body, &one.making.metadata}) {
    const size_t bytes = part->size();
    *part = rest.first(bytes);
    rest = rest.subspan(bytes);
  }
  if (!wait_for_room(one)) refuse(making, Code::kOverloaded);
}

void ObjectService::State::refuse(const MakeCall& making, Code code) {
  unclaim_unmade(making.id, making.birth);
  code == Code::kNoSpace ? answer_no_space(making.from) : answer(making.from, code);
}

// Where copies are bound, others may have them instead.
void ObjectService::State::release_for(const MakeCall& making) {
  if (parts.elsewhere == nullptr || parts.store.shortage().is_under_way) return;
  if (parts.store.shortage().wanted_bytes == 0) {
    parts.elsewhere->release(making.body_bytes + making.metadata_bytes);
  }
}

// kOk: it is answered.
Code ObjectService::State::try_make(const MakeCall& making, Session& session) {
  const bool is_put = making.method != Method::kCreate;
  const ObjectStore::NewObject object{.id = making.id,
                                      .birth = making.birth,
                                      .body_bytes = making.body_bytes,
                                      .metadata_bytes = making.metadata_bytes};
  OpenCreation* const open = opens.find(text_of(making.id));
  if (open != nullptr && open->birth() == making.birth) {
    // The same call, sent again.
    if (open->is_ending) return Code::kOverloaded;
    if (!has_lengths_of(open->made.parts, making)) return Code::kInvalidArgument;
    if (is_put) return put_into(*open, making, object);
    const Code code = claim(*open, session);
    if (code == Code::kOk) (void)answer_create(making.from, *open, making.wants_window);
    return code;
  }
  is_held_back = is_turn_of_first();
  if (is_held_back) return Code::kNoSpace;
  if (!is_put && session.creations.size() >= wire::kCreationsPerSession) return Code::kOverloaded;
  if (is_put) return put_whole(making, object);
  const Result<Creation> made = parts.store.create(object);
  if (!made) return made.error().code;
  ++rooms_taken;
  if (made->is_sealed) {
    wire::CreateReply reply{};
    reply.object_at = made->object.value;
    reply.is_sealed = 1;
    answer(making.from, reply);
    return Code::kOk;
  }
  OpenCreation& added = opens.add(text_of(making.id), *made);
  added.session = session.id;
  session.creations.push_back(added.number);
  if (!answer_create(making.from, added, making.wants_window)) end(added);
  return Code::kOk;
}

// A creation that was begun by another call of this birth.
Code ObjectService::State::put_into(OpenCreation& open, const MakeCall& making,
                                    const ObjectStore::NewObject& object) {
  if (open.bytes_under_way > 0) return Code::kOverloaded;
  refuse_seals(open, Code::kAccessDenied);
  close_window(open);
  remove(open);
  return put_whole(making, object);
}

Code ObjectService::State::put_whole(const MakeCall& making, const ObjectStore::NewObject& object) {
  const Result<Object> made =
      parts.store.make(object, [&](const Creation& room) { fill(parts.writer, room, making); });
  if (!made) return made.error().code;
  ++rooms_taken;
  if (making.method == Method::kPut) answer(making.from, wire::SealReply{made->object.value});
  return Code::kOk;
}

bool ObjectService::State::is_turn_of_first() const {
  return !waiting.empty() && parts.shard.now_ns() < waiting.front().turn_until_ns;
}

void ObjectService::State::give_turn(Waiting& first) {
  const uint64_t now_ns = parts.shard.now_ns();
  if (first.turn_until_ns == 0) {
    first.turn_until_ns = now_ns;
    first.rooms_taken_before = rooms_taken;
  }
  if (now_ns < first.turn_until_ns || rooms_taken - first.rooms_taken_before < kOvertakings << first.turns) {
    return;
  }
  first.turns = std::min(first.turns + 1, kTurnsDoubled);
  first.turn_until_ns = moment_after(now_ns, kTurn_ns);
  first.rooms_taken_before = rooms_taken;
}

bool ObjectService::State::room_may_come(uint64_t until_ns) {
  if (std::exchange(is_held_back, false)) return true;
  const ObjectStore::Shortage shortage = parts.store.shortage();
  if (shortage.wanted_bytes > 0) {
    parts.growth.want(shortage.wanted_bytes);
    return true;
  }
  is_under_way = is_under_way || shortage.is_under_way;
  return shortage.is_under_way || parts.shard.now_ns() < until_ns;
}

// False: too many wait, and it is as it was.
bool ObjectService::State::wait_for_room(Waiting& one) {
  const auto its_own =
      std::ranges::count_if(waiting, [&](const Waiting& other) { return other.session() == one.session(); });
  if (waiting.size() >= kWaitingMax || static_cast<size_t>(its_own) >= kWaitingPerSession ||
      waiting_bytes + one.bytes_kept() > kWaitingBytesMax) {
    return false;
  }
  waiting_bytes += one.bytes_kept();
  waiting.push_back(std::move(one));
  retry_pause_ns = kPauseMin_ns;
  const uint64_t now_ns = parts.shard.now_ns();
  retry_ns = std::min(retry_ns, is_under_way ? now_ns : moment_after(now_ns, retry_pause_ns));
  return true;
}

void ObjectService::State::answer_no_space(const rpc::Responder& to) {
  const ObjectAccounts& accounts = parts.store.accounts();
  const HeldBytes& bytes = held();
  const wire::NoSpaceReply reply{.limit = accounts.limit,
                                 .held = bytes.sealed_bytes + accounts.departed_bytes,
                                 .kept = bytes.kept_only_bytes,
                                 .in_creation = accounts.creation_bytes};
  answer(to, Code::kNoSpace, std::as_bytes(std::span(&reply, 1)));
}

// All try, in the order they came: a small one does not stand behind a large one, but in its turn.
void ObjectService::State::retry_waiting() {
  room_may_have_come = false;
  is_under_way = false;
  // After nearly each call: queues that are empty are not made again, which takes memory.
  if (waiting.empty() && unrecorded.empty()) {
    waiting_bytes = 0;
    retry_ns = kForever_ns;
    return;
  }
  for (const uint64_t number : std::exchange(unrecorded, {})) {
    if (OpenCreation* open = opens.find(number)) advance(*open);
  }
  retried = std::exchange(waiting, {});
  waiting_bytes = 0;
  for (Waiting& one : retried) {
    Session* const session = find(one.session());
    if (session == nullptr) continue;
    if (!is_turn_of_first() && retry(one, *session)) continue;
    if (waiting.empty()) give_turn(one);
    waiting_bytes += one.bytes_kept();
    waiting.push_back(std::move(one));
  }
  retried.clear();
  // Of what went just now, all have had their turn; of the next step they have theirs at once.
  room_may_have_come = false;
  if (waiting.empty() && unrecorded.empty()) {
    retry_ns = kForever_ns;
    return;
  }
  retry_pause_ns = is_under_way ? kPauseMin_ns : std::clamp(retry_pause_ns * 2, kPauseMin_ns, kPauseMax_ns);
  retry_ns = is_under_way ? parts.shard.now_ns() : moment_after(parts.shard.now_ns(), retry_pause_ns);
}

// True: it waits no longer.
bool ObjectService::State::retry(Waiting& one, Session& session) {
  if (one.many != nullptr) return advance_many(*one.many, one.many->kept, session);
  const Code code = try_make(one.making, session);
  if (code == Code::kNoSpace) release_for(one.making);
  if (code == Code::kNoSpace && room_may_come(one.making.until_ns)) return false;
  if (code != Code::kOk) refuse(one.making, code);
  return true;
}

// An abort ends what has no room yet, too: else it would come when its creator is gone. True: there was some.
bool ObjectService::State::end_waiting(std::span<const std::byte> id, uint64_t birth) {
  return std::erase_if(waiting, [&](const Waiting& one) {
           const bool is_it = one.many == nullptr && one.making.method == Method::kCreate &&
                              one.making.birth == birth && text_of(one.making.id) == text_of(id);
           if (!is_it) return false;
           waiting_bytes -= one.bytes_kept();
           answer(one.making.from, Code::kNotFound);
           return true;
         }) > 0;
}

void ObjectService::State::put_many(const rpc::Responder& from, Session& session,
                                    std::span<const std::byte> body, std::span<const ClaimedId> claimed) {
  auto many = std::make_unique<PutMany>();
  many->from = from;
  const Code code = parse_many(body, *many);
  if (code != Code::kOk) return answer(from, code);
  for (size_t i = 0; i < std::min(claimed.size(), many->entries.size()); ++i) {
    many->entries[i].refused = claimed[i].code;
  }
  if (many->entries.size() * sizeof(uint16_t) > session.payload_bytes_max) {
    return answer(from, Code::kInvalidArgument);
  }
  if (advance_many(*many, body, session)) return;
  many->kept.resize(body.size());
  copy_possibly_torn(many->kept.data(), body.data(), body.size());
  Waiting one{.many = std::move(many)};
  if (wait_for_room(one)) return;
  // Some may have been made: each has its own code.
  std::vector<uint16_t>& codes = one.many->codes;
  codes.resize(one.many->entries.size(), static_cast<uint16_t>(Code::kOverloaded));
  answer(from, Code::kOk, std::as_bytes(std::span(codes)));
}

Code ObjectService::State::parse_many(std::span<const std::byte> body, PutMany& many) {
  const size_t all_bytes = body.size();
  const auto head = take<wire::CountRequest>(body);
  if (!head || head->reserved != 0) return Code::kMalformed;
  if (head->count == 0 || head->count > wire::kPutsPerCall) return Code::kInvalidArgument;
  for (uint32_t i = 0; i < head->count; ++i) {
    const size_t padding = (8 - (all_bytes - body.size()) % 8) % 8;
    if (body.size() < padding) return Code::kMalformed;
    body = body.subspan(padding);
    PutMany::Entry entry;
    const auto request = take<wire::PutRequest>(body);
    if (!request || std::ranges::any_of(request->reserved, [](uint8_t byte) { return byte != 0; })) {
      return Code::kMalformed;
    }
    entry.request = *request;
    TakenId id;
    const Code code = id.take(body, request->id_bytes);
    if (code != Code::kOk) return code;
    if (request->metadata_bytes > kMetadataBytesMax) return Code::kTooLarge;
    const uint64_t bytes = uint64_t{request->body_bytes} + request->metadata_bytes;
    if (bytes > body.size()) return Code::kMalformed;
    entry.birth = birth_of(id.bytes(), request->claim);
    entry.id_at = many.ids.size();
    entry.body_at = all_bytes - body.size();
    many.ids.insert(many.ids.end(), id.bytes().begin(), id.bytes().end());
    many.entries.push_back(entry);
    body = body.subspan(bytes);
  }
  return body.empty() ? Code::kOk : Code::kMalformed;
}

bool ObjectService::State::advance_many(PutMany& many, std::span<const std::byte> body, Session& session) {
  while (many.codes.size() < many.entries.size()) {
    const PutMany::Entry& entry = many.entries[many.codes.size()];
    const wire::PutRequest& request = entry.request;
    if (entry.refused != Code::kOk) {
      many.codes.push_back(static_cast<uint16_t>(entry.refused));
      continue;
    }
    const Code code =
        try_make({.from = many.from,
                  .method = Method::kPutMany,
                  .birth = entry.birth,
                  .body_bytes = request.body_bytes,
                  .metadata_bytes = request.metadata_bytes,
                  .id = std::span(many.ids).subspan(entry.id_at, request.id_bytes),
                  .body = body.subspan(entry.body_at, request.body_bytes),
                  .metadata = body.subspan(entry.body_at + request.body_bytes, request.metadata_bytes)},
                 session);
    // Only for what is on its way.
    if (code == Code::kNoSpace && room_may_come(0)) return false;
    if (code != Code::kOk) {
      unclaim_unmade(std::span(many.ids).subspan(entry.id_at, request.id_bytes), entry.birth);
    }
    many.codes.push_back(static_cast<uint16_t>(code));
  }
  answer(many.from, Code::kOk, std::as_bytes(std::span(many.codes)));
  return true;
}

}  // namespace refract::object
