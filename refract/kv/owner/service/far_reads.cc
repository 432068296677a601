// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/service/far_reads.h"

#include <utility>

#include "refract/kv/layout/wire.h"

namespace refract::kv {

using wire::Method;

std::vector<rpc::IncomingCall> FarReads::others(std::span<const rpc::IncomingCall> calls) {
  std::vector<rpc::IncomingCall> others;
  others.reserve(calls.size());
  for (const rpc::IncomingCall& call : calls) {
    if (!waits(call)) others.push_back(call);
  }
  return others;
}

namespace {

// Of a call of one key; nothing: it has none in it, or one that was staged, which a call uses up.
std::optional<std::span<const std::byte>> key_in(const rpc::IncomingCall& call) {
  std::span<const std::byte> body = call.payload;
  const auto key = wire::take<wire::KeyRef>(body);
  if (!key || key->staged != 0 || body.size() < key->key_bytes) return std::nullopt;
  return body.first(key->key_bytes);
}

bool is_of_one_key(const rpc::IncomingCall& call) noexcept {
  const auto method = static_cast<Method>(call.header.method);
  return method == Method::kGet || method == Method::kExists;
}

}  // namespace

// Whether it reads; and of which key, where it is one.
std::optional<std::optional<uint64_t>> FarReads::key_read(const rpc::IncomingCall& call) const {
  const auto method = static_cast<Method>(call.header.method);
  if (method == Method::kGetMany || method == Method::kScan) return std::optional<uint64_t>();
  if (!is_of_one_key(call)) return std::nullopt;
  const auto key = key_in(call);
  if (!key) return std::optional<uint64_t>();
  // The caller can still write there.
  const std::vector<std::byte> copy(key->begin(), key->end());
  return std::optional(table_.hash(copy));
}

bool FarReads::waits(const rpc::IncomingCall& call) {
  const auto hash = key_read(call);
  if (!hash || !host_.is_open(call.from.session)) return false;
  const uint64_t came = table_.parts()->far_tick();
  if (!table_.parts()->is_unclear(*hash, came)) return false;
  looks_->stir();
  // Its client sends a staged key again.
  const bool is_staged = is_of_one_key(call) && !key_in(call);
  const bool waits = !is_staged && reads_.add(call, *hash, came, shard_.now_ns());
  if (!waits) host_.refuse(call.from);
  count_ += waits ? 1 : 0;
  return true;
}

void FarReads::on_answer() noexcept {
  if (reads_.empty()) return;
  const uint64_t now_ns = shard_.refresh_now();
  for (WaitingReads::Read& read : reads_.take()) {
    if (!host_.is_open(read.from.session)) continue;
    if (!table_.parts()->is_unclear(read.hash, read.came)) {
      host_.read({.from = read.from, .header = read.header, .payload = read.payload});
    } else if (now_ns >= read.give_up_ns) {
      host_.refuse(read.from);
    } else {
      reads_.put_back(std::move(read));
    }
  }
  if (!reads_.empty()) looks_->stir();
}

}  // namespace refract::kv
