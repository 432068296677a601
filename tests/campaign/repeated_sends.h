// SPDX-License-Identifier: Apache-2.0
// A client's network that delivers some messages twice, the second time later: those of writes with an
// identity, and prepares and settles of transactions over several shards, which must be executed once. All
// others rely on channels that deliver a message once, as every provider of ours does.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "refract/base/prng.h"
#include "refract/fabric/wrap/wrapped_domain.h"
#include "refract/kv/layout/transaction_wire.h"
#include "refract/kv/layout/wire.h"
#include "refract/rpc/message.h"

namespace refract::campaign {

class RepeatedSends final : public fabric::WrappedDomain {
 public:
  RepeatedSends(fabric::Domain& inner, uint64_t seed, uint64_t& repeated) noexcept
      : WrappedDomain(inner), prng_(seed), repeated_(repeated) {}

  // A channel of before may have had the same place.
  [[nodiscard]] Reported<fabric::Channel*> connect(std::string_view address) override {
    Reported<fabric::Channel*> channel = WrappedDomain::connect(address);
    if (channel) std::erase_if(copies_, [&](const Copy& copy) { return copy.channel == *channel; });
    return channel;
  }

 protected:
  [[nodiscard]] size_t do_post(fabric::WrappedChannel& channel,
                               std::span<const fabric::Request> requests) noexcept override {
    const size_t posted = WrappedDomain::do_post(channel, requests);
    for (const fabric::Request& request : requests.first(posted)) {
      if (request.op == fabric::Op::kSend && prng_.chance(0.5)) keep(channel, request);
    }
    std::erase_if(copies_, [&](Copy& copy) {
      if (copy.channel != &channel || !prng_.chance(0.3)) return false;
      fabric::Request again;
      again.local = {copy.bytes.data(), copy.bytes.size()};
      again.op = fabric::Op::kSend;
      if (WrappedDomain::do_post(channel, {&again, 1}) == 0) return false;
      ++repeated_;
      return true;
    });
    return posted;
  }

  // A sender that sent it once waits for one answer.
  [[nodiscard]] size_t take(std::span<fabric::Completion> completions) noexcept override {
    const std::span<fabric::Completion> taken = completions.first(WrappedDomain::take(completions));
    const auto answers = std::ranges::remove_if(taken, [](const fabric::Completion& completion) {
      return completion.op == fabric::Op::kReceive && id_in(completion.bytes) >> 63 != 0;
    });
    return taken.size() - answers.size();
  }

 private:
  struct Copy {
    fabric::WrappedChannel* channel;
    std::vector<std::byte> bytes;
  };

  [[nodiscard]] static uint64_t id_in(std::span<const std::byte> message) noexcept {
    uint64_t id = 0;
    if (message.size() >= sizeof(rpc::MessageHeader)) std::memcpy(&id, message.data(), sizeof(id));
    return id;
  }

  // One that names a transaction.
  [[nodiscard]] static bool is_of_transaction(uint16_t number) noexcept {
    const auto method = static_cast<kv::wire::TransactionMethod>(number);
    return method == kv::wire::TransactionMethod::kPrepare || method == kv::wire::TransactionMethod::kSettle;
  }
  [[nodiscard]] static bool is_identified(const rpc::DecodedMessage& message) noexcept {
    const auto method = static_cast<kv::wire::Method>(message.header.method);
    if (method != kv::wire::Method::kPut && method != kv::wire::Method::kErase) return false;
    kv::wire::KeyRef ref;
    std::memcpy(&ref, message.payload.data(), sizeof(ref));
    return (ref.flags & kv::wire::KeyRef::kIdentified) != 0 && ref.staged == 0;
  }

  void keep(fabric::WrappedChannel& channel, const fabric::Request& request) {
    Copy copy{.channel = &channel, .bytes = {}};
    const auto append = [&copy](const fabric::LocalSpan& span) {
      copy.bytes.insert(copy.bytes.end(), span.data, span.data + span.bytes);
    };
    append(request.local);
    append(request.tail);
    const auto message = rpc::decode(copy.bytes);
    if (!message || message->payload.size() < sizeof(kv::wire::KeyRef)) return;
    if (!is_of_transaction(message->header.method) && !is_identified(*message)) return;
    const uint64_t id = message->header.id | uint64_t{1} << 63;
    std::memcpy(copy.bytes.data(), &id, sizeof(id));
    copies_.push_back(std::move(copy));
  }

  Prng prng_;
  uint64_t& repeated_;
  std::vector<Copy> copies_;
};

}  // namespace refract::campaign
