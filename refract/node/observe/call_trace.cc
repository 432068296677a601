// SPDX-License-Identifier: Apache-2.0
#include "refract/node/observe/call_trace.h"

#include <algorithm>

namespace refract::observe {

uint64_t CallTrace::start(rpc::SessionId owner, uint64_t duration_ns, uint64_t records_max) {
  drop();
  records_.resize(std::clamp<uint64_t>(records_max, 1, kRecordsMax));
  owner_ = owner;
  started_ns_ = clock_.now_ns();
  until_ns_ = duration_ns > UINT64_MAX - started_ns_ ? UINT64_MAX : started_ns_ + duration_ns;
  on_ = true;
  return records_.size();
}

void CallTrace::drop() noexcept {
  on_ = false;
  owner_ = {};
  started_ns_ = until_ns_ = recorded_ = 0;
  std::vector<wire::TraceRecord>().swap(records_);
}

bool CallTrace::is_still_on() noexcept {
  on_ = clock_.now_ns() < until_ns_;
  return on_;
}

void CallTrace::record(const wire::TraceRecord& record) noexcept {
  records_[recorded_ % records_.size()] = record;
  ++recorded_;
}

void CallTrace::batch(std::span<const rpc::IncomingCall> calls) noexcept {
  const uint64_t now_ns = clock_.now_ns();
  wire::TraceRecord batch{};
  batch.ns = now_ns;
  batch.call = calls.size();
  batch.kind = static_cast<uint8_t>(wire::TraceKind::kBatch);
  record(batch);
  for (const rpc::IncomingCall& call : calls) {
    record({.ns = now_ns,
            .session = call.from.session.bits,
            .call = call.header.id,
            .bytes = call.header.bytes,
            .method = call.header.method,
            .kind = static_cast<uint8_t>(wire::TraceKind::kCall),
            .code = 0});
  }
}

void CallTrace::worked(size_t calls) noexcept {
  wire::TraceRecord worked{};
  worked.ns = clock_.now_ns();
  worked.call = calls;
  worked.kind = static_cast<uint8_t>(wire::TraceKind::kWorked);
  record(worked);
}

void CallTrace::replied(const rpc::Responder& to, Code code, size_t bytes) noexcept {
  if (!on_) return;
  record({.ns = clock_.now_ns(),
          .session = to.session.bits,
          .call = to.id,
          .bytes = static_cast<uint32_t>(bytes),
          .method = to.method,
          .kind = static_cast<uint8_t>(wire::TraceKind::kReply),
          .code = static_cast<uint8_t>(code)});
}

std::string CallTrace::take() {
  on_ = false;
  const uint64_t kept = std::min<uint64_t>(recorded_, records_.size());
  const wire::TraceHeader header{.started_ns = started_ns_,
                                 .ended_ns = std::min(until_ns_, clock_.now_ns()),
                                 .records = kept,
                                 .lost = recorded_ - kept};
  std::string out;
  out.reserve(sizeof(header) + kept * sizeof(wire::TraceRecord));
  out.append(reinterpret_cast<const char*>(&header), sizeof(header));
  const uint64_t oldest = kept == 0 ? 0 : (recorded_ - kept) % records_.size();
  const uint64_t first_part = std::min(kept, records_.size() - oldest);
  const auto append = [&](uint64_t from, uint64_t count) {
    if (count == 0) return;
    out.append(reinterpret_cast<const char*>(records_.data() + from), count * sizeof(wire::TraceRecord));
  };
  append(oldest, first_part);
  append(0, kept - first_part);
  drop();
  return out;
}

}  // namespace refract::observe
