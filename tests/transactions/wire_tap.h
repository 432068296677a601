// SPDX-License-Identifier: Apache-2.0
// A client's network that writes down the names of transactions that are sent, and in which the client may
// die between any two messages of one. Some clients never tell some shards to settle: owners do that by
// themselves, but later. Where messages come twice, a decision comes again over the next session to its home,
// which has no right to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/transactions/stage.h"

#include "refract/base/prng.h"
#include "refract/fabric/wrap/wrapped_domain.h"
#include "refract/kv/layout/transaction_wire.h"
#include "refract/rpc/message.h"

namespace refract::campaign {

class WireTap final : public fabric::WrappedDomain {
 public:
  WireTap(fabric::Domain& inner, TransactionStage& stage, sim::Host& host)
      : WrappedDomain(inner), stage_(stage), host_(host), prng_(stage.world.prng().next()) {}

  [[nodiscard]] Reported<fabric::Channel*> connect(std::string_view address) override {
    Reported<fabric::Channel*> channel = WrappedDomain::connect(address);
    // One of before may have had the same place.
    if (channel) lines_[*channel] = {.address = std::string(address), .number = ++connected_};
    return channel;
  }

 protected:
  [[nodiscard]] size_t do_post(fabric::WrappedChannel& channel,
                               std::span<const fabric::Request> requests) noexcept override {
    for (size_t i = 0; i < requests.size(); ++i) {
      const uint16_t method = method_of(requests[i]);
      linger(method);
      if (!is_left_out(method) && !post_one(channel, method, requests[i])) return i;
      if (stage_.sends_twice() && requests[i].op == fabric::Op::kSend) send_late(channel);
      if (method == 0) continue;
      if (stage_.sends_twice() && method == static_cast<uint16_t>(Method::kDecide))
        keep(channel, requests[i]);
      note_name(method, requests[i]);
      if (stage_.has_deaths() && prng_.chance(kDeathChance)) stage_.world.crash(host_);
    }
    return requests.size();
  }

 private:
  using Method = kv::wire::TransactionMethod;
  static constexpr double kLoss = 0.005;

  static constexpr double kLinger = 0.1;
  static constexpr uint64_t kLinger_ns = 100'000;
  static constexpr uint64_t kLingerLong_ns = 2'500'000;

  // Between prepare and decision, where its parts' owners may die meanwhile.
  void linger(uint16_t method) {
    const bool decides = method == static_cast<uint16_t>(Method::kDecideFar) ||
                         (stage_.run.is_over_nodes && method == static_cast<uint16_t>(Method::kDecide));
    if (!decides || !prng_.chance(kLinger)) return;
    ++stage_.lingered;
    if (stage_.on_linger) stage_.on_linger();
    stage_.world.stall(host_, 1 + prng_.below(prng_.chance(0.7) ? kLinger_ns : kLingerLong_ns));
  }
  // What is lost on the way, its session may close later or not at all.
  [[nodiscard]] bool is_left_out(uint16_t method) {
    const bool is_settle = method == static_cast<uint16_t>(Method::kSettle) ||
                           method == static_cast<uint16_t>(Method::kSettleFar);
    if (is_settle) return prng_.chance(stage_.settles_left_out());
    const bool is_lost = stage_.run.is_over_nodes && method != 0 && prng_.chance(kLoss);
    stage_.lost_calls += is_lost ? 1 : 0;
    return is_lost;
  }
  // As a mutation, what is not known is told as a refusal.
  [[nodiscard]] bool post_one(fabric::WrappedChannel& channel, uint16_t method,
                              const fabric::Request& request) {
    using Settle = kv::wire::FarSettleRequest;
    constexpr size_t kFateAt = sizeof(rpc::MessageHeader) + offsetof(Settle, fate);
    const bool is_changed = stage_.run.mutation == Mutation::kUnknownIsNever &&
                            method == static_cast<uint16_t>(Method::kSettleFar) &&
                            request.local.bytes >= kFateAt + sizeof(uint64_t);
    if (!is_changed) return WrappedDomain::do_post(channel, {&request, 1}) != 0;
    std::vector<std::byte> bytes(request.local.data, request.local.data + request.local.bytes);
    uint64_t fate = 0;
    std::memcpy(&fate, &bytes[kFateAt], sizeof(fate));
    if (fate == static_cast<uint64_t>(kv::wire::Fate::kOpen)) {
      fate = static_cast<uint64_t>(kv::wire::Fate::kNever);
      std::memcpy(&bytes[kFateAt], &fate, sizeof(fate));
    }
    fabric::Request changed = request;
    changed.local = {bytes.data(), bytes.size()};
    return WrappedDomain::do_post(channel, {&changed, 1}) != 0;
  }
  static constexpr double kDeathChance = 0.01;

  // Of a transaction's call; 0: it is none.
  [[nodiscard]] static uint16_t method_of(const fabric::Request& request) noexcept {
    rpc::MessageHeader header{};
    if (request.op != fabric::Op::kSend || request.local.bytes < sizeof(header)) return 0;
    std::memcpy(&header, request.local.data, sizeof(header));
    const bool is_one = header.method >= kv::wire::kTransactionMethodsBegin &&
                        header.method <= static_cast<uint16_t>(Method::kSettleFar);
    return is_one ? header.method : uint16_t{0};
  }

  void note_name(uint16_t method, const fabric::Request& request) {
    kv::wire::NameRequest name{};
    const bool is_near =
        method == static_cast<uint16_t>(Method::kPrepare) || method == static_cast<uint16_t>(Method::kDecide);
    const bool is_far = method == static_cast<uint16_t>(Method::kPrepareFar);
    const size_t at = sizeof(rpc::MessageHeader) + (is_far ? offsetof(kv::wire::FarPrepareRequest, part) : 0);
    const bool has_name = is_far || (is_near && !stage_.run.is_over_nodes);
    if (!has_name || request.local.bytes < at + sizeof(name)) return;
    std::memcpy(&name, request.local.data + at, sizeof(name));
    stage_.names.push_back({.place = {name.place}, .number = name.number});
    if (stage_.names.size() > TransactionStage::kNames) stage_.names.pop_front();
  }

  struct Line {
    std::string address;
    uint64_t number = 0;
  };
  struct Late {
    uint64_t line = 0;  // Over which it was sent.
    std::vector<std::byte> bytes;
  };

  void keep(fabric::WrappedChannel& channel, const fabric::Request& request) {
    Late late{.line = lines_[&channel].number, .bytes = {}};
    for (const fabric::LocalSpan& span : {request.local, request.tail}) {
      late.bytes.insert(late.bytes.end(), span.data, span.data + span.bytes);
    }
    // By which RepeatedSends tells answers that none waits for.
    rpc::MessageHeader header{};
    std::memcpy(&header, late.bytes.data(), sizeof(header));
    header.id |= uint64_t{1} << 63;
    std::memcpy(late.bytes.data(), &header, sizeof(header));
    late_[lines_[&channel].address] = std::move(late);
  }

  // Over another channel to the same shard.
  void send_late(fabric::WrappedChannel& channel) {
    const Line& line = lines_[&channel];
    const auto found = late_.find(line.address);
    if (found == late_.end() || found->second.line == line.number) return;
    fabric::Request again;
    again.local = {found->second.bytes.data(), found->second.bytes.size()};
    again.op = fabric::Op::kSend;
    if (WrappedDomain::do_post(channel, {&again, 1}) == 0) return;
    ++stage_.outcome.late_decisions;
    late_.erase(found);
  }

  TransactionStage& stage_;
  sim::Host& host_;
  uint64_t connected_ = 0;
  std::map<const fabric::Channel*, Line> lines_;
  std::map<std::string, Late> late_;
  Prng prng_;
};

}  // namespace refract::campaign
