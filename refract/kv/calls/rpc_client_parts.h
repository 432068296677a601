// SPDX-License-Identifier: Apache-2.0
// What rpc_client.cc is made of: how answers are taken apart, and how what an operation holds is given back
// when it ends early. Only the sources of RpcClient include this.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "refract/kv/calls/rpc_client.h"
#include "refract/kv/calls/rpc_client_calls.h"
#include "refract/kv/calls/task_team.h"
#include "refract/kv/layout/layout.h"
#include "refract/kv/layout/many_wire.h"
#include "refract/kv/layout/wire.h"

namespace refract::kv {

struct GetAnswer {
  Got got;
  uint64_t view = 0;  // Not 0: to be closed, whatever else is wrong.
  wire::WindowReply window{};
  std::span<std::byte> target;
  uint64_t taken_bytes = 0;  // Of the value, so far.
};

// Copies what came with the answer before anything can suspend.
[[nodiscard]] inline Code take_get_answer(std::span<const std::byte> bytes, bool wants_window,
                                          ValueSink& sink, GetAnswer& answer) {
  const auto reply = wire::take<wire::GetReply>(bytes);
  if (!reply) return Code::kMalformed;
  answer.view = reply->view;
  if (wants_window && reply->view != 0) {
    const auto window = wire::take<wire::WindowReply>(bytes);
    if (!window) return Code::kMalformed;
    answer.window = *window;
  }
  answer.got = {.version = reply->version,
                .value_bytes = reply->value_bytes,
                .expires_wall_ns = reply->expires_wall_ns};
  const bool is_whole = bytes.size() == reply->value_bytes;
  if (reply->value_bytes > kValueBytesMax || bytes.size() > reply->value_bytes ||
      is_whole != (reply->view == 0)) {
    return Code::kMalformed;
  }
  std::byte* target = sink.room(reply->value_bytes);
  if (target == nullptr) return Code::kTooLarge;
  if (!bytes.empty()) copy_possibly_torn(target, bytes.data(), bytes.size());
  answer.target = {target, reply->value_bytes};
  answer.taken_bytes = bytes.size();
  return Code::kOk;
}

// Likewise, of one of many.
[[nodiscard]] inline Code give(const wire::ManyAnswer& answer, ValueSink& sink, Got& got) {
  std::byte* const target = sink.room(answer.value.size());
  if (target == nullptr) return Code::kTooLarge;
  if (!answer.value.empty()) copy_possibly_torn(target, answer.value.data(), answer.value.size());
  got = {.version = answer.entry.version,
         .value_bytes = answer.value.size(),
         .expires_wall_ns = answer.entry.expires_wall_ns};
  return Code::kOk;
}

// Whether a page as announced can be; `inline_bytes` came with it.
[[nodiscard]] inline bool is_sound(const wire::ScanReply& reply, size_t inline_bytes) noexcept {
  constexpr uint64_t kPageBytesMax = uint64_t{64} << 20;
  return reply.page_bytes <= kPageBytesMax && inline_bytes <= reply.page_bytes &&
         (inline_bytes == reply.page_bytes) == (reply.view == 0);
}

[[nodiscard]] inline bool parse_page(std::span<const std::byte> page, uint32_t count,
                                     std::vector<RpcClient::ScannedKey>& keys) {
  while (!page.empty()) {
    const auto entry = wire::take<wire::ScanEntry>(page);
    if (!entry || entry->key_bytes == 0 || entry->key_bytes > page.size()) return false;
    keys.push_back({.key = {reinterpret_cast<const char*>(page.data()), entry->key_bytes},
                    .version = entry->version,
                    .value_bytes = entry->value_bytes});
    page = page.subspan(entry->key_bytes);
  }
  return keys.size() == count;
}

// How long an operation retries what the owner could not do just now.
class RpcClient::RetryBudget {
 public:
  static constexpr uint64_t kPauseMin_ns = 50 * kMicrosecond_ns;
  static constexpr uint64_t kPauseMax_ns = 10 * kMillisecond_ns;
  static constexpr int kLossesMax = 3;

  uint64_t deadline_ns;
  uint64_t pause_ns = kPauseMin_ns;
  int losses = 0;  // Of what the owner held for the operation.
};

// What a view shows and has not been taken yet.
struct RpcClient::ViewRest {
  uint64_t view;
  wire::WindowReply window;
  std::span<std::byte> target;
  uint64_t from;

  [[nodiscard]] static ViewRest of(const GetAnswer& answer) noexcept {
    return {
        .view = answer.view, .window = answer.window, .target = answer.target, .from = answer.taken_bytes};
  }
};

// An answered kPutBegin.
struct RpcClient::Upload {
  uint64_t id;
  wire::WindowReply window;
  std::span<const std::byte> front;  // Of the value, before the rest of it.
  uint64_t version;                  // Where the id is 0: the put was executed before.
};

// A value on its way, piece by piece.
struct RpcClient::Transfer {
  uint64_t handle;                    // Upload or view.
  std::span<std::byte> target;        // Reading: where to.
  std::span<const std::byte> source;  // Writing: where from.
  uint64_t next;                      // The first byte that no task has taken on.
  uint64_t deadline_ns;
  Code code;  // The first failure.
  TaskTeam team;
  std::span<const std::byte> front = {};  // Writing: goes first.

  [[nodiscard]] uint64_t bytes() const noexcept { return target.size() + front.size() + source.size(); }
  // What is to be written next, in one piece.
  [[nodiscard]] std::span<const std::byte> rest() const noexcept {
    return next < front.size() ? front.subspan(next) : source.subspan(next - front.size());
  }
  void fail_with(Code failure) noexcept { code = code == Code::kOk ? failure : code; }
};

// One of the places in which a long key can be staged.
class RpcClient::StagedPlace {
 public:
  explicit StagedPlace(RpcClient& client) noexcept : places_(client.places_in_use_), index_(places_.size()) {}
  StagedPlace(const StagedPlace&) = delete;
  StagedPlace& operator=(const StagedPlace&) = delete;
  ~StagedPlace() {
    if (index_ < places_.size()) places_[index_] = false;
  }

  // False: all are in use.
  [[nodiscard]] bool take() noexcept {
    index_ = static_cast<size_t>(std::ranges::find(places_, false) - places_.begin());
    if (index_ == places_.size()) return false;
    return places_[index_] = true;
  }
  [[nodiscard]] uint8_t index() const noexcept { return static_cast<uint8_t>(index_); }

 private:
  std::array<bool, wire::kStagedKeysPerSession>& places_;
  size_t index_;
};

// Tells the owner, without waiting for an answer, that an upload or view is not wanted any more. Where that
// cannot be sent, the owner finds out by itself (SessionState::kIdle_ns).
class RpcClient::OpenHandle {
 public:
  OpenHandle(rpc::Session& session, wire::Method closing, uint64_t id) noexcept
      : session_(session), closing_(closing), handle_{id} {}
  OpenHandle(const OpenHandle&) = delete;
  OpenHandle& operator=(const OpenHandle&) = delete;
  ~OpenHandle() {
    if (handle_.id == 0) return;
    const uint64_t call = session_.start(
        {.method = static_cast<uint16_t>(closing_), .head = std::as_bytes(std::span(&handle_, 1))});
    if (call != 0) (void)session_.finish(call);
  }

  void forget() noexcept { handle_.id = 0; }

 private:
  rpc::Session& session_;
  wire::Method closing_;
  wire::Handle handle_;
};

}  // namespace refract::kv
