// SPDX-License-Identifier: Apache-2.0
#include "refract/client/objects.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "refract/base/units.h"
#include "refract/client/client.h"
#include "refract/client/client_state.h"
#include "refract/client/objects/object_work.h"
#include "refract/object/layout/object_layout.h"

namespace refract {

using client::ClientState;
using client::Creating;
using client::Link;
using client::ObjectLink;
using client::ObjectPeer;
using client::Patience;
using client::ThreadState;
using client::Until;
using runtime::Task;

static_assert(Objects::kIdBytesMax == object::kIdBytesMax);
static_assert(Objects::kMetadataBytesMax == object::kMetadataBytesMax);
static_assert(Objects::kForever == object::wire::kForever);
static_assert(Objects::kRankIdsMax == object::wire::kRankIdsMax);
static_assert(Objects::kBroadcastNodesMax == object::wire::kBroadcastNodesMax);

namespace {

bool is_id(const Bytes& id) noexcept {
  return !id.empty() && id.size() <= object::kIdBytesMax;
}

// Null in a child of the process that made the Client, and behind its end.
[[gnu::always_inline]] inline ThreadState* thread_of(ClientState& client) {
  if (client.has_ended()) [[unlikely]]
    return nullptr;
  ThreadState* const mine = client.has_mine_at_once() ? &ClientState::mine_at_once() : client.mine();
  return mine == nullptr || mine->is_child() ? nullptr : mine;
}

// Milliseconds without an overflow.
uint64_t ns_of(uint64_t ms) noexcept {
  return ms > kForever_ns / kMillisecond_ns ? kForever_ns : ms * kMillisecond_ns;
}

Until until_of(ThreadState& mine, uint64_t timeout_ms) noexcept {
  const uint64_t ns = ns_of(timeout_ms);
  if (ns == 0) return {};
  const uint64_t now_ns = mine.shard().refresh_now();
  return {.moment_ns = ns > kForever_ns - now_ns ? kForever_ns : now_ns + ns};
}

// What fits no deadline, with room for the time of a message.
uint64_t room_timeout_of(const MakeOptions& options) noexcept {
  return std::min(ns_of(options.room_timeout_ms), kForever_ns / 4);
}

Task<bool> reach(ObjectPeer& peer) {
  Patience patience;
  while (peer.link() == nullptr || peer.link()->state() == Link::State::kEnded) {
    const bool is_there = co_await peer.await_server(patience);
    if (!is_there) co_return false;
  }
  co_return true;
}

Task<Code> ask_stat(ObjectLink& link, object::wire::StatReply& reply) {
  const auto answer = co_await link.calls().stat();
  if (answer) reply = *answer;
  co_return answer.code();
}

Task<Code> ask_evict(ObjectLink& link, uint64_t bytes, uint64_t& given_back) {
  const Result<uint64_t> answer = co_await link.calls().evict(bytes);
  if (answer) given_back = *answer;
  co_return answer.code();
}

Task<Code> ask_keep(ObjectLink& link, Bytes id, bool is_kept) {
  const Code code = co_await link.calls().keep(id, is_kept);
  co_return code;
}

Task<ObjectPeer::Outcome> stat_of(ObjectPeer& peer, object::wire::StatReply& reply) {
  const auto outcome = co_await peer.drive([&](ObjectLink& link) { return ask_stat(link, reply); });
  co_return outcome;
}

Task<ObjectPeer::Outcome> evict_at(ObjectPeer& peer, uint64_t bytes, uint64_t& given_back) {
  // Twice it would be twice as much.
  const auto outcome = co_await peer.drive(
      [&](ObjectLink& link) { return ask_evict(link, bytes, given_back); }, /*may_repeat=*/false);
  co_return outcome;
}

Task<ObjectPeer::Outcome> keep_at(ObjectPeer& peer, Bytes id, bool is_kept) {
  const auto outcome = co_await peer.drive([&](ObjectLink& link) { return ask_keep(link, id, is_kept); });
  co_return outcome;
}

// False: it says that it does not.
Task<bool> shares_objects(ObjectPeer& peer) {
  object::wire::StatReply reply{};
  reply.shares = 1;
  (void)co_await stat_of(peer, reply);
  if (reply.shares == 0) client::note_shares_nothing(peer);
  co_return reply.shares != 0;
}

}  // namespace

Reported<Objects> Client::objects() {
  ThreadState* const mine = thread_of(*state_);
  if (mine == nullptr) return report(Code::kForked, std::string(info(Code::kForked).sentence));
  if (!mine->wait_for(reach(mine->objects()))) return report(mine->objects().trouble());
  return Objects(state_);
}

Result<NewObject> Objects::create(Bytes id, uint64_t body_bytes, uint32_t metadata_bytes,
                                  const MakeOptions& options) {
  if (!is_id(id) || metadata_bytes > kMetadataBytesMax) return fail(Code::kInvalidArgument);
  // Lengths are added up below.
  if (body_bytes > kForever_ns / 4) return fail(Code::kTooLarge);
  ThreadState* const mine = thread_of(*client_);
  if (mine == nullptr) return fail(Code::kForked);
  ObjectPeer& peer = mine->objects();
  auto creating = std::make_unique<Creating>(*client_, std::string(id.text()));
  creating->making.claim = peer.new_claim();
  creating->making.parts = {.body_bytes = body_bytes,
                            .metadata_bytes = metadata_bytes,
                            .id_bytes = static_cast<uint16_t>(id.size())};
  const Code code = mine->wait_for(client::create_object(peer, *creating, room_timeout_of(options)));
  if (code != Code::kOk) return fail(code);
  return NewObject(creating.release());
}

Result<uint64_t> Objects::put(Bytes id, Bytes body, Bytes metadata, const MakeOptions& options) {
  if (!is_id(id) || metadata.size() > kMetadataBytesMax) return fail(Code::kInvalidArgument);
  ThreadState* const mine = thread_of(*client_);
  if (mine == nullptr) return fail(Code::kForked);
  if (options.copies > kCopiesMax) return fail(Code::kInvalidArgument);
  ObjectPeer& peer = mine->objects();
  peer.set_copies_made(0);
  if (options.copies > 0 && !mine->wait_for(shares_objects(peer))) return fail(Code::kUnsupported);
  const Result<uint64_t> birth = mine->wait_for(client::put_object(
      peer, *client_, {.id = id, .body = body, .metadata = metadata}, room_timeout_of(options)));
  if (!birth || options.copies == 0) return birth;
  ObjectCopies copies{.birth = *birth, .wanted = options.copies};
  const Code code =
      mine->wait_for(client::set_object_copies(peer, id, copies, ns_of(options.copies_timeout_ms)));
  // The one that was made is there in any case.
  peer.set_copies_made(code == Code::kOk ? copies.copies : 1);
  return birth;
}

void Objects::put_many(std::span<PutObject> objects) {
  ThreadState* const mine = thread_of(*client_);
  for (PutObject& one : objects) {
    const bool is_sound = is_id(one.id) && one.metadata.size() <= kMetadataBytesMax;
    one.result = fail(mine == nullptr ? Code::kForked
                      : is_sound      ? Code::kUnavailable
                                      : Code::kInvalidArgument);
  }
  if (mine != nullptr) mine->wait_for(client::put_objects(mine->objects(), *client_, objects));
}

Result<std::string> Objects::new_id() {
  ThreadState* const mine = thread_of(*client_);
  if (mine == nullptr) return fail(Code::kForked);
  if (!mine->wait_for(reach(mine->objects()))) return fail(mine->objects().unreached());
  return mine->objects().new_id(kNewIdBytes);
}

// One object to return, which is made where the caller wants it.
Result<Object> Objects::get(Bytes id, uint64_t timeout_ms) {
  Result<Object> object(std::in_place);
  ThreadState* const mine = thread_of(*client_);
  if (!is_id(id)) [[unlikely]] {
    object = fail(Code::kInvalidArgument);
  } else if (mine == nullptr) [[unlikely]] {
    object = fail(Code::kForked);
  } else if (!client::get_at_once(mine->objects(), id, object) || (!object && timeout_ms > 0)) [[unlikely]] {
    object = mine->wait_for(client::get_object(mine->objects(), id, until_of(*mine, timeout_ms)));
  }
  return object;
}

Result<Object> Objects::get_at_once(Bytes id) {
  Result<Object> object(std::in_place);
  ThreadState* const mine = thread_of(*client_);
  if (!is_id(id)) {
    object = fail(Code::kInvalidArgument);
  } else if (mine == nullptr) {
    object = fail(Code::kForked);
  } else if (!client::get_at_once(mine->objects(), id, object)) {
    object = fail(Code::kInvalidated);
  }
  return object;
}

std::vector<Result<Object>> Objects::get(std::span<const Bytes> ids, uint64_t timeout_ms) {
  std::vector<Result<Object>> objects;
  objects.reserve(ids.size());
  ThreadState* const mine = thread_of(*client_);
  bool is_missing = false;
  for (const Bytes& id : ids) {
    Result<Object>& object = objects.emplace_back(std::in_place);
    if (!is_id(id)) {
      object = fail(Code::kInvalidArgument);
    } else if (mine == nullptr) {
      object = fail(Code::kForked);
    } else {
      is_missing |= !client::get_at_once(mine->objects(), id, object) || (!object && timeout_ms > 0);
    }
  }
  if (!is_missing) return objects;
  mine->wait_for(client::get_objects(mine->objects(), ids, objects, until_of(*mine, timeout_ms)));
  return objects;
}

Result<bool> Objects::contains(Bytes id) {
  if (!is_id(id)) return fail(Code::kInvalidArgument);
  ThreadState* const mine = thread_of(*client_);
  if (mine == nullptr) return fail(Code::kForked);
  const auto found = mine->wait_for(client::look_for_object(mine->objects(), id));
  if (!found && found.code() != Code::kNotFound) return fail(found.error());
  return found.has_value();
}

Result<ObjectPage> Objects::list(uint64_t cursor, Listing listing) {
  ThreadState* const mine = thread_of(*client_);
  if (mine == nullptr) return fail(Code::kForked);
  return mine->wait_for(client::list_objects(mine->objects(), cursor, listing));
}

Result<ObjectDigest> Objects::digest(Bytes id) {
  const Result<Object> object = get(id);
  if (!object) return fail(object.error());
  return object->digest();
}

Result<uint64_t> Objects::remove(Bytes id, uint64_t birth) {
  if (!is_id(id)) return fail(Code::kInvalidArgument);
  ThreadState* const mine = thread_of(*client_);
  if (mine == nullptr) return fail(Code::kForked);
  std::vector<std::string> missed;
  const Result<uint64_t> holders = mine->wait_for(client::remove_object(mine->objects(), id, birth, missed));
  mine->objects().set_missed(std::move(missed));
  return holders;
}

std::vector<std::string> Objects::missed() const {
  ThreadState* const mine = thread_of(*client_);
  return mine == nullptr ? std::vector<std::string>() : mine->objects().missed();
}

Result<ObjectPlaces> Objects::where(Bytes id) {
  if (!is_id(id)) return fail(Code::kInvalidArgument);
  ThreadState* const mine = thread_of(*client_);
  if (mine == nullptr) return fail(Code::kForked);
  return mine->wait_for(client::locate_object(mine->objects(), id));
}

std::vector<Code> Objects::prefetch(std::span<const Bytes> ids, uint64_t timeout_ms,
                                    const PrefetchOptions& options) {
  ThreadState* const mine = thread_of(*client_);
  std::vector<Code> codes(ids.size(), mine == nullptr ? Code::kForked : Code::kUnavailable);
  if (mine == nullptr) return codes;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!is_id(ids[i])) codes[i] = Code::kInvalidArgument;
  }
  mine->wait_for(client::prefetch_objects(mine->objects(), ids, codes, until_of(*mine, timeout_ms), options));
  return codes;
}

Result<std::vector<ObjectPath>> Objects::paths() {
  ThreadState* const mine = thread_of(*client_);
  if (mine == nullptr) return fail(Code::kForked);
  return mine->wait_for(client::object_paths(mine->objects()));
}

Result<ObjectRank> Objects::rank(std::span<const Bytes> ids, uint64_t timeout_ms) {
  const bool are_sound = !ids.empty() && ids.size() <= kRankIdsMax && std::ranges::all_of(ids, is_id);
  if (!are_sound) return fail(Code::kInvalidArgument);
  ThreadState* const mine = thread_of(*client_);
  if (mine == nullptr) return fail(Code::kForked);
  return mine->wait_for(client::rank_nodes(mine->objects(), ids, ns_of(timeout_ms)));
}

Result<ObjectBroadcast> Objects::broadcast(Bytes id, std::span<const std::string> nodes,
                                           uint64_t timeout_ms) {
  const auto is_name = [](const std::string& name) { return !name.empty() && name.size() <= UINT8_MAX; };
  const bool are_sound = nodes.size() <= kBroadcastNodesMax && std::ranges::all_of(nodes, is_name);
  if (!is_id(id) || !are_sound) return fail(Code::kInvalidArgument);
  ThreadState* const mine = thread_of(*client_);
  if (mine == nullptr) return fail(Code::kForked);
  return mine->wait_for(client::broadcast_object(mine->objects(), id, nodes, ns_of(timeout_ms)));
}

Result<ObjectCopies> Objects::set_copies(Bytes id, uint32_t copies, uint64_t timeout_ms) {
  if (!is_id(id) || copies > kCopiesMax) return fail(Code::kInvalidArgument);
  ThreadState* const mine = thread_of(*client_);
  if (mine == nullptr) return fail(Code::kForked);
  ObjectCopies made{.wanted = copies};
  const Code code = mine->wait_for(client::set_object_copies(mine->objects(), id, made, ns_of(timeout_ms)));
  if (code != Code::kOk) return fail(code);
  return made;
}

uint32_t Objects::copies_made() const {
  ThreadState* const mine = thread_of(*client_);
  return mine == nullptr ? 0 : mine->objects().copies_made();
}

Result<uint64_t> Objects::evict(uint64_t bytes) {
  ThreadState* const mine = thread_of(*client_);
  if (mine == nullptr) return fail(Code::kForked);
  uint64_t given_back = 0;
  const auto outcome = mine->wait_for(evict_at(mine->objects(), bytes, given_back));
  if (outcome.code != Code::kOk) return fail(outcome.code);
  return given_back;
}

Code Objects::keep(Bytes id, bool is_kept) {
  if (!is_id(id)) return Code::kInvalidArgument;
  ThreadState* const mine = thread_of(*client_);
  if (mine == nullptr) return Code::kForked;
  return mine->wait_for(keep_at(mine->objects(), id, is_kept)).code;
}

Result<ObjectStat> Objects::stat() {
  ThreadState* const mine = thread_of(*client_);
  if (mine == nullptr) return fail(Code::kForked);
  object::wire::StatReply reply{};
  const auto outcome = mine->wait_for(stat_of(mine->objects(), reply));
  if (outcome.code != Code::kOk) return fail(outcome.code);
  return ObjectStat{.limit = reply.limit,
                    .used = reply.used,
                    .sealed_bytes = reply.sealed_bytes,
                    .creation_bytes = reply.creation_bytes,
                    .removed_bytes = reply.departed_bytes,
                    .held_bytes = reply.held_bytes,
                    .kept_bytes = reply.kept_bytes,
                    .objects = reply.objects,
                    .creations = reply.creations,
                    .removed = reply.departed,
                    .held = reply.held,
                    .sealed_ever = reply.sealed_ever,
                    .removed_ever = reply.deleted_ever,
                    .evicted_ever = reply.evicted_ever,
                    .evicted_bytes_ever = reply.evicted_bytes_ever,
                    .aborted_ever = reply.aborted_ever};
}

Report Objects::trouble() const {
  ThreadState* const mine = thread_of(*client_);
  if (mine == nullptr) return {Code::kForked, std::string(info(Code::kForked).sentence), ""};
  return mine->objects().trouble();
}

NewObject::NewObject(NewObject&& other) noexcept : creating_(std::exchange(other.creating_, nullptr)) {}

NewObject& NewObject::operator=(NewObject&& other) noexcept {
  std::swap(creating_, other.creating_);
  return *this;
}

NewObject::~NewObject() {
  if (creating_ == nullptr) return;
  // With the Client its creations end by themselves.
  if (creating_->is_open) (void)abandon();
  delete creating_;
}

std::span<std::byte> NewObject::body() const noexcept {
  return creating_ == nullptr ? std::span<std::byte>() : creating_->body();
}

std::span<std::byte> NewObject::metadata() const noexcept {
  return creating_ == nullptr ? std::span<std::byte>() : creating_->metadata();
}

std::string_view NewObject::id() const noexcept {
  return creating_ == nullptr ? std::string_view() : std::string_view(creating_->id);
}

uint64_t NewObject::birth() const noexcept {
  return creating_ == nullptr ? 0 : creating_->making.birth();
}

Code NewObject::filled(uint64_t bytes) {
  if (creating_ == nullptr || !creating_->is_open) return Code::kNotFound;
  if (bytes > creating_->making.parts.body_bytes) return Code::kInvalidArgument;
  ThreadState* const mine = thread_of(*creating_->client);
  if (mine == nullptr) return Code::kForked;
  return mine->wait_for(client::tell_filled(mine->objects(), *creating_, bytes));
}

Result<Object> NewObject::seal() {
  if (creating_ == nullptr || !creating_->is_open) return fail(Code::kNotFound);
  ThreadState* const mine = thread_of(*creating_->client);
  if (mine == nullptr) return fail(Code::kForked);
  Result<Object> object = mine->wait_for(client::seal_object(mine->objects(), *creating_));
  if (!creating_->is_open && !creating_->keeps_memory) delete std::exchange(creating_, nullptr);
  return object;
}

Code NewObject::abandon() {
  if (creating_ == nullptr || !creating_->is_open) return Code::kNotFound;
  ThreadState* const mine = thread_of(*creating_->client);
  if (mine == nullptr) return Code::kForked;
  const Code code = mine->wait_for(client::end_creation(mine->objects(), *creating_));
  if (!creating_->keeps_memory) delete std::exchange(creating_, nullptr);
  return code;
}

void NewObject::keep_memory() noexcept {
  if (creating_ != nullptr) creating_->keeps_memory = true;
}

}  // namespace refract
