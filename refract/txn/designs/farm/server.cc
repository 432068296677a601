// SPDX-License-Identifier: Apache-2.0
#include "refract/txn/designs/farm/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "refract/base/check.h"
#include "refract/memory/remote_visible.h"

namespace refract::txn::farm {

using designs::Bytes;

uint64_t memory_bytes(const designs::Capacity& capacity) {
  const Root root = root_for(capacity, 0);
  return root.objects + capacity.keys_max * root.object_bytes;
}

FarmServer::FarmServer(const designs::ServerParts& parts, RemoteKey key, const ServerRules& rules)
    : shard_(parts.shard),
      writer_(parts.memory.data(), parts.log),
      root_(root_for(parts.capacity, parts.hash_seed)),
      key_(key),
      region_(parts.region),
      bytes_(parts.memory.size()),
      keys_max_(parts.capacity.keys_max),
      patience_ns_(parts.patience_ns),
      rules_(rules) {
  REFRACT_CHECK(parts.memory.size() >= memory_bytes(parts.capacity));
  writer_.copy({0}, std::as_bytes(std::span(&root_, 1)));
}

std::optional<uint64_t> FarmServer::object_of(Bytes key) const {
  const uint64_t hash = hash_key(key, root_.hash_seed);
  for (uint64_t probe = 0; probe < probes_of(root_); ++probe) {
    const auto& entry = writer_.view<Entry>({entry_at(root_, hash + probe)});
    if (entry.object == 0) break;
    if (entry.hash != hash) continue;
    const std::optional<Object> there = object_in(lines_of(entry.object));
    if (there && std::ranges::equal(there->key, key)) return entry.object;
  }
  return std::nullopt;
}

Result<> FarmServer::load(Bytes key, Bytes value) {
  if (key.empty()) return fail(Code::kInvalidArgument);
  if (key.size() > root_.key_bytes_max || value.size() > root_.value_bytes_max) {
    return fail(Code::kTooLarge);
  }
  if (object_of(key)) return fail(Code::kExists);
  if (keys_ == keys_max_) return fail(Code::kNoSpace);
  const uint64_t hash = hash_key(key, root_.hash_seed);
  for (uint64_t probe = 0; probe < probes_of(root_); ++probe) {
    const Offset at{entry_at(root_, hash + probe)};
    if (writer_.view<Entry>(at).object != 0) continue;
    const uint64_t object = root_.objects + keys_ * root_.object_bytes;
    store_object(writer_, root_.object_bytes,
                 {.at = {object}, .key = key, .value = value, .version = next_version(0)});
    const Entry entry{.hash = hash, .object = object};
    writer_.copy(at, std::as_bytes(std::span(&entry, 1)));
    ++keys_;
    return {};
  }
  return fail(Code::kNoSpace);
}

bool FarmServer::is_object(uint64_t offset) const noexcept {
  return offset >= root_.objects && (offset - root_.objects) % root_.object_bytes == 0 &&
         (offset - root_.objects) / root_.object_bytes < keys_;
}

bool FarmServer::holds(rpc::SessionId session, uint64_t object) const noexcept {
  const auto hold = holds_.find(object);
  return hold != holds_.end() && hold->second.session == session;
}

void FarmServer::handle(std::span<const rpc::IncomingCall> calls) noexcept {
  for (const rpc::IncomingCall& call : calls) {
    if (call.header.method == kMethodAttach) {
      attach(call.from);
    } else {
      server_->reply(call.from, execute(call));
    }
  }
}

void FarmServer::attach(const rpc::Responder& to) noexcept {
  const AttachReply reply{.key = key_.bits, .bytes = bytes_, .region = region_, .reserved = {}};
  server_->reply(to, Code::kOk, std::as_bytes(std::span(&reply, 1)));
}

Code FarmServer::execute(const rpc::IncomingCall& call) {
  body_.resize(call.payload.size());
  if (!body_.empty()) copy_possibly_torn(body_.data(), call.payload.data(), body_.size());
  const uint16_t method = call.header.method;
  if (method == kMethodUpdate || method == kMethodUpdateHeld) {
    return update(call.from.session, body_, method == kMethodUpdateHeld);
  }
  if (method != kMethodLock && method != kMethodUnlock) return Code::kUnsupported;
  if (body_.size() % sizeof(LockItem) != 0 || body_.size() > designs::kKeysMax * sizeof(LockItem)) {
    return Code::kMalformed;
  }
  std::vector<LockItem> items(body_.size() / sizeof(LockItem));
  if (!items.empty()) std::memcpy(items.data(), body_.data(), body_.size());
  for (const LockItem& item : items) {
    if (!is_object(item.object)) return Code::kInvalidArgument;
  }
  return method == kMethodLock ? lock(call.from.session, items) : unlock(call.from.session, items);
}

Code FarmServer::lock(rpc::SessionId session, std::span<const LockItem> items) {
  if (!rules_.locks) return Code::kOk;
  std::set<uint64_t> objects;
  for (const LockItem& item : items) {
    // Locked: another header than any version.
    if (header_of(item.object).bits != item.version) return Code::kConflict;
    if (!objects.insert(item.object).second) return Code::kInvalidArgument;
  }
  const uint64_t now_ns = shard_.refresh_now();
  for (const LockItem& item : items) {
    writer_.publish({item.object}, item.version | Header::kLock);
    holds_[item.object] = {.session = session, .since_ns = now_ns};
  }
  return Code::kOk;
}

void FarmServer::release(uint64_t object) noexcept {
  writer_.publish({object}, header_of(object).version());
  holds_.erase(object);
}

Code FarmServer::unlock(rpc::SessionId session, std::span<const LockItem> items) {
  for (const LockItem& item : items) {
    if (holds(session, item.object)) release(item.object);
  }
  return Code::kOk;
}

bool FarmServer::take_updates(Bytes body, std::vector<Update>& updates) const {
  while (!body.empty()) {
    UpdateHeader header{};
    if (body.size() < sizeof(header) || updates.size() == designs::kKeysMax) return false;
    std::memcpy(&header, body.data(), sizeof(header));
    body = body.subspan(sizeof(header));
    const uint64_t padded = round_up(header.value_bytes, 8);
    if (header.value_bytes > root_.value_bytes_max || padded > body.size()) return false;
    if (!is_object(header.object)) return false;
    updates.push_back({.object = header.object, .value = body.first(header.value_bytes)});
    body = body.subspan(padded);
  }
  return true;
}

Code FarmServer::update(rpc::SessionId session, Bytes body, bool stays_locked) {
  std::vector<Update> updates;
  if (!take_updates(body, updates)) return Code::kMalformed;
  for (const Update& update : updates) {
    if (rules_.locks && !holds(session, update.object)) return Code::kConflict;
  }
  for (const Update& update : updates) {
    ObjectHeader header{};
    std::memcpy(&header, writer_.at({update.object}), sizeof(header));
    // An object keeps its key, whose bytes stand in front of the value's.
    std::vector<std::byte> lines(lines_of(update.object).begin(), lines_of(update.object).end());
    const uint64_t version = Header{header.header}.version();
    std::memcpy(lines.data(), &version, sizeof(version));
    const std::optional<Object> there = object_in(lines);
    REFRACT_CHECK(there.has_value());
    store_object(writer_, root_.object_bytes,
                 {.at = {update.object},
                  .key = there->key,
                  .value = update.value,
                  .version = next_version(version),
                  .stays_locked = stays_locked},
                 rules_.stores);
    if (!stays_locked) holds_.erase(update.object);
  }
  return Code::kOk;
}

void FarmServer::session_closed(rpc::SessionId session) noexcept {
  ++ended_clients_;
  for (auto hold = holds_.begin(); hold != holds_.end();) {
    const uint64_t object = hold->first;
    const bool is_its = hold->second.session == session;
    ++hold;
    if (!is_its) continue;
    release(object);
    ++freed_keys_;
  }
}

// Ended first, and told of by session_closed(): what comes of the session later finds nothing that it holds.
void FarmServer::keep_house() noexcept {
  const uint64_t now_ns = shard_.refresh_now();
  std::vector<rpc::SessionId> late;
  for (const auto& [object, hold] : holds_) {
    if (now_ns - hold.since_ns >= patience_ns_) late.push_back(hold.session);
  }
  for (const rpc::SessionId session : late) server_->close_session(session);
}

designs::Server::Facts FarmServer::facts() const {
  return {
      .keys = keys_, .held_keys = holds_.size(), .freed_keys = freed_keys_, .ended_clients = ended_clients_};
}

std::optional<std::string> FarmServer::contradiction() const {
  if (std::memcmp(writer_.at({0}), &root_, sizeof(root_)) != 0) return "the root is another";
  for (uint64_t key = 0; key < keys_; ++key) {
    const uint64_t object = root_.objects + key * root_.object_bytes;
    if (header_of(object).is_locked() != holds_.contains(object)) {
      return fmt::format("object {} is locked, or held, and not both", key);
    }
    if (header_of(object).is_locked()) continue;
    const std::optional<Object> there = object_in(lines_of(object));
    if (!there) return fmt::format("object {} is not whole", key);
    if (object_of(there->key) != object) return fmt::format("the key of object {} is not found", key);
  }
  return std::nullopt;
}

Reported<std::unique_ptr<designs::Server>> make_server_by(const designs::ServerParts& parts,
                                                          const ServerRules& rules) {
  const Reported<RemoteKey> key = parts.domain.register_region({.region = parts.region,
                                                                .base = parts.memory.data(),
                                                                .bytes = parts.memory.size(),
                                                                .rights = {.read = true}});
  if (!key) return report(key.error());
  return std::make_unique<FarmServer>(parts, *key, rules);
}

Reported<std::unique_ptr<designs::Server>> make_server(const designs::ServerParts& parts) {
  return make_server_by(parts, {});
}

}  // namespace refract::txn::farm
