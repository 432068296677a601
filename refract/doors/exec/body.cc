// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/exec/body.h"

#include <span>
#include <utility>

#include "refract/doors/redis/changing.h"

namespace refract::doors::redis {

using kv::functions::Before;
using kv::functions::Effect;
using kv::functions::Function;
using kv::functions::Plan;

Body::Entry& Body::entry_of(std::string_view key) {
  const auto [place, is_new] = places_.try_emplace(key, nullptr);
  if (is_new) place->second = &entries_.emplace_back(Entry{.key = key});
  return *place->second;
}

const Body::Entry* Body::find(std::string_view key) const noexcept {
  const auto found = places_.find(key);
  return found == places_.end() ? nullptr : found->second;
}

void Body::need(Entry& entry, Depth depth) noexcept {
  entry.is_used = true;
  if (depth <= entry.needed) return;
  if (entry.known >= entry.needed) ++lacking_;
  entry.needed = depth;
}

void Body::is_read(Entry& entry) noexcept {
  if (entry.known < entry.needed) --lacking_;
  entry.known = entry.needed;
}

Body::Head Body::head(std::string_view key) {
  Entry& entry = entry_of(key);
  if (entry.wrote == Wrote::kNothing) {
    need(entry, Depth::kHead);
    if (entry.known == Depth::kNothing || entry.version == 0 || is_over(entry)) return {};
    return {.is_there = true,
            .value_bytes = entry.value_bytes,
            .expires_wall_ns = in_whole_ms(entry.expires_wall_ns)};
  }
  if (entry.wrote == Wrote::kErased || is_born_over(entry)) return {};
  return {.is_there = true,
          .value_bytes = entry.new_value().size(),
          .expires_wall_ns = entry.new_expires_wall_ns};
}

Before Body::value(std::string_view key) {
  Entry& entry = entry_of(key);
  if (entry.wrote == Wrote::kNothing) need(entry, Depth::kValue);
  const Head head = this->head(key);
  if (!head.is_there) return {};
  const bool is_own = entry.wrote == Wrote::kPut;
  // A look that is not deep enough has the commands run again.
  const std::string_view value = is_own ? entry.new_value() : std::string_view(entry.value);
  work_ += value.size();
  return {
      .is_there = true, .value = std::as_bytes(std::span(value)), .expires_wall_ns = head.expires_wall_ns};
}

void Body::drop_made(Entry& entry) noexcept {
  made_bytes_ -= entry.made.size();
  entry.made = {};
  entry.lent = {};
  entry.is_lent = false;
}

void Body::put(std::string_view key, std::string value, uint64_t expires_wall_ns) {
  Entry& entry = entry_of(key);
  drop_made(entry);
  made_bytes_ += value.size();
  work_ += value.size();
  entry.made = std::move(value);
  entry.wrote = Wrote::kPut;
  entry.new_expires_wall_ns = expires_wall_ns;
}

void Body::put_lent(std::string_view key, std::string_view value, uint64_t expires_wall_ns) {
  Entry& entry = entry_of(key);
  drop_made(entry);
  entry.lent = value;
  entry.is_lent = true;
  entry.wrote = Wrote::kPut;
  entry.new_expires_wall_ns = expires_wall_ns;
}

void Body::erase(std::string_view key) {
  Entry& entry = entry_of(key);
  drop_made(entry);
  entry.wrote = Wrote::kErased;
}

Plan Body::run(std::string_view key, Function function, std::span<const std::byte> arguments) {
  const Before before = value(key);
  Plan plan = kv::functions::plan_to_put(function, arguments, before, now_ns_);
  if (plan.effect == Effect::kErase) {
    erase(key);
  } else if (plan.effect == Effect::kValue) {
    if (plan.value_bytes > kBytesMax) {
      // Nothing of it is committed, so what the key has does not matter any more.
      is_too_large_ = true;
      plan.code = Code::kTooLarge;
      return plan;
    }
    std::string made(plan.value_bytes, '\0');
    kv::functions::fill(function, plan, arguments, before, std::as_writable_bytes(std::span(made)));
    put(key, std::move(made), plan.expires_wall_ns);
  }
  return plan;
}

void Body::forget_reads() noexcept {
  lacking_ = 0;
  for (Entry& entry : entries_) {
    entry.known = Depth::kNothing;
    entry.value = {};
    lacking_ += entry.needed != Depth::kNothing ? 1 : 0;
  }
}

void Body::begin(uint64_t now_ns) noexcept {
  now_ns_ = now_ns;
  for (Entry& entry : entries_) {
    drop_made(entry);
    entry.wrote = Wrote::kNothing;
    entry.is_used = false;
  }
  made_bytes_ = 0;
  is_too_large_ = false;
  work_ = hits_ = misses_ = 0;
}

}  // namespace refract::doors::redis
