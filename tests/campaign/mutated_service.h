// SPDX-License-Identifier: Apache-2.0
// A service that compares the version of a put early, and not again when it takes effect: of a large one when
// it begins, of a small one before there is room for it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "refract/kv/layout/wire.h"
#include "refract/kv/owner/table/table.h"
#include "refract/rpc/server.h"

namespace refract::campaign {

class EarlyCompareService final : public rpc::Service {
 public:
  EarlyCompareService(rpc::Service& service, kv::Table& table, kv::wire::Method method) noexcept
      : service_(service), table_(table), method_(method) {}

  void handle(std::span<const rpc::IncomingCall> calls) noexcept override {
    std::vector<rpc::IncomingCall> changed(calls.begin(), calls.end());
    std::deque<std::vector<std::byte>> payloads;
    for (rpc::IncomingCall& call : changed) {
      if (call.header.method != static_cast<uint16_t>(method_)) continue;
      payloads.emplace_back(call.payload.begin(), call.payload.end());
      compare_now(payloads.back());
      call.payload = payloads.back();
    }
    service_.handle(changed);
  }
  void session_opened(rpc::SessionId session) noexcept override { service_.session_opened(session); }
  void session_closed(rpc::SessionId session) noexcept override { service_.session_closed(session); }

 private:
  // Where the condition holds now, it goes.
  void compare_now(std::span<std::byte> payload) noexcept {
    std::span<const std::byte> rest = payload;
    auto request = kv::wire::take<kv::wire::PutRequest>(rest);
    if (!request || request->if_version == 0) return;
    if ((request->key.flags & kv::wire::KeyRef::kIdentified) != 0) {
      if (!kv::wire::take<kv::wire::Identity>(rest)) return;
    }
    if (request->key.key_bytes > rest.size()) return;
    const auto entry = table_.find(rest.first(request->key.key_bytes));
    if (!entry || entry->version != request->if_version) return;
    request->if_version = 0;
    const auto bytes = std::as_bytes(std::span(&*request, 1));
    std::ranges::copy(bytes, payload.begin());
  }

  rpc::Service& service_;
  kv::Table& table_;
  kv::wire::Method method_;
};

// A service that takes every put and erasure for a new one, so that an outcome is never found.
class ForgetfulService final : public rpc::Service {
 public:
  explicit ForgetfulService(rpc::Service& service) noexcept : service_(service) {}

  void handle(std::span<const rpc::IncomingCall> calls) noexcept override {
    std::vector<rpc::IncomingCall> changed(calls.begin(), calls.end());
    std::deque<std::vector<std::byte>> payloads;
    for (rpc::IncomingCall& call : changed) {
      const auto method = static_cast<kv::wire::Method>(call.header.method);
      if (method == kv::wire::Method::kPut) {
        renumber(payloads.emplace_back(call.payload.begin(), call.payload.end()),
                 sizeof(kv::wire::PutRequest));
      } else if (method == kv::wire::Method::kErase) {
        renumber(payloads.emplace_back(call.payload.begin(), call.payload.end()),
                 sizeof(kv::wire::EraseRequest));
      } else {
        continue;
      }
      call.payload = payloads.back();
    }
    service_.handle(changed);
  }
  void session_opened(rpc::SessionId session) noexcept override { service_.session_opened(session); }
  void session_closed(rpc::SessionId session) noexcept override { service_.session_closed(session); }

 private:
  void renumber(std::span<std::byte> payload, size_t fixed_bytes) noexcept {
    std::span<const std::byte> rest = payload;
    const auto ref = kv::wire::take<kv::wire::KeyRef>(rest);
    if (!ref || (ref->flags & kv::wire::KeyRef::kIdentified) == 0) return;
    if (payload.size() < fixed_bytes + sizeof(kv::wire::Identity)) return;
    const uint64_t sequence = ++sequence_;
    const auto bytes = std::as_bytes(std::span(&sequence, 1));
    std::ranges::copy(bytes, payload.subspan(fixed_bytes + offsetof(kv::wire::Identity, sequence)).begin());
  }

  rpc::Service& service_;
  uint64_t sequence_ = uint64_t{1} << 40;
};

}  // namespace refract::campaign
