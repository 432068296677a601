// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/designs/prism/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "refract/base/check.h"
#include "refract/memory/remote_visible.h"
#include "refract/prism/limits.h"

namespace refract::kv::prism_kv {

namespace {

[[nodiscard]] uint64_t buffers_of_a_list(const designs::Capacity& capacity) noexcept {
  return capacity.keys_max + capacity.spare_values;
}

[[nodiscard]] uint64_t buffers_at(const Root& root) noexcept {
  return round_up(root.slots + root.slot_count * sizeof(Slot), kBufferUnitBytes);
}

}  // namespace

uint64_t memory_bytes(const designs::Capacity& capacity) {
  const Root root = root_for(capacity, 0);
  uint64_t bytes = buffers_at(root);
  for (uint64_t list = 0; list < root.list_count; ++list) {
    bytes += round_up(buffers_of_a_list(capacity) * root.buffer_bytes[list], kBufferUnitBytes);
  }
  return bytes;
}

PrismKvServer::PrismKvServer(const designs::ServerParts& parts)
    : writer_(parts.memory.data(), parts.log),
      root_(root_for(parts.capacity, parts.hash_seed)),
      region_(parts.region),
      lists_(writer_),
      chains_(executor_, parts.shard),
      services_({{0, &chains_}, {prism::kMethodsEnd, this}}) {
  const uint64_t bytes = memory_bytes(parts.capacity);
  REFRACT_CHECK(parts.memory.size() >= bytes);
  const uint64_t count = buffers_of_a_list(parts.capacity);
  uint64_t at = buffers_at(root_);
  for (uint64_t list = 0; list < root_.list_count; ++list) {
    (void)lists_.add_list({.start = {at}, .buffer_bytes = root_.buffer_bytes[list], .count = count});
    marks_[list].resize(count);
    at += round_up(count * root_.buffer_bytes[list], kBufferUnitBytes);
  }
  writer_.copy({0}, std::as_bytes(std::span(&root_, 1)));
  const prism::snic::RegionSpec region = {.id = region_,
                                          .writer = &writer_,
                                          .start = {0},
                                          .bytes = round_up(bytes, 8),
                                          .buffers = &lists_,
                                          .guard = this};
  REFRACT_CHECK(executor_.add_region(region).has_value());
  REFRACT_CHECK(
      chains_.offer({.store = std::string(kStoreName), .region = region_, .rights = kRights, .root = 0})
          .has_value());
}

void PrismKvServer::answer_through(rpc::Server* server) noexcept {
  server_ = server;
  chains_.answer_through(server);
}

Code PrismKvServer::may_swap(const prism::snic::Swap& swap) noexcept {
  if (swap.bytes != sizeof(Slot) || swap.at.value < root_.slots) return Code::kAccessDenied;
  const uint64_t distance = swap.at.value - root_.slots;
  if (distance % sizeof(Slot) != 0 || distance / sizeof(Slot) >= root_.slot_count) {
    return Code::kAccessDenied;
  }
  const RemotePointer item{swap.after[0]};
  const bool is_its_own = item.region() == region_ && lists_.is_out({item.offset()});
  return is_its_own ? Code::kOk : Code::kAccessDenied;
}

void PrismKvServer::handle(std::span<const rpc::IncomingCall> calls) noexcept {
  for (const rpc::IncomingCall& call : calls) {
    const bool is_known = call.header.method == kMethodReport;
    server_->reply(call.from, is_known ? take_reports(call) : Code::kUnsupported);
  }
  work_on_reports();
}

Code PrismKvServer::take_reports(const rpc::IncomingCall& call) {
  std::array<uint64_t, kReportsMax> pointers{};
  const size_t bytes = call.payload.size();
  if (bytes % sizeof(pointers[0]) != 0 || bytes > sizeof(pointers)) return Code::kMalformed;
  copy_possibly_torn(pointers.data(), call.payload.data(), bytes);
  for (size_t i = 0; i < bytes / sizeof(pointers[0]); ++i) {
    const RemotePointer pointer{pointers[i]};
    // What waits is bounded by the buffers that there are.
    if (pointer.region() == region_ && lists_.is_out({pointer.offset()}) &&
        reported_.size() < marks_[0].size() * root_.list_count) {
      reported_.push_back({pointer.offset()});
    } else {
      ++counts_.refused;
    }
  }
  return Code::kOk;
}

// With no chain under way a buffer that is out and that no slot leads to is free. Its reporter proves
// nothing: it may have been swept and taken by another put meanwhile.
void PrismKvServer::work_on_reports() noexcept {
  if (executor_.open_runs() != 0) return;
  for (const Offset buffer : reported_) {
    if (!lists_.is_out(buffer) || is_reachable(buffer)) {
      ++counts_.refused;
      continue;
    }
    give_back(buffer);
    ++counts_.reported;
  }
  reported_.clear();
}

std::optional<PrismKvServer::Bytes> PrismKvServer::key_in(Offset buffer, ItemHeader& header) const noexcept {
  std::memcpy(&header, writer_.at(buffer), sizeof(header));
  // A client may have put anything there.
  if (header.key_bytes == 0 || header.key_bytes > root_.key_bytes_max) return std::nullopt;
  return Bytes(writer_.at(buffer.plus(sizeof(header))), header.key_bytes);
}

bool PrismKvServer::is_reachable(Offset buffer) const noexcept {
  ItemHeader header{};
  const std::optional<Bytes> key = key_in(buffer, header);
  if (!key) return false;
  const uint64_t home = home_of(*key, root_);
  for (uint64_t probe = 0; probe < std::min(kProbesMax, root_.slot_count); ++probe) {
    const RemotePointer pointer{slot(home + probe).pointer};
    if (pointer.offset() == buffer.value) return true;
    if (pointer.offset() == 0) return false;
  }
  return false;
}

PrismKvServer::Mark& PrismKvServer::mark_of(Offset buffer) noexcept {
  for (uint64_t list = 0;; ++list) {
    const prism::snic::FreeLists::List& geometry = lists_.list(list);
    const uint64_t end = geometry.start.value + geometry.count * geometry.buffer_bytes;
    if (buffer.value >= end) continue;
    return marks_[list][(buffer.value - geometry.start.value) / geometry.buffer_bytes];
  }
}

void PrismKvServer::give_back(Offset buffer) noexcept {
  mark_of(buffer) = {};
  lists_.retire(buffer);
}

// Chains run between two calls, so a slot may change behind the sweep's back. But a buffer that is free now
// and in use at the end of a pass was taken in it; and one that a slot led to throughout a pass was met in
// it. So what was out and not met in two passes, one behind the other, is free.
void PrismKvServer::keep_house() noexcept {
  work_on_reports();
  if (executor_.open_runs() != 0) return;
  uint64_t steps = kStepsPerCall;
  meet_slots(steps);
  sweep_buffers(steps);
  if (next_buffer_.list < root_.list_count) return;
  next_slot_ = 0;
  next_buffer_ = {};
  ++counts_.passes;
}

void PrismKvServer::meet_slots(uint64_t& steps) noexcept {
  for (; next_slot_ < root_.slot_count && steps > 0; --steps, ++next_slot_) {
    const RemotePointer pointer{slot(next_slot_).pointer};
    if (pointer.offset() != 0) mark_of({pointer.offset()}).is_met = true;
  }
}

void PrismKvServer::sweep_buffers(uint64_t& steps) noexcept {
  for (; next_buffer_.list < root_.list_count && steps > 0; --steps) {
    const prism::snic::FreeLists::List& geometry = lists_.list(next_buffer_.list);
    if (next_buffer_.number == geometry.count) {
      next_buffer_ = {.list = next_buffer_.list + 1};
      continue;
    }
    const Offset at = geometry.start.plus(next_buffer_.number * geometry.buffer_bytes);
    Mark& mark = marks_[next_buffer_.list][next_buffer_.number];
    ++next_buffer_.number;
    const bool is_missed = !mark.is_met && lists_.is_out(at);
    mark = {.is_met = false, .missed = static_cast<uint8_t>(is_missed ? mark.missed + 1 : 0)};
    if (mark.missed < 2) continue;
    give_back(at);
    ++counts_.swept;
  }
}

designs::Server::Facts PrismKvServer::facts() const {
  Facts facts;
  for (uint64_t list = 0; list < root_.list_count; ++list) {
    facts.buffers += lists_.list(list).count;
    facts.free_buffers += lists_.free_count(list);
  }
  for (uint64_t index = 0; index < root_.slot_count; ++index) {
    const RemotePointer pointer{slot(index).pointer};
    if (pointer.offset() == 0) continue;
    ++facts.used_buffers;
    const auto& header = writer_.view<ItemHeader>({pointer.offset()});
    facts.keys += header.value_bytes != ItemHeader::kTombstone ? 1 : 0;
  }
  return facts;
}

std::optional<std::string> PrismKvServer::contradiction_at(uint64_t index) const {
  const Slot& there = slot(index);
  const RemotePointer pointer{there.pointer};
  if (pointer.offset() == 0) {
    return there == Slot{} ? std::nullopt : std::optional(fmt::format("slot {} has been emptied", index));
  }
  if (pointer.region() != region_ || !lists_.is_out({pointer.offset()})) {
    return fmt::format("slot {} leads to what is no buffer in use", index);
  }
  ItemHeader header{};
  const std::optional<Bytes> key = key_in({pointer.offset()}, header);
  if (!key || there.bound != header.item_bytes()) return fmt::format("slot {} leads to no item", index);
  const uint64_t home = home_of(*key, root_);
  for (uint64_t probe = 0; probe < kProbesMax; ++probe) {
    const RemotePointer other{slot(home + probe).pointer};
    if (other.offset() == 0) return fmt::format("the key of slot {} is not found", index);
    if (((home + probe) & (root_.slot_count - 1)) == index) return std::nullopt;
    ItemHeader other_header{};
    const std::optional<Bytes> other_key = key_in({other.offset()}, other_header);
    if (other_key && std::ranges::equal(*other_key, *key)) {
      return fmt::format("the key of slot {} stands in another slot, too", index);
    }
  }
  return fmt::format("the key of slot {} stands too far from home", index);
}

std::optional<std::string> PrismKvServer::contradiction() const {
  if (std::memcmp(writer_.at({0}), &root_, sizeof(root_)) != 0) return "the root is another";
  std::vector<uint64_t> pointers;
  for (uint64_t index = 0; index < root_.slot_count; ++index) {
    if (std::optional<std::string> wrong = contradiction_at(index)) return wrong;
    if (slot(index).pointer != 0) pointers.push_back(slot(index).pointer);
  }
  std::ranges::sort(pointers);
  if (std::ranges::adjacent_find(pointers) != pointers.end()) return "two slots lead to one buffer";
  return std::nullopt;
}

Reported<std::unique_ptr<designs::Server>> make_server(const designs::ServerParts& parts) {
  const Root root = root_for(parts.capacity, parts.hash_seed);
  if (item_bytes_max(root) > prism::kTransferBytesMax) {
    return report(Code::kTooLarge,
                  fmt::format("PRISM-KV cannot hold items of {} bytes", item_bytes_max(root)),
                  fmt::format("one operation of a chain carries {} bytes: ask for shorter values",
                              prism::kTransferBytesMax));
  }
  return std::make_unique<PrismKvServer>(parts);
}

}  // namespace refract::kv::prism_kv
