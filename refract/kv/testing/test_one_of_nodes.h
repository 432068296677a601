// SPDX-License-Identifier: Apache-2.0
// One of several nodes, for tests of its owner: what the other nodes say is made up.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/kv/calls/transaction_calls.h"
#include "refract/kv/owner/transactions/other_nodes.h"
#include "refract/kv/testing/test_service.h"

// A namespace of its own: other tests of this program have clients and nodes as well.
namespace refract::kv::over_nodes {

using refract::test::needed;
using test::bytes_of;
using test::Served;
using wire::Fate;
using wire::TransactionMethod;

inline constexpr uint64_t kGeneration = 5;  // Of the node that is tested,
inline constexpr uint64_t kOfHome = 9;      // and of its neighbours.
inline constexpr uint32_t kSelf = 1;
inline constexpr uint32_t kHome = 2;
inline constexpr uint32_t kOtherHome = 0;

class MadeUpNodes final : public OtherNodes {
 public:
  // Before it is asked.
  void wait_with(runtime::Shard& shard) noexcept { shard_ = &shard; }
  void set(uint32_t member, Fate fate) { fates_[member] = fate; }
  // It does not answer.
  void send_away(uint32_t member) { fates_.erase(member); }
  [[nodiscard]] int asked() const noexcept { return asked_; }

  [[nodiscard]] uint32_t self() const noexcept override { return kSelf; }
  [[nodiscard]] uint32_t members() const noexcept override { return 3; }
  [[nodiscard]] uint64_t placement_of(uint32_t member) const noexcept override { return 100 + member; }
  [[nodiscard]] runtime::Task<Result<std::vector<std::byte>>> ask(wire::FarPlace place,
                                                                  TransactionMethod /*method*/,
                                                                  std::span<const std::byte> body,
                                                                  uint64_t deadline_ns) override {
    ++asked_;
    const auto fate = fates_.find(place.member);
    if (fate == fates_.end()) {
      co_await shard_->sleep_until(deadline_ns);
      co_return fail(Code::kUnavailable);
    }
    const auto head = *wire::take<wire::FatesRequest>(body);
    co_return std::vector<std::byte>(head.names, static_cast<std::byte>(fate->second));
  }
  [[nodiscard]] runtime::Task<std::optional<uint32_t>> shards_of(uint32_t /*member*/,
                                                                 uint64_t /*deadline_ns*/) override {
    co_return 1;
  }

 private:
  runtime::Shard* shard_ = nullptr;
  std::map<uint32_t, Fate> fates_;
  int asked_ = 0;
};

struct Node {
  MadeUpNodes nodes;
  Served served;
  explicit Node(bool is_recovered = true)
      : served({.nodes = &nodes, .generation = kGeneration, .is_recovered = is_recovered}) {
    nodes.wait_with(served.shard);
    pass(kMillisecond_ns);  // Time 0 is none.
  }

  void pass(uint64_t ns) {
    (void)served.shard.run_until([] { return false; }, served.shard.refresh_now() + ns);
  }
  // Words that some transaction has changed, and to what.
  [[nodiscard]] std::vector<std::pair<size_t, uint64_t>> words() {
    std::vector<std::pair<size_t, uint64_t>> words;
    for (size_t i = 0; i < kDecisionWords; ++i) {
      const uint64_t bits = served.decisions.look(served.decisions.place_of(0, i)).bits;
      if (bits != 0) words.emplace_back(i, bits);
    }
    return words;
  }
};

class Client {
 public:
  explicit Client(Node& node)
      : node_(node), peer_(node.served.connect()), calls_(*peer_.session, node.served.shard) {}

  [[nodiscard]] Code prepare(const TransactionName& name, std::string_view key, std::string_view value) {
    std::vector<RpcBatchWrite> writes{
        {.key = bytes_of(key), .kind = WriteKind::kPut, .value = bytes_of(value)}};
    RpcBatch batch{.conditions = {}, .writes = writes};
    return node_.served.wait(calls_.prepare(batch, terms(name))).code();
  }
  // Any change: of a part; or of the home, where `places` have others.
  [[nodiscard]] Code prepare(const TransactionName& name, RpcBatch& batch) {
    return node_.served.wait(calls_.prepare(batch, terms(name))).code();
  }
  [[nodiscard]] Code decide(const TransactionName& name, RpcBatch& batch,
                            std::span<const wire::FarPlace> places = {}) {
    TransactionCalls::Terms terms = this->terms(name);
    terms.far_places = places;
    terms.generation = kGeneration;
    return node_.served.wait(calls_.decide(batch, terms)).code();
  }
  [[nodiscard]] Code decide(const TransactionName& name, std::span<const wire::FarPlace> places,
                            uint64_t generation = kGeneration) {
    std::vector<RpcBatchWrite> writes{{.key = bytes_of("home"), .value = bytes_of("1")}};
    RpcBatch batch{.conditions = {}, .writes = writes};
    TransactionCalls::Terms terms = this->terms(name);
    terms.far_places = places;
    terms.generation = generation;
    return node_.served.wait(calls_.decide(batch, terms)).code();
  }
  [[nodiscard]] TransactionName begin(bool is_far) { return needed(try_begin(is_far)); }
  [[nodiscard]] Result<TransactionName> try_begin(bool is_far) {
    return node_.served.wait(calls_.begin(deadline(), is_far));
  }
  [[nodiscard]] Code settle(const TransactionName& name, Fate fate) {
    return call(
        TransactionMethod::kSettleFar,
        test::body_of(wire::FarSettleRequest{.name = request_of(name), .fate = static_cast<uint64_t>(fate)}));
  }
  // A fate for each; or why not.
  [[nodiscard]] Result<std::string> fates(std::span<const TransactionName> names, bool is_demanded,
                                          uint64_t generation = kGeneration,
                                          uint64_t placement = 100 + kSelf) {
    return ask(TransactionMethod::kFates, names,
               {.placement = placement,
                .generation = generation,
                .names = static_cast<uint32_t>(names.size()),
                .is_demanded = is_demanded ? 1U : 0U});
  }
  // For each a 1 where nothing of it is left; or why not.
  [[nodiscard]] Result<std::string> gone(std::span<const TransactionName> names) {
    return ask(TransactionMethod::kGone, names,
               {.placement = 100 + kSelf,
                .generation = 0,
                .names = static_cast<uint32_t>(names.size()),
                .is_demanded = 0});
  }
  [[nodiscard]] Code call(TransactionMethod method, std::string_view body, std::string* reply = nullptr) {
    const runtime::OpResult result = peer_.session->call_and_wait(
        {.method = static_cast<uint16_t>(method), .head = bytes_of(body), .tail = {}}, deadline());
    if (reply != nullptr) *reply = test::text_of(result.bytes);
    return result.code;
  }
  [[nodiscard]] Code give_up(uint32_t member, Fate fate) {
    return node_.served.wait(calls_.give_up(member, fate, deadline())).code();
  }
  [[nodiscard]] std::vector<wire::OpenFarPart> open_far() {
    return needed(node_.served.wait(calls_.open_far(deadline())));
  }
  [[nodiscard]] Code put(std::string_view key) {
    return rpc().put_and_wait(bytes_of(key), bytes_of("plain")).code();
  }
  // These two are not sent again where they are refused.
  [[nodiscard]] Code put_once(std::string_view key) {
    return call(TransactionMethod{static_cast<uint16_t>(wire::Method::kPut)},
                test::body_of(test::put_request(key.size(), 1), std::string(key) + "v"));
  }
  [[nodiscard]] Code get_once(std::string_view key) {
    return call(TransactionMethod{static_cast<uint16_t>(wire::Method::kGet)},
                test::body_of(test::key_ref(key.size()), key));
  }
  [[nodiscard]] std::string get(std::string_view key) {
    std::string value;
    StringSink sink(value);
    const Result<Got> got = rpc().get_and_wait(bytes_of(key), sink);
    return got ? value : std::string(text(got.code()));
  }
  [[nodiscard]] RpcClient& rpc() { return *peer_.client; }

 private:
  [[nodiscard]] Result<std::string> ask(TransactionMethod method, std::span<const TransactionName> names,
                                        const wire::FatesRequest& head) {
    std::string behind;
    for (const TransactionName& name : names) behind += test::body_of(request_of(name));
    std::string reply;
    const Code code = call(method, test::body_of(head, behind), &reply);
    if (code != Code::kOk) return fail(code);
    return reply;
  }
  [[nodiscard]] static wire::NameRequest request_of(const TransactionName& name) noexcept {
    return {.place = name.place.bits, .number = name.number};
  }
  [[nodiscard]] uint64_t deadline() const { return node_.served.shard.now_ns() + 10 * kSecond_ns; }
  [[nodiscard]] TransactionCalls::Terms terms(const TransactionName& name) const {
    return {.name = name,
            .begun_ns = node_.served.shard.now_ns(),
            .deadline_ns = deadline(),
            .not_after_wall_ns = 0,
            .generation = kOfHome,
            .far_places = {}};
  }

  Node& node_;
  Served::Peer peer_;
  TransactionCalls calls_;
};

inline TransactionName far_name(uint32_t member, uint64_t number) {
  return {.place = DecisionPlace::of(3, Offset{0x8000}).seen_from_afar(member), .number = number};
}

}  // namespace refract::kv::over_nodes
