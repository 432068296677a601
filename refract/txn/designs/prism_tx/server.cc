// SPDX-License-Identifier: Apache-2.0
#include "refract/txn/designs/prism_tx/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "refract/base/check.h"
#include "refract/memory/remote_visible.h"
#include "refract/prism/limits.h"

namespace refract::txn::prism_tx {

using designs::Bytes;

namespace {

[[nodiscard]] uint64_t buffers_at(const Root& root) noexcept {
  return root.slots + root.slot_count * sizeof(Slot);
}
[[nodiscard]] uint64_t buffer_count(const designs::Capacity& capacity) noexcept {
  return capacity.keys_max + capacity.spare_values;
}

}  // namespace

uint64_t memory_bytes(const designs::Capacity& capacity) {
  const Root root = root_for(capacity, 0);
  return round_up(buffers_at(root) + buffer_count(capacity) * root.buffer_bytes, 64);
}

PrismTxServer::PrismTxServer(const designs::ServerParts& parts, const ServerRules& rules)
    : shard_(parts.shard),
      writer_(parts.memory.data(), parts.log),
      root_(root_for(parts.capacity, parts.hash_seed)),
      region_(parts.region),
      keys_max_(parts.capacity.keys_max),
      patience_ns_(parts.patience_ns),
      rules_(rules),
      lists_(writer_),
      chains_(executor_, parts.shard),
      services_({{0, &chains_}, {prism::kMethodsEnd, this}}),
      pending_(root_.slot_count) {
  const uint64_t bytes = memory_bytes(parts.capacity);
  REFRACT_CHECK(parts.memory.size() >= bytes);
  (void)lists_.add_list({.start = {buffers_at(root_)},
                         .buffer_bytes = root_.buffer_bytes,
                         .count = buffer_count(parts.capacity)});
  writer_.copy({0}, std::as_bytes(std::span(&root_, 1)));
  const prism::snic::RegionSpec region = {
      .id = region_, .writer = &writer_, .start = {0}, .bytes = bytes, .buffers = &lists_, .guard = this};
  REFRACT_CHECK(executor_.add_region(region).has_value());
  REFRACT_CHECK(
      chains_.offer({.store = std::string(kStoreName), .region = region_, .rights = kRights, .root = 0})
          .has_value());
}

void PrismTxServer::answer_through(rpc::Server* server) noexcept {
  server_ = server;
  chains_.answer_through(server);
}

Result<> PrismTxServer::load(Bytes key, Bytes value) {
  if (key.empty()) return fail(Code::kInvalidArgument);
  if (key.size() > root_.key_bytes_max || value.size() > root_.value_bytes_max) {
    return fail(Code::kTooLarge);
  }
  if (keys_ == keys_max_) return fail(Code::kNoSpace);
  const uint64_t home = home_of(key, root_);
  uint64_t probe = 0;
  for (; probe < probes_of(root_); ++probe) {
    const RemotePointer pointer{slot(home + probe).pointer};
    if (pointer.offset() == 0) break;
    ItemHeader header{};
    const std::optional<Bytes> other = key_in({pointer.offset()}, header);
    if (other && std::ranges::equal(*other, key)) return fail(Code::kExists);
  }
  if (probe == probes_of(root_)) return fail(Code::kNoSpace);
  const ItemHeader header{.timestamp = kLoaded.bits,
                          .key_bytes = static_cast<uint32_t>(key.size()),
                          .value_bytes = static_cast<uint32_t>(value.size())};
  std::vector<std::byte> item(header.item_bytes());
  std::memcpy(item.data(), &header, sizeof(header));
  std::ranges::copy(key, item.begin() + sizeof(header));
  std::ranges::copy(value, item.begin() + static_cast<ptrdiff_t>(sizeof(header) + key.size()));
  const auto fresh = lists_.allocate(0, item);
  if (!fresh) return fail(fresh.error());
  const Slot loaded{.prepared_writer = kLoaded.bits,
                    .prepared_reader = kLoaded.bits,
                    .committed = kLoaded.bits,
                    .pointer = RemotePointer::at(region_, fresh->at.value).bits};
  writer_.copy({slot_at(root_, home + probe)}, std::as_bytes(std::span(&loaded, 1)));
  ++keys_;
  return {};
}

bool PrismTxServer::may_prepare(uint64_t timestamp) const noexcept {
  const auto member = members_.find(Timestamp{timestamp}.client());
  return member != members_.end() && !member->second.is_revoked;
}

bool PrismTxServer::may_become(const Slot& before, const Slot& after,
                               const prism::snic::Swap& swap) const noexcept {
  const auto grows = [this](uint64_t from, uint64_t to) {
    return from == to || (to > from && may_prepare(to));
  };
  if (!grows(before.prepared_writer, after.prepared_writer) ||
      !grows(before.prepared_reader, after.prepared_reader) || !grows(before.committed, after.committed) ||
      after.committed > after.prepared_writer) {
    return false;
  }
  if (after.pointer == before.pointer) return true;
  const RemotePointer item{after.pointer};
  return after.committed != before.committed && swap.retires && item.region() == region_ &&
         item.offset() != 0 && item.offset() == swap.installs.at.value;
}

Code PrismTxServer::may_swap(const prism::snic::Swap& swap) noexcept {
  if (swap.at.value < root_.slots) return Code::kAccessDenied;
  const uint64_t distance = swap.at.value - root_.slots;
  const uint64_t index = distance / sizeof(Slot);
  const uint64_t skipped = distance % sizeof(Slot);
  if (index >= root_.slot_count || skipped + swap.bytes > sizeof(Slot)) return Code::kAccessDenied;
  const Slot before = slot(index);
  if (before.pointer == 0) return Code::kAccessDenied;
  Slot after = before;
  std::memcpy(reinterpret_cast<std::byte*>(&after) + skipped, swap.after.data(), swap.bytes);
  return may_become(before, after, swap) ? Code::kOk : Code::kAccessDenied;
}

void PrismTxServer::handle(std::span<const rpc::IncomingCall> calls) noexcept {
  for (const rpc::IncomingCall& call : calls) {
    const bool is_known = call.header.method == kMethodJoin;
    server_->reply(call.from, is_known ? join(call) : Code::kUnsupported);
  }
}

Code PrismTxServer::join(const rpc::IncomingCall& call) {
  uint64_t number = 0;
  if (call.payload.size() != sizeof(number)) return Code::kMalformed;
  copy_possibly_torn(&number, call.payload.data(), sizeof(number));
  if (number == 0 || number > UINT16_MAX) return Code::kInvalidArgument;
  const auto client = static_cast<uint16_t>(number);
  if (members_.contains(client) || clients_.contains(call.from.session.bits)) return Code::kExists;
  members_[client] = {.session = call.from.session};
  clients_[call.from.session.bits] = client;
  return Code::kOk;
}

void PrismTxServer::revoke(Member& member) noexcept {
  if (member.is_revoked) return;
  clients_.erase(member.session.bits);
  ++ended_clients_;
  member.is_revoked = true;
  if (server_ != nullptr) server_->close_session(member.session);
}

void PrismTxServer::session_closed(rpc::SessionId session) noexcept {
  const auto client = clients_.find(session.bits);
  if (client == clients_.end()) return;
  revoke(members_[client->second]);
}

void PrismTxServer::look_at(uint64_t index, uint64_t now_ns) noexcept {
  const Slot there = slot(index);
  Pending& pending = pending_[index];
  if (there.prepared_writer <= there.committed) {
    pending = {};
    return;
  }
  if (pending.writer != there.prepared_writer) {
    pending = {.writer = there.prepared_writer, .since_ns = now_ns};
  }
  // The guard let none prepare but members.
  Member& member = members_[Timestamp{there.prepared_writer}.client()];
  const bool is_late = now_ns - pending.since_ns >= patience_ns_;
  if (is_late && rules_.revokes) revoke(member);
  if (!member.is_revoked && (!is_late || rules_.revokes)) return;
  writer_.publish({slot_at(root_, index) + offsetof(Slot, committed)}, there.prepared_writer);
  pending = {};
  ++freed_keys_;
}

// With no chain under way, and the client's later ones refused, nothing of its comes any more.
void PrismTxServer::keep_house() noexcept {
  if (executor_.open_runs() != 0) return;
  const uint64_t now_ns = shard_.refresh_now();
  for (uint64_t steps = std::min(kStepsPerCall, root_.slot_count); steps > 0; --steps) {
    look_at(next_slot_, now_ns);
    next_slot_ = (next_slot_ + 1) & (root_.slot_count - 1);
  }
}

std::optional<Bytes> PrismTxServer::key_in(Offset buffer, ItemHeader& header) const noexcept {
  std::memcpy(&header, writer_.at(buffer), sizeof(header));
  // A client may have put anything there.
  if (header.key_bytes == 0 || header.key_bytes > root_.key_bytes_max) return std::nullopt;
  return Bytes(writer_.at(buffer.plus(sizeof(header))), header.key_bytes);
}

designs::Server::Facts PrismTxServer::facts() const {
  Facts facts{.keys = keys_, .freed_keys = freed_keys_, .ended_clients = ended_clients_};
  facts.buffers = lists_.list(0).count;
  facts.free_buffers = lists_.free_count(0);
  for (uint64_t index = 0; index < root_.slot_count; ++index) {
    if (slot(index).prepared_writer > slot(index).committed) ++facts.held_keys;
  }
  return facts;
}

std::optional<std::string> PrismTxServer::contradiction_at(uint64_t index) const {
  const Slot& there = slot(index);
  const RemotePointer pointer{there.pointer};
  if (pointer.offset() == 0) {
    return there == Slot{} ? std::nullopt : std::optional(fmt::format("slot {} has been emptied", index));
  }
  if (pointer.region() != region_ || !lists_.is_out({pointer.offset()})) {
    return fmt::format("slot {} leads to what is no buffer in use", index);
  }
  if (there.committed > there.prepared_writer) return fmt::format("slot {}: C is above PW", index);
  ItemHeader header{};
  const std::optional<Bytes> key = key_in({pointer.offset()}, header);
  if (!key || header.value_bytes > root_.value_bytes_max) {
    return fmt::format("slot {} leads to no item", index);
  }
  if (header.timestamp > there.committed) return fmt::format("slot {}: the item is above C", index);
  const uint64_t distance = (index - home_of(*key, root_)) & (root_.slot_count - 1);
  if (distance >= probes_of(root_)) return fmt::format("the key of slot {} stands too far from home", index);
  return std::nullopt;
}

std::optional<std::string> PrismTxServer::contradiction() const {
  if (std::memcmp(writer_.at({0}), &root_, sizeof(root_)) != 0) return "the root is another";
  std::vector<uint64_t> pointers;
  for (uint64_t index = 0; index < root_.slot_count; ++index) {
    if (std::optional<std::string> wrong = contradiction_at(index)) return wrong;
    if (slot(index).pointer != 0) pointers.push_back(slot(index).pointer);
  }
  std::ranges::sort(pointers);
  if (std::ranges::adjacent_find(pointers) != pointers.end()) return "two slots lead to one buffer";
  if (pointers.size() != keys_) return fmt::format("{} keys are there, not {}", pointers.size(), keys_);
  return std::nullopt;
}

Reported<std::unique_ptr<designs::Server>> make_server(const designs::ServerParts& parts) {
  const Root root = root_for(parts.capacity, parts.hash_seed);
  if (root.buffer_bytes > prism::kTransferBytesMax) {
    return report(Code::kTooLarge, fmt::format("PRISM-TX cannot hold items of {} bytes", root.buffer_bytes),
                  fmt::format("one operation of a chain carries {} bytes: ask for shorter values",
                              prism::kTransferBytesMax));
  }
  return std::make_unique<PrismTxServer>(parts);
}

}  // namespace refract::txn::prism_tx
