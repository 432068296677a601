// SPDX-License-Identifier: Apache-2.0
#include "bench/fabric/fabric_client.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "refract/memory/remote_visible.h"

namespace refract::bench {
namespace {

using fabric::Completion;
using fabric::Op;
using fabric::Request;

constexpr Rights kAllRights = {.read = true, .write = true, .atomic = true};
constexpr uint64_t kPatience_ns = 10 * kSecond_ns;
constexpr uint32_t kTurnsBetweenClocks = 65'536;
constexpr size_t kSamplesMin = 20;

constexpr Op op_of(Shape shape) noexcept {
  constexpr std::array kOps = {Op::kRead, Op::kWrite, Op::kWrite, Op::kCompareSwap, Op::kFetchAdd, Op::kSend};
  return kOps[static_cast<size_t>(shape)];
}

}  // namespace

std::string_view text(Shape shape) noexcept {
  constexpr std::array kNames = {"read", "write", "put", "swap", "add", "send"};
  return kNames[static_cast<size_t>(shape)];
}

bool has_sizes(Shape shape) noexcept {
  return shape != Shape::kCompareSwap && shape != Shape::kFetchAdd;
}

bool is_ping_pong(Shape shape) noexcept {
  return shape == Shape::kPut || shape == Shape::kSend;
}

bool has_bandwidth(Shape shape) noexcept {
  return shape != Shape::kPut;
}

Reported<std::unique_ptr<FabricClient>> FabricClient::connect(const FabricRow& row,
                                                              const std::string& address,
                                                              const Timer& timer) {
  Reported<ClientEnd> end = row.connect();
  if (!end) return report(end.error());
  Reported<AnonymousMemory> memory = AnonymousMemory::create(FabricLayout::kBytes, Pages::kSmall);
  if (!memory) return report(memory.error());
  std::unique_ptr<FabricClient> client(new FabricClient(std::move(*end), std::move(*memory), timer));
  if (const Reported<> opened = client->open(address); !opened) return report(opened.error());
  return client;
}

Reported<> FabricClient::open(const std::string& address) {
  const Reported<RemoteKey> key = domain_->register_region(
      {.region = kFabricRegion, .base = memory_.data(), .bytes = FabricLayout::kBytes, .rights = kAllRights});
  if (!key) return report(key.error());
  own_key_ = *key;
  const Reported<fabric::Channel*> channel = domain_->connect(address);
  if (!channel) return report(channel.error());
  channel_ = *channel;
  if (!wait([this] { return is_open_; })) return broken();
  const Reported<FabricAnswer> facts = ask({.command = Command::kFacts});
  if (!facts) return report(facts.error());
  peer_key_ = {facts->key};
  return {};
}

void FabricClient::turn() noexcept {
  const size_t count = domain_->poll(completions_);
  for (size_t i = 0; i < count; ++i) take(completions_[i]);
  domain_->flush();
}

void FabricClient::take(const Completion& completion) noexcept {
  if (completion.code != Code::kOk && code_ == Code::kOk) code_ = completion.code;
  switch (completion.op) {
    case Op::kReceive:
      ++messages_;
      std::memcpy(&answer_, completion.bytes.data(), std::min(sizeof(answer_), completion.bytes.size()));
      return;
    case Op::kOpened:
      is_open_ = true;
      return;
    case Op::kClosed:
      if (code_ == Code::kOk) code_ = Code::kUnavailable;
      return;
    default:
      ++completed_;
      value_ = completion.value;
  }
}

template <typename Done>
bool FabricClient::wait(const Done& done) noexcept {
  uint64_t end_ns = 0;
  for (uint32_t turns = 1; !done(); ++turns) {
    if (code_ != Code::kOk) return false;
    turn();
    if (turns % kTurnsBetweenClocks != 0) continue;
    if (end_ns == 0) end_ns = now_ns() + kPatience_ns;
    if (now_ns() > end_ns) code_ = Code::kDeadlineExceeded;
  }
  return code_ == Code::kOk;
}

bool FabricClient::post(const Request& request) noexcept {
  return wait([&] { return channel_->post({&request, 1}) == 1; });
}

std::unexpected<Report> FabricClient::broken() const {
  return report(code_, fmt::format("the channel over {}: {}", domain_->provider(), info(code_).sentence));
}

Reported<FabricAnswer> FabricClient::ask(const FabricOrder& order) {
  const uint64_t before = messages_;
  FabricOrder sent = order;
  if (!post({.local = {reinterpret_cast<std::byte*>(&sent), sizeof(sent)}, .tail = {}, .op = Op::kSend}))
    return broken();
  domain_->flush();
  if (!wait([&] { return messages_ > before; })) return broken();
  return answer_;
}

Reported<> FabricClient::rest() {
  const Reported<FabricAnswer> answer = ask({.command = Command::kRest});
  if (!answer) return report(answer.error());
  return {};
}

Request FabricClient::request_of(const Case& which) const noexcept {
  const Op op = op_of(which.shape);
  const fabric::LocalSpan bytes{local(), which.bytes};
  if (op == Op::kSend) return {.local = bytes, .tail = {}, .op = op};
  const uint64_t place = op == Op::kRead    ? FabricLayout::kRead
                         : op == Op::kWrite ? FabricLayout::kWritten
                                            : FabricLayout::kWords;
  return {.token = which.shape == Shape::kPut ? uint64_t{0} : uint64_t{1},
          .local = has_sizes(which.shape) ? bytes : fabric::LocalSpan{},
          .remote = {.address = RemotePointer::at(kFabricRegion, place), .key = peer_key_},
          .operand = 1,
          .op = op};
}

// What the other end must know before the first of many.
Reported<> FabricClient::prepare(const Case& which) {
  FabricOrder order{.command = Command::kTell, .bytes = which.bytes};
  if (which.shape == Shape::kSend) order.command = Command::kEcho;
  if (which.shape == Shape::kPut) {
    order.command = Command::kWriteBack;
    order.first = sequence_;
    order.address = RemotePointer::at(kFabricRegion, FabricLayout::kWritten).bits;
    order.key = own_key_.bits;
  }
  const Reported<FabricAnswer> answer = ask(order);
  if (!answer) return report(answer.error());
  return {};
}

bool FabricClient::put_once(Request& request) noexcept {
  const uint64_t last = request.local.bytes - sizeof(uint64_t);
  const uint64_t sequence = sequence_++;
  std::memcpy(request.local.data + last, &sequence, sizeof(sequence));
  if (channel_->post({&request, 1}) != 1 && !post(request)) return false;
  domain_->flush();
  const std::byte* const word = memory_.data() + FabricLayout::kWritten + last;
  return wait([&] { return observe_u64(word) == sequence; });
}

bool FabricClient::once(const Case& which, Request& request) noexcept {
  if (which.shape == Shape::kPut) return put_once(request);
  const uint64_t& arrivals = which.shape == Shape::kSend ? messages_ : completed_;
  const uint64_t wanted = arrivals + 1;
  if (channel_->post({&request, 1}) != 1 && !post(request)) return false;
  domain_->flush();
  if (!wait([&] { return arrivals >= wanted; })) return false;
  // Each swap expects what the one before it left, so that all of them succeed.
  if (which.shape == Shape::kCompareSwap) {
    request.compare = value_ == request.compare ? request.operand : value_;
    request.operand = request.compare + 1;
  }
  return true;
}

Reported<Timing> FabricClient::latency(const Case& which, double seconds) {
  if (const Reported<> prepared = prepare(which); !prepared) return report(prepared.error());
  Request request = request_of(which);
  const auto span_ns = static_cast<uint64_t>(seconds * 1e9);
  uint64_t total = 0;
  for (const bool is_recorded : {false, true}) {
    samples_.clear();
    const auto ticks =
        static_cast<uint64_t>(static_cast<double>(is_recorded ? span_ns : span_ns / 10) / timer_.ns_per_tick);
    const uint64_t begin = ticks_before();
    uint64_t now = begin;
    // A bare look at the counter, as peers do it: a fence would cost more than a READ of shared memory.
    for (size_t i = 0; (now - begin < ticks || i < kSamplesMin) && i < kSamplesMax; ++i) {
      if (!once(which, request)) return broken();
      const uint64_t after = __rdtsc();
      samples_.record(after - now);
      now = after;
    }
    total = now - begin;
  }
  const double scale = timer_.ns_per_tick * (is_ping_pong(which.shape) ? 0.5 : 1);
  const auto ns = [&](uint64_t ticks) { return static_cast<double>(ticks) * scale; };
  return Timing{.median_ns = ns(samples_.quantile_ticks(0.5)),
                .p99_ns = ns(samples_.quantile_ticks(0.99)),
                .min_ns = ns(samples_.quantile_ticks(0)),
                .mean_ns = ns(total) / static_cast<double>(samples_.count()),
                .count = samples_.count()};
}

// Messages complete when they are posted, so it is the other end that says how many have arrived.
Reported<Flow> FabricClient::stream(const Case& which, double seconds) {
  if (const Reported<FabricAnswer> begun = ask({.command = Command::kCount, .bytes = which.bytes}); !begun) {
    return report(begun.error());
  }
  std::vector<Request> requests(kBatch, request_of(which));
  const uint64_t begin_ns = now_ns();
  const uint64_t end_ns = begin_ns + static_cast<uint64_t>(seconds * 1e9);
  uint64_t sent = 0;
  for (uint64_t refused = 0; refused < kTurnsBetweenClocks * 1'000ULL && code_ == Code::kOk;) {
    const size_t taken = channel_->post(requests);
    sent += taken;
    refused = taken == 0 ? refused + 1 : 0;
    turn();
    if (now_ns() > end_ns) break;
  }
  const Reported<FabricAnswer> counted = ask({.command = Command::kTell});
  if (!counted) return report(counted.error());
  const double elapsed = static_cast<double>(now_ns() - begin_ns) * 1e-9;
  if (counted->value != sent) {
    return report(Code::kCorrupt, fmt::format("{} messages were sent and {} arrived", sent, counted->value));
  }
  const double per_second = static_cast<double>(sent) / elapsed;
  return Flow{.per_second = per_second, .bytes_per_second = per_second * static_cast<double>(which.bytes)};
}

Reported<Flow> FabricClient::bandwidth(const Case& which, size_t depth, double seconds) {
  if (which.shape == Shape::kSend) return stream(which, seconds);
  if (const Reported<> prepared = prepare(which); !prepared) return report(prepared.error());
  const std::vector<Request> requests(std::clamp<size_t>(depth, 1, kBatch), request_of(which));
  const uint64_t begin_ns = now_ns();
  const uint64_t end_ns = begin_ns + static_cast<uint64_t>(seconds * 1e9);
  const uint64_t completed_before = completed_;
  uint64_t posted = 0;
  for (uint64_t now = begin_ns; now < end_ns && code_ == Code::kOk; now = now_ns()) {
    const uint64_t in_flight = posted - (completed_ - completed_before);
    if (in_flight < requests.size()) {
      posted += channel_->post(std::span(requests).subspan(in_flight));
      domain_->flush();
    }
    turn();
  }
  if (!wait([&] { return completed_ - completed_before == posted; })) return broken();
  const double elapsed = static_cast<double>(now_ns() - begin_ns) * 1e-9;
  const double per_second = static_cast<double>(posted) / elapsed;
  return Flow{.per_second = per_second, .bytes_per_second = per_second * static_cast<double>(which.bytes)};
}

Reported<> FabricClient::verify() {
  const Case words{.shape = Shape::kFetchAdd};
  Request add = request_of(words);
  if (!once(words, add)) return broken();
  const uint64_t first = value_;
  if (!once(words, add)) return broken();
  if (value_ != first + 1) return report(Code::kCorrupt, "an add did not see the one before it");

  const uint64_t secret = sequence_++ * 0x9e3779b97f4a7c15U;
  std::memcpy(local(), &secret, sizeof(secret));
  const Case write{.shape = Shape::kWrite};
  Request request = request_of(write);
  if (!once(write, request)) return broken();
  std::memset(local(), 0, sizeof(secret));
  const Case read{.shape = Shape::kRead};
  request = request_of(read);
  request.remote.address = RemotePointer::at(kFabricRegion, FabricLayout::kWritten);
  if (!once(read, request)) return broken();
  uint64_t found = 0;
  std::memcpy(&found, local(), sizeof(found));
  if (found != secret) return report(Code::kCorrupt, "a READ did not see what a WRITE before it wrote");
  return {};
}

}  // namespace refract::bench
