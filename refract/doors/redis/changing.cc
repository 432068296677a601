// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/redis/changing.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "refract/base/clock.h"
#include "refract/base/units.h"
#include "refract/doors/redis/handlers.h"
#include "refract/txn/attempts.h"

namespace refract::doors::redis {

using kv::functions::Before;
using kv::functions::Effect;
using kv::functions::Function;
using kv::functions::Plan;
using runtime::Task;
using txn::Attempts;

uint64_t store_now_ns(const Store& store) noexcept {
  return system_clock().boot_ns() + store.time_offset_ns;
}

Task<> learn_store_time(Store& store) {
  constexpr int kPings = 8;
  uint64_t offset_ns = 0;
  for (int i = 0; i < kPings;) {
    const Result<Pong> pong = co_await store.client->ping();
    if (pong) {
      offset_ns = std::max(offset_ns, pong->node_wall_ns - system_clock().boot_ns());
      ++i;
    } else {
      co_await store.shard.sleep_for(kSecond_ns);
    }
  }
  store.time_offset_ns = offset_ns;
  store.knows_time = true;
}

Task<> ChangingRoom::take(size_t bytes) {
  store_.changing_bytes -= std::exchange(bytes_, 0);
  if (bytes < kCountedMin) co_return;
  while (store_.changing_bytes > 0 && store_.changing_bytes + bytes > kChangingBytesMax) {
    co_await store_.shard.sleep_for(kMillisecond_ns);
  }
  bytes_ = bytes;
  store_.changing_bytes += bytes_;
}

ChangingRoom::~ChangingRoom() {
  store_.changing_bytes -= bytes_;
}

uint64_t in_whole_ms(uint64_t wall_ns) noexcept {
  return wall_ns - wall_ns % kMillisecond_ns;
}

namespace {

// What the key has, in `old`. An absent one is no error: nothing is told of it.
Task<Result<std::optional<Got>>> read(Store& store, std::string_view key, bool reads_value,
                                      std::string& old) {
  old.clear();
  Result<Got> got = fail(Code::kNotFound);
  if (reads_value) {
    got = co_await store.client->get(key, old);
  } else {
    got = co_await store.client->exists(key);
  }
  if (got) co_return std::optional(*got);
  if (got.code() != Code::kNotFound) co_return fail(got.error());
  old.clear();
  co_return std::nullopt;
}

// A value that is made: where it is long, where the node's server reads it.
class Made {
 public:
  Made(AsyncClient& client, uint64_t bytes) {
    constexpr uint64_t kReservedMin = uint64_t{64} * 1024;
    Result<Reservation> reservation = fail(Code::kNoSpace);
    if (bytes >= kReservedMin) reservation = client.reserve(bytes);
    if (reservation) {
      reservation_.emplace(std::move(*reservation));
      bytes_ = reservation_->bytes();
    } else {
      memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
      bytes_ = {memory_.get(), bytes};
    }
  }
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }
  // Null: it is in the heap.
  [[nodiscard]] const Reservation* reservation() const noexcept {
    return reservation_ ? &*reservation_ : nullptr;
  }

 private:
  std::optional<Reservation> reservation_;
  std::unique_ptr<std::byte[]> memory_;
  std::span<std::byte> bytes_;
};

// On the version that was read.
Task<Code> commit(Store& store, std::string_view key, const std::optional<Got>& got, const Wish& wish,
                  const Made& made) {
  const bool is_made = wish.made_bytes > 0;
  const Reservation* const built = is_made ? made.reservation() : wish.built_in;
  KeyOperation operation{.if_absent = !got,
                         .if_version = got ? got->version : 0,
                         .expires_wall_ns = wish.expires_wall_ns,
                         .value = is_made ? Bytes(made.bytes()) : wish.value};
  if (wish.effect == Effect::kErase) {
    if (!got) co_return Code::kOk;
    operation = {.kind = KeyOperation::Kind::kErase, .if_version = got->version};
  }
  if (built != nullptr) {
    operation.value = {};
    operation.built_in = built;
  }
  const Operated operated = co_await store.client->operate(key, operation);
  co_return operated.code;
}

// The end of one attempt; nothing: it begins again, for it needs more room than it has.
Task<std::optional<Code>> attempt(Store& store, std::string_view key, const Change& change, std::string& old,
                                  ChangingRoom& room, size_t& wanted_bytes) {
  co_await room.take(wanted_bytes);
  const Result<std::optional<Got>> got = co_await read(store, key, change.reads_value, old);
  if (!got) co_return got.code();
  Before before;
  if (*got) {
    before = {.is_there = true, .value = Bytes(old), .expires_wall_ns = (*got)->expires_wall_ns};
  }
  const Wish wish = change.decide(before);
  if (wish.effect == Effect::kNone) co_return Code::kOk;
  Made made(*store.client, 0);
  if (wish.effect == Effect::kValue && wish.made_bytes > 0) {
    wanted_bytes = old.size() + wish.made_bytes;
    if (wanted_bytes > room.bytes() + ChangingRoom::kCountedMin) {
      // What is held while this waits is little.
      old = {};
      co_return std::nullopt;
    }
    made = Made(*store.client, wish.made_bytes);
    change.make(before, made.bytes());
  }
  const Code code = co_await commit(store, key, *got, wish, made);
  co_return code;
}

Task<Result<>> change_in_turn(Store& store, std::string_view key, const Change& change, std::string& old) {
  const uint64_t begun_ns = store.shard.refresh_now();
  Attempts attempts(begun_ns, kDoorTimeout_ns, store.client->new_request().sequence ^ begun_ns);
  ChangingRoom room(store);
  const Result<Got> look = store.client->exists_at_once(key);
  size_t wanted_bytes = look && change.reads_value ? 2 * look->value_bytes : 0;
  for (;;) {
    const std::optional<Code> code = co_await attempt(store, key, change, old, room, wanted_bytes);
    if (!code) continue;
    if (*code == Code::kOk) co_return Result<>();
    if (!Attempts::is_conflict(*code)) co_return fail(*code);
    const std::optional<uint64_t> pause_ns = attempts.pause(store.shard.refresh_now());
    if (!pause_ns) co_return fail(Code::kConflict);
    co_await store.shard.sleep_for(*pause_ns);
  }
}

}  // namespace

Task<Result<>> change_by(Store& store, std::string_view key, const Change& change, std::string& old) {
  const bool has_turn = co_await store.turns.take(key);
  if (!has_turn) co_return fail(Code::kOverloaded);
  const Result<> changed = co_await change_in_turn(store, key, change, old);
  store.turns.give(key);
  co_return changed;
}

Task<Changed> change(Store& store, std::string_view key, Function function,
                     std::span<const std::byte> arguments) {
  Plan plan;
  Changed changed;
  const Change row{.decide =
                       [&](const Before& before) {
                         plan = kv::functions::plan_to_put(function, arguments, before, store_now_ns(store));
                         changed = {.code = plan.code, .answer = std::string(Bytes(plan.answer).text())};
                         changed.answer.resize(plan.answer_bytes);
                         Wish wish{.effect = plan.effect, .expires_wall_ns = plan.expires_wall_ns};
                         if (plan.effect == Effect::kValue) wish.made_bytes = plan.value_bytes;
                         return wish;
                       },
                   .make =
                       [&](const Before& before, std::span<std::byte> value) {
                         kv::functions::fill(function, plan, arguments, before, value);
                         // A text that is longer than answers are.
                         if (changed.answer.empty()) changed.answer = Bytes(value).text();
                       }};
  std::string old;
  const Result<> done = co_await change_by(store, key, row, old);
  if (!done) co_return Changed{.code = done.code()};
  co_return std::move(changed);
}

}  // namespace refract::doors::redis
