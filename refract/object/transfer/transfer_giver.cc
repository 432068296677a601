// SPDX-License-Identifier: Apache-2.0
#include "refract/object/transfer/transfer_giver.h"

#include <algorithm>
#include <utility>

#include "refract/base/hash.h"
#include "refract/kv/layout/wire.h"
#include "refract/object/calls/call_front.h"

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

TransferGiver::TransferGiver(Parts parts) : parts_(std::move(parts)) {
  if (parts_.arrivals != nullptr) parts_.arrivals->tell(this);
}

TransferGiver::~TransferGiver() {
  if (parts_.arrivals != nullptr) parts_.arrivals->tell(nullptr);
  timer_ = {};
  telling_ = {};
  late_timer_ = {};
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
  std::erase_if(waiting_, [session](const Waiting& one) { return one.from.session == session; });
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
      case TransferMethod::kFollow:
        follow(from, call.payload);
        break;
      case TransferMethod::kProgress:
        progress(from, call.payload);
        break;
      default:
        answer(from, Code::kUnsupported);
    }
  }
}

bool TransferGiver::is_sound(const wire::TransferRequest& request) noexcept {
  return std::ranges::all_of(request.reserved, [](uint8_t byte) { return byte == 0; }) &&
         (request.by == TransferBy::kMessages || request.by == TransferBy::kReads) &&
         request.wants_digest <= 1;
}

void TransferGiver::transfer(const rpc::Responder& from, std::span<const std::byte> body) {
  const auto request = take<wire::TransferRequest>(body);
  if (!request || !is_sound(*request)) return answer(from, Code::kMalformed);
  TakenId id;
  const Code code = id.take_last(body, request->id_bytes);
  if (code != Code::kOk) return answer(from, code);
  // Under another list the puller may not publish what it gets.
  if (!parts_.elsewhere.may_fetch(from.session)) return answer(from, Code::kVersionMismatch);
  const Result<Object> object = parts_.store.find(id.bytes());
  if (!object || object->birth != request->birth) return answer(from, Code::kNotFound);
  const Given given{.object = object->object, .parts = object->parts, .ready = object->parts.filled_bytes()};
  wire::TransferReply reply{};
  wire::TransferPiece place{};
  const Code begun = begin(from, *request, given, sizeof(reply), reply, place);
  if (begun != Code::kOk) return answer(from, begun);
  answer(from, Code::kOk, bytes_of(reply), reply.pieces != 0 ? bytes_of(place) : wanted_of(given, *request));
  parts_.elsewhere.passed_on(from.session, id.text());
}

std::span<const std::byte> TransferGiver::bytes_of_given(const Given& given) const noexcept {
  return {parts_.writer.base() + given.object.value + ObjectParts::body_at(), given.parts.filled_bytes()};
}

Code TransferGiver::begin(const rpc::Responder& from, const wire::TransferRequest& request,
                          const Given& given, size_t head_bytes, wire::TransferReply& reply,
                          wire::TransferPiece& place) {
  const ObjectParts& parts = given.parts;
  const bool by_reads = request.by == TransferBy::kReads;
  const std::span<const std::byte> bytes = bytes_of_given(given);
  const size_t room = server_ == nullptr ? 0 : server_->payload_bytes_max(from.session);
  if (request.body_bytes != parts.body_bytes || request.metadata_bytes != parts.metadata_bytes ||
      !is_within(request.offset, request.bytes, bytes.size()) || room < head_bytes ||
      request.bytes > room - head_bytes || (by_reads && request.bytes != 0)) {
    return Code::kInvalidArgument;
  }
  const std::span<const std::byte> wanted = wanted_of(given, request);
  if (request.wants_digest != 0) reply.digest = hash_key(wanted, 0);
  ++counts_.messages;
  counts_.message_bytes += wanted.size();
  // All that there is, and ever will be: nothing is kept.
  if (wanted.size() == bytes.size()) {
    ++counts_.transfers;
    return Code::kOk;
  }
  std::vector<Open>& all = open_[from.session.bits];
  if (all.size() >= wire::kTransfersPerSession) return Code::kOverloaded;
  Open open{.number = last_number_ + 1,
            .object = given.object,
            .bytes = bytes,
            .window = {},
            .ready = given.ready,
            .is_arriving = given.is_arriving};
  if (by_reads) {
    if (parts_.windows == nullptr) return Code::kUnsupported;
    const std::span<std::byte> whole{parts_.writer.base() + (bytes.data() - parts_.writer.base()),
                                     bytes.size()};
    open.window = parts_.windows->open(whole, {.read = true});
    if (!open.window) return Code::kOverloaded;
    ++counts_.windows;
    reply.pieces = 1;
    place = {.address = open.window->address.bits,
             .key = open.window->key.bits,
             .offset = 0,
             .bytes = bytes.size()};
  }
  ++counts_.transfers;
  counts_.arriving += given.is_arriving ? 1 : 0;
  counts_.arriving_messages += given.is_arriving && !wanted.empty() ? 1 : 0;
  ++last_number_;
  // Of what is arriving, too: it protects from the moment at which it is an object.
  parts_.pins.pin(open.object);
  touch(open);
  followers_ += open.is_arriving ? 1 : 0;
  all.push_back(open);
  start_timer();
  reply.transfer = open.number;
  return Code::kOk;
}

// Those that are ready.
std::span<const std::byte> TransferGiver::wanted_of(const Given& given,
                                                    const wire::TransferRequest& request) const noexcept {
  const uint64_t first = std::min(request.offset, given.ready);
  return bytes_of_given(given).subspan(first, std::min<uint64_t>(request.bytes, given.ready - first));
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
  if (request->bytes > most || !is_within(request->offset, request->bytes, open->ready)) {
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
  counts_.arriving_messages += open->is_arriving ? 1 : 0;
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
  followers_ -= open.is_arriving ? 1 : 0;
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
  counts.waiting = waiting_.size();
  return counts;
}

}  // namespace refract::object
