// SPDX-License-Identifier: Apache-2.0
// Reads that meet what transactions of other nodes have prepared here: docs/design/070. They wait until the
// home has been looked at.
#include <optional>
#include <utility>
#include <vector>

#include "refract/kv/owner/far/far_talk.h"
#include "refract/kv/owner/parts/parts.h"
#include "refract/kv/owner/service/service.h"

namespace refract::kv {

using wire::Method;

void TableService::look_through(FarTalk* far) noexcept {
  far_ = far;
}

bool TableService::has_far() const noexcept {
  return far_ != nullptr && parts_.table.parts()->has_far();
}

// Those that need not wait are served as ever.
void TableService::handle_beside_far(std::span<const rpc::IncomingCall> calls) noexcept {
  std::vector<rpc::IncomingCall> others;
  others.reserve(calls.size());
  for (const rpc::IncomingCall& call : calls) {
    if (!waits_for_look(call)) others.push_back(call);
  }
  handle_in_groups(others);
}

// Whether it reads; and of which key, where it is one that the call has with it.
std::optional<std::optional<uint64_t>> TableService::key_read(const rpc::IncomingCall& call) noexcept {
  const auto method = static_cast<Method>(call.header.method);
  if (method == Method::kGetMany || method == Method::kScan) return std::optional<uint64_t>();
  if (method != Method::kGet && method != Method::kExists) return std::nullopt;
  std::span<const std::byte> body = call.payload;
  const auto key = wire::take<wire::KeyRef>(body);
  if (!key || key->staged != 0 || body.size() < key->key_bytes) return std::optional<uint64_t>();
  arena_.clear();
  return std::optional(parts_.table.hash(arena_.copy(body.first(key->key_bytes))));
}

bool TableService::waits_for_look(const rpc::IncomingCall& call) noexcept {
  const auto hash = key_read(call);
  if (!hash || find(call.from.session) == nullptr) return false;
  const uint64_t came = parts_.table.parts()->far_tick();
  if (!parts_.table.parts()->is_unclear(*hash, came)) return false;
  far_->stir();
  const auto method = static_cast<Method>(call.header.method);
  std::span<const std::byte> body = call.payload;
  const auto key = wire::take<wire::KeyRef>(body);
  // A staged key is used up by the call; its client sends both again.
  const bool is_staged = (method == Method::kGet || method == Method::kExists) && key && key->staged != 0;
  const bool waits = !is_staged && reads_.add(call, *hash, came, parts_.shard.now_ns());
  if (!waits) answer(call.from, Code::kOverloaded);
  looked_at_ += waits ? 1 : 0;
  return true;
}

void TableService::on_far_answer() noexcept {
  if (reads_.empty()) return;
  const uint64_t now_ns = parts_.shard.refresh_now();
  for (WaitingReads::Read& read : reads_.take()) {
    if (find(read.from.session) == nullptr) continue;
    if (!parts_.table.parts()->is_unclear(read.hash, read.came)) {
      const rpc::IncomingCall call{.from = read.from, .header = read.header, .payload = read.payload};
      handle_in_groups({&call, 1});
    } else if (now_ns >= read.give_up_ns) {
      answer(read.from, Code::kOverloaded);
    } else {
      reads_.put_back(std::move(read));
    }
  }
  if (!reads_.empty()) far_->stir();
  look_after_memory();
}

}  // namespace refract::kv
