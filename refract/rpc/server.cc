// SPDX-License-Identifier: Apache-2.0
#include "refract/rpc/server.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "refract/base/check.h"

namespace refract::rpc {
namespace {

[[nodiscard]] bool post(fabric::Channel& channel, std::span<const std::byte> first,
                        std::span<const std::byte> tail) noexcept {
  // The channel only reads the bytes of a message, but a LocalSpan also serves READs.
  const auto writable = [](std::span<const std::byte> bytes) {
    auto* data = const_cast<std::byte*>(bytes.data());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    return fabric::LocalSpan{data, bytes.size()};
  };
  const fabric::Request request = {.local = writable(first), .tail = writable(tail), .op = fabric::Op::kSend};
  return channel.post({&request, 1}) == 1;
}

}  // namespace

void Service::session_opened(SessionId /*session*/) noexcept {}
void Service::session_closed(SessionId /*session*/) noexcept {}

Server::Server(Service& service, runtime::Shard& shard, const ServerOptions& options)
    : service_(&service), shard_(&shard), options_(options) {
  sessions_.reserve(options.sessions_max);
  free_sessions_.reserve(options.sessions_max);
}

Server::~Server() {
  for (const std::unique_ptr<Session>& session : sessions_) {
    if (session->channel != nullptr) session->channel->close();
    fabric::detach(*session);
  }
}

SessionId Server::id_of(const Session& session) noexcept {
  return {(uint64_t{session.generation} << 32) | session.index};
}

Server::Session* Server::session_of(const fabric::Channel& channel) noexcept {
  return static_cast<Session*>(static_cast<fabric::Endpoint*>(channel.context));
}

Server::Session* Server::find(SessionId id) noexcept {
  const uint64_t index = id.bits & 0xffff'ffff;
  if (index >= sessions_.size()) return nullptr;
  Session& session = *sessions_[index];
  const bool alive = session.generation == id.bits >> 32 && session.channel != nullptr && !session.closing;
  return alive ? &session : nullptr;
}

void Server::on_opened(fabric::Channel& channel, Code code) noexcept {
  if (code != Code::kOk) return;
  if (free_sessions_.empty() && sessions_.size() == options_.sessions_max) {
    ++counts_.refused_sessions;
    channel.close();
    return;
  }
  if (free_sessions_.empty()) {
    free_sessions_.push_back(static_cast<uint32_t>(sessions_.size()));
    sessions_.push_back(std::make_unique<Session>());
    sessions_.back()->index = free_sessions_.back();
  }
  Session& session = *sessions_[free_sessions_.back()];
  free_sessions_.pop_back();
  session.receiver = this;
  session.calls = session.received_bytes = session.sent_bytes = 0;
  session.opened_ns = session.active_ns = shard_->now_ns();
  fabric::attach(channel, session);
  // Once for the first channel; later ones find it large enough.
  scratch_.resize(std::max<size_t>(scratch_.size(), channel.capabilities().message_bytes_max));
  ++session_count_;
  service_->session_opened(id_of(session));
}

void Server::on_closed(fabric::Channel& channel, Code /*code*/) noexcept {
  Session* session = session_of(channel);
  if (session == nullptr) return;  // It was refused.
  const SessionId id = id_of(*session);
  outbox_count_ -= session->outbox.size();
  session->outbox.clear();
  session->unanswered = 0;
  session->closing = false;
  --session_count_;
  // A generation is never used twice: a slot that has used them all up stays unused.
  if (++session->generation != 0) free_sessions_.push_back(session->index);
  service_->session_closed(id);
}

void Server::close(Session& session) noexcept {
  session.closing = true;
  session.channel->close();
}

fabric::Channel* Server::channel(SessionId id) noexcept {
  const Session* session = find(id);
  return session == nullptr ? nullptr : session->channel;
}

const fabric::Capabilities* Server::capabilities(SessionId id) noexcept {
  const Session* session = find(id);
  return session == nullptr ? nullptr : &session->channel->capabilities();
}

size_t Server::payload_bytes_max(SessionId id) noexcept {
  const Session* session = find(id);
  return session == nullptr ? 0 : session->channel->capabilities().message_bytes_max - sizeof(MessageHeader);
}

std::optional<Server::SessionFacts> Server::session_at(size_t place) const noexcept {
  if (place >= sessions_.size() || sessions_[place]->channel == nullptr) return std::nullopt;
  const Session& session = *sessions_[place];
  return SessionFacts{.id = id_of(session),
                      .channel = session.channel,
                      .unanswered = session.unanswered,
                      .waiting_replies = static_cast<uint32_t>(session.outbox.size()),
                      .calls = session.calls,
                      .received_bytes = session.received_bytes,
                      .sent_bytes = session.sent_bytes,
                      .opened_ns = session.opened_ns,
                      .active_ns = session.active_ns};
}

void Server::flush(SessionId id) noexcept {
  if (const Session* session = find(id)) session->channel->flush();
}

void Server::close_session(SessionId id) noexcept {
  if (Session* session = find(id)) close(*session);
}

bool Server::admit(const fabric::Completion& message, IncomingCall& call) noexcept {
  Session* session = session_of(*message.channel);
  // No session: refused, and its peer has sent before it heard of that.
  if (session == nullptr || session->closing) return false;
  const std::optional<DecodedMessage> decoded = decode(message.bytes);
  if (!decoded || decoded->header.code != 0) {
    ++counts_.closed_malformed;
    close(*session);
    return false;
  }
  if (session->unanswered == options_.calls_max) {
    ++counts_.closed_overrun;
    close(*session);
    return false;
  }
  if (session->batch != batch_) {
    session->batch = batch_;
    session->calls_in_batch = 0;
    ++sessions_in_batch_;
  }
  call_rank_ = session->calls_in_batch++;
  ++session->unanswered;
  ++session->calls;
  session->received_bytes += message.bytes.size();
  session->active_ns = shard_->now_ns();
  call = {.from = {.session = id_of(*session), .id = decoded->header.id, .method = decoded->header.method},
          .header = decoded->header,
          .payload = decoded->payload};
  return true;
}

std::span<const IncomingCall> Server::take_turns(std::span<const IncomingCall> calls,
                                                 std::span<const uint32_t> ranks) noexcept {
  // Where the calls of each rank begin.
  std::array<uint32_t, kBatch + 1> next{};
  for (const uint32_t rank : ranks) ++next[rank + 1];
  for (size_t rank = 1; rank < next.size(); ++rank) next[rank] += next[rank - 1];
  for (size_t i = 0; i < calls.size(); ++i) in_turn_[next[ranks[i]]++] = calls[i];
  return std::span(in_turn_).first(calls.size());
}

void Server::on_messages(std::span<const fabric::Completion> messages) noexcept {
  std::array<uint32_t, kBatch> ranks;  // NOLINT(cppcoreguidelines-pro-type-member-init): written before read.
  while (!messages.empty()) {
    const size_t looked_at = std::min(messages.size(), kBatch);
    size_t count = 0;
    ++batch_;
    sessions_in_batch_ = 0;
    for (const fabric::Completion& message : messages.first(looked_at)) {
      if (!admit(message, calls_[count])) continue;
      ranks[count++] = call_rank_;
    }
    messages = messages.subspan(looked_at);
    counts_.calls += count;
    if (count == 0) continue;
    const auto calls = std::span<const IncomingCall>(calls_).first(count);
    const bool one_is_busy = sessions_in_batch_ > 1 && sessions_in_batch_ < count;
    service_->handle(one_is_busy ? take_turns(calls, std::span(ranks).first(count)) : calls);
  }
}

void Server::reply(const Responder& to, Code code, std::span<const std::byte> head,
                   std::span<const std::byte> tail) noexcept {
  Session* session = find(to.session);
  if (session == nullptr) {
    ++counts_.dropped_replies;
    return;
  }
  REFRACT_CHECK(session->unanswered > 0);
  --session->unanswered;
  const size_t bytes_max = session->channel->capabilities().message_bytes_max;
  // Each alone first: the sum of two lengths could overflow.
  const size_t room = bytes_max - sizeof(MessageHeader);
  if (head.size() > room || tail.size() > room - head.size()) {
    code = Code::kTooLarge;
    head = {};
    tail = {};
  }
  const MessageHeader header = {.id = to.id,
                                .method = to.method,
                                .code = static_cast<uint16_t>(code),
                                .bytes = static_cast<uint32_t>(head.size() + tail.size())};
  std::memcpy(scratch_.data(), &header, sizeof(header));
  if (!head.empty()) std::memcpy(scratch_.data() + sizeof(header), head.data(), head.size());
  const std::span<const std::byte> first = std::span(scratch_).first(sizeof(header) + head.size());
  ++counts_.replies;
  session->sent_bytes += first.size() + tail.size();
  if (reply_tap_ != nullptr) [[unlikely]]
    reply_tap_->replied(to, code, first.size() + tail.size());
  if (!session->outbox.empty()) drain(*session);
  // Not before those that wait already, or a stream of new replies could starve them.
  if (!session->outbox.empty() || !post(*session->channel, first, tail)) defer(*session, first, tail);
}

void Server::defer(Session& session, std::span<const std::byte> first,
                   std::span<const std::byte> tail) noexcept {
  std::vector<std::byte> message(first.begin(), first.end());
  message.insert(message.end(), tail.begin(), tail.end());
  // What waits here still counts as unanswered, so that calls_max bounds the outbox too.
  ++session.unanswered;
  session.outbox.push_back(std::move(message));
  ++counts_.deferred_replies;
  ++outbox_count_;
  if (draining_.valid() && !draining_.done()) return;
  draining_ = drain_outboxes();
  draining_.start();
}

void Server::drain(Session& session) noexcept {
  while (!session.outbox.empty() && session.channel != nullptr && !session.closing) {
    if (!post(*session.channel, session.outbox.front(), {})) return;
    session.outbox.pop_front();
    --session.unanswered;
    --outbox_count_;
  }
}

// A timer, not a poller that refuses to let the shard sleep: a client that is stopped with full rings must
// not cost the server a core.
runtime::Task<> Server::drain_outboxes() {
  while (outbox_count_ > 0) {
    co_await shard_->sleep_for(options_.outbox_retry_ns);
    for (const std::unique_ptr<Session>& session : sessions_) drain(*session);
  }
}

}  // namespace refract::rpc
