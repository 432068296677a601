// SPDX-License-Identifier: Apache-2.0
#include "bench/fabric/fabric_client.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "refract/memory/remote_visible.h"

namespace refract::bench {
namespace {

using fabric::Op;
using fabric::Request;

constexpr Rights kAllRights = {.read = true, .write = true, .atomic = true};
// Turns in which the channel takes nothing, after which a stream is given up.
constexpr uint64_t kRefusalsMax = 65'536'000;
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
  const Reported<bool> opened = TimedEnd::connect(address);
  if (!opened) return report(opened.error());
  if (!*opened) return broken();
  const Reported<FabricAnswer> facts = ask({.command = Command::kFacts});
  if (!facts) return report(facts.error());
  peer_key_ = {facts->key};
  return {};
}

std::unexpected<Report> FabricClient::broken() const {
  return report(code_, fmt::format("the channel over {}: {}", domain_->provider(), info(code_).sentence));
}

Reported<FabricAnswer> FabricClient::ask(const FabricOrder& order) {
  FabricOrder sent = order;
  const Request message{
      .local = {reinterpret_cast<std::byte*>(&sent), sizeof(sent)}, .tail = {}, .op = Op::kSend};
  if (!exchange(message, messages_)) return broken();
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
  if (!post(request)) return false;
  const std::byte* const word = memory_.data() + FabricLayout::kWritten + last;
  return wait([&] { return observe_u64(word) == sequence; });
}

bool FabricClient::once(const Case& which, Request& request) noexcept {
  if (which.shape == Shape::kPut) return put_once(request);
  if (!exchange(request, which.shape == Shape::kSend ? messages_ : completed_)) return false;
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
    // A bare look at the counter, as peers do it: a fence would cost more than a READ of shared memory.
    const std::optional<uint64_t> took = repeat(
        {.duration = ticks, .least = kSamplesMin, .most = kSamplesMax}, [&] { return once(which, request); },
        [] { return __rdtsc(); }, [&](uint64_t each) { samples_.record(each); });
    if (!took) return broken();
    total = *took;
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
  for (uint64_t refused = 0; refused < kRefusalsMax && code_ == Code::kOk;) {
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
  const std::optional<node::TimedFlow> flown = flow(requests, static_cast<uint64_t>(seconds * 1e9));
  if (!flown) return broken();
  const double per_second = static_cast<double>(flown->requests) / flown->seconds;
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
