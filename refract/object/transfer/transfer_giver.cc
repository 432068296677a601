// SPDX-License-Identifier: Apache-2.0
#include "refract/object/transfer/transfer_giver.h"

#include <algorithm>
#include <utility>

#include "refract/base/hash.h"
#include "refract/kv/layout/wire.h"
#include "refract/object/calls/call_front.h"
#include "refract/object/owner/object_sessions.h"

namespace refract::object {

using kv::wire::take;
using runtime::Task;
using wire::TransferBy;
using wire::TransferMethod;

namespace {

// How often it looks for transfers of which nothing is asked any more.
constexpr uint64_t kIdleLook_ns = kSecond_ns;

[[nodiscard]] bool is_within(uint64_t offset, uint64_t bytes, uint64_t size) noexcept {
  return offset <= size && bytes <= size - offset;
}

}  // namespace

TransferGiver::~TransferGiver() {
  timer_ = {};
  for (const auto& [session, all] : open_) {
    for (const Open& one : all) {
      if (one.window) (void)parts_.windows->close(*one.window);
      parts_.pins.unpin(one.object);
    }
  }
}

void TransferGiver::answer(const rpc::Responder& to, Code code, std::span<const std::byte> head,
                           std::span<const std::byte> tail) noexcept {
  if (server_ != nullptr) server_->reply(to, code, head, tail);
}

void TransferGiver::session_opened(rpc::SessionId /*session*/) noexcept {}

void TransferGiver::session_closed(rpc::SessionId session) noexcept {
  const auto at = open_.find(session.bits);
  if (at == open_.end()) return;
  const std::vector<Open> all = std::move(at->second);
  open_.erase(at);
  for (const Open& one : all) end(one);
}

void TransferGiver::handle(std::span<const rpc::IncomingCall> calls) noexcept {
  for (const rpc::IncomingCall& call : calls) {
    const rpc::Responder& from = call.from;
    if (!parts_.elsewhere.is_node(from.session)) {
      answer(from, Code::kAccessDenied);
      continue;
    }
    switch (static_cast<TransferMethod>(call.header.method)) {
      case TransferMethod::kTransfer:
        transfer(from, call.payload);
        break;
      case TransferMethod::kData:
      case TransferMethod::kDigest:
        data(from, call.payload, call.header.method == static_cast<uint16_t>(TransferMethod::kDigest));
        break;
      case TransferMethod::kDone:
        done(from, call.payload);
        break;
      default:
        answer(from, Code::kUnsupported);
    }
  }
}

void TransferGiver::transfer(const rpc::Responder& from, std::span<const std::byte> body) {
  const auto request = take<wire::TransferRequest>(body);
  if (!request || std::ranges::any_of(request->reserved, [](uint8_t byte) { return byte != 0; }) ||
      (request->by != TransferBy::kMessages && request->by != TransferBy::kReads) ||
      request->wants_digest > 1) {
    return answer(from, Code::kMalformed);
  }
  TakenId id;
  const Code code = id.take_last(body, request->id_bytes);
  if (code != Code::kOk) return answer(from, code);
  // Under another list the puller may not publish what it gets.
  if (!parts_.elsewhere.may_fetch(from.session)) return answer(from, Code::kVersionMismatch);
  const Result<Object> object = parts_.store.find(id.bytes());
  if (!object || object->birth != request->birth) return answer(from, Code::kNotFound);
  const Code begun = begin(from, *request, *object);
  if (begun != Code::kOk) return answer(from, begun);
  parts_.elsewhere.passed_on(from.session, id.text());
}

// kOk: it is answered.
Code TransferGiver::begin(const rpc::Responder& from, const wire::TransferRequest& request,
                          const Object& object) {
  const ObjectParts& parts = object.parts;
  const bool by_reads = request.by == TransferBy::kReads;
  const uint64_t filled_bytes = parts.filled_bytes();
  const size_t room = server_ == nullptr ? 0 : server_->payload_bytes_max(from.session);
  if (request.body_bytes != parts.body_bytes || request.metadata_bytes != parts.metadata_bytes ||
      !is_within(request.offset, request.bytes, filled_bytes) || room < sizeof(wire::TransferReply) ||
      request.bytes > room - sizeof(wire::TransferReply) || (by_reads && request.bytes != 0)) {
    return Code::kInvalidArgument;
  }
  std::byte* const first = parts_.writer.base() + object.object.value + ObjectParts::body_at();
  const std::span<const std::byte> wanted{first + request.offset, request.bytes};
  wire::TransferReply reply{.transfer = 0,
                            .digest = request.wants_digest != 0 ? hash_key(wanted, 0) : 0,
                            .pieces = 0,
                            .reserved = 0};
  ++counts_.messages;
  counts_.message_bytes += wanted.size();
  if (wanted.size() == filled_bytes) {
    ++counts_.transfers;
    answer(from, Code::kOk, bytes_of(reply), wanted);
    return Code::kOk;
  }
  std::vector<Open>& all = open_[from.session.bits];
  if (all.size() >= wire::kTransfersPerSession) return Code::kOverloaded;
  Open open{
      .number = last_number_ + 1, .object = object.object, .bytes = {first, filled_bytes}, .window = {}};
  if (by_reads) {
    if (parts_.windows == nullptr) return Code::kUnsupported;
    open.window = parts_.windows->open({first, filled_bytes}, {.read = true});
    if (!open.window) return Code::kOverloaded;
    ++counts_.windows;
    reply.pieces = 1;
  }
  ++counts_.transfers;
  ++last_number_;
  parts_.pins.pin(open.object);
  touch(open);
  all.push_back(open);
  start_timer();
  reply.transfer = open.number;
  if (!by_reads) {
    answer(from, Code::kOk, bytes_of(reply), wanted);
    return Code::kOk;
  }
  const wire::TransferPiece piece{
      .address = open.window->address.bits, .key = open.window->key.bits, .offset = 0, .bytes = filled_bytes};
  answer(from, Code::kOk, bytes_of(reply), bytes_of(piece));
  return Code::kOk;
}

TransferGiver::Open* TransferGiver::find(rpc::SessionId session, uint64_t number) noexcept {
  const auto at = open_.find(session.bits);
  if (at == open_.end()) return nullptr;
  const auto found = std::ranges::find(at->second, number, &Open::number);
  return found == at->second.end() ? nullptr : &*found;
}

void TransferGiver::touch(Open& open) noexcept {
  open.due_ns = moment_after(parts_.shard.now_ns(), kIdle_ns + open.bytes.size() / kMiB * kIdlePerMiB_ns);
}

void TransferGiver::data(const rpc::Responder& from, std::span<const std::byte> body, bool is_digest) {
  const auto request = take<wire::DataRequest>(body);
  if (!request || !body.empty() || request->reserved != 0) return answer(from, Code::kMalformed);
  Open* const open = find(from.session, request->transfer);
  if (open == nullptr) return answer(from, Code::kInvalidated);
  const uint64_t most = is_digest ? wire::kDigestBytesMax : server_->payload_bytes_max(from.session);
  if (request->bytes > most || !is_within(request->offset, request->bytes, open->bytes.size())) {
    return answer(from, Code::kInvalidArgument);
  }
  touch(*open);
  const std::span<const std::byte> bytes = open->bytes.subspan(request->offset, request->bytes);
  if (is_digest) {
    ++counts_.digests;
    const wire::DigestReply reply{hash_key(bytes, 0)};
    return answer(from, Code::kOk, bytes_of(reply));
  }
  ++counts_.messages;
  counts_.message_bytes += bytes.size();
  answer(from, Code::kOk, {}, bytes);
}

void TransferGiver::done(const rpc::Responder& from, std::span<const std::byte> body) {
  const auto request = take<wire::DoneRequest>(body);
  if (!request || !body.empty()) return answer(from, Code::kMalformed);
  const Open* const open = find(from.session, request->transfer);
  if (open == nullptr) return answer(from, Code::kInvalidated);
  const Open over = *open;
  std::erase_if(open_[from.session.bits], [&](const Open& one) { return one.number == over.number; });
  end(over);
  answer(from, Code::kOk);
}

// The window first: what comes into the memory afterwards is not the reader's.
void TransferGiver::end(const Open& open) {
  if (open.window) (void)parts_.windows->close(*open.window);
  parts_.pins.unpin(open.object);
  if (parts_.has_let_go) parts_.has_let_go();
}

// --- Those of which nothing is asked any more ---

void TransferGiver::start_timer() {
  if (std::exchange(is_timing_, true)) return;
  timer_ = run_timer();
  timer_.start();
}

Task<> TransferGiver::run_timer() {
  for (;;) {
    co_await parts_.shard.sleep_for(kIdleLook_ns);
    if (end_idle(parts_.shard.now_ns()) == kForever_ns) break;
  }
  is_timing_ = false;
}

uint64_t TransferGiver::end_idle(uint64_t now_ns) {
  uint64_t next_ns = kForever_ns;
  std::vector<Open> over;
  for (auto& [session, all] : open_) {
    std::erase_if(all, [&](const Open& one) {
      if (one.due_ns > now_ns) {
        next_ns = std::min(next_ns, one.due_ns);
        return false;
      }
      over.push_back(one);
      return true;
    });
  }
  counts_.idle += over.size();
  for (const Open& one : over) end(one);
  return next_ns;
}

TransferGiver::Counts TransferGiver::counts() const noexcept {
  Counts counts = counts_;
  for (const auto& [session, all] : open_) counts.open += all.size();
  return counts;
}

}  // namespace refract::object
