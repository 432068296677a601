// SPDX-License-Identifier: Apache-2.0
#include "tests/nodes_transactions/meddler.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "refract/kv/layout/transaction_wire.h"

namespace refract::campaign {

using kv::wire::TransactionMethod;
using runtime::Task;

namespace {

constexpr size_t kOldNames = 200;

template <typename T>
std::vector<std::byte> bytes_of(const T& head) {
  const auto bytes = std::as_bytes(std::span(&head, 1));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

Meddler::Meddler(TransactionStage& stage, SeveralNodes& nodes, sim::Host& host)
    : stage_(stage), nodes_(nodes), host_(host), prng_(stage.world.prng().next()) {
  ++stage_.clients_at_work;
  for (uint32_t index = 0; index < nodes_.shards(); ++index) {
    reaches_.emplace_back(stage_, host_,
                          Reach::Options{.index = index,
                                         .domain = &host.domain(),
                                         .stall_chance = 0,
                                         .words = nullptr,
                                         .has_own_words = true});
  }
}

Meddler::~Meddler() = default;

Task<> Meddler::stay_connected() {
  while (!is_over()) {
    for (Reach& reach : reaches_) reach.look_after();
    co_await host_.shard().sleep_for(1 + stage_.pause_max_ns() / 10);
  }
  for (Reach& reach : reaches_) reach.close();
}

Task<> Meddler::work() {
  while (!is_over()) {
    co_await host_.shard().sleep_for(1 + prng_.below(stage_.pause_max_ns() * 3 / 5));
    if (stage_.names.empty()) continue;
    // Mostly of what is under way.
    const size_t names = stage_.names.size();
    const size_t back = prng_.chance(0.5) ? prng_.below(std::min<size_t>(names, 4)) : prng_.below(names);
    kv::TransactionName name = stage_.names[names - 1 - back];
    // Of a word's next transactions, too, which none has begun yet.
    if (prng_.chance(0.1)) name.number += 1 + prng_.below(3);
    old_names_.push_back(stage_.names.back());
    if (old_names_.size() > kOldNames) old_names_.pop_front();
    if (prng_.chance(0.4)) {
      if (prng_.chance(0.6)) name = old_names_[prng_.below(old_names_.size())];
      co_await ask_home(name);
    } else {
      co_await tell_part(name);
    }
    const bool is_greedy = prng_.chance(stage_.has_few_words() ? 0.1 : 0.02);
    if (is_greedy) co_await take_words();
  }
  --stage_.clients_at_work;
}

Task<Code> Meddler::call(Reach& reach, TransactionMethod method, std::vector<std::byte> head) {
  rpc::Call call;
  call.method = static_cast<uint16_t>(method);
  call.head = head;
  const runtime::OpResult told =
      co_await reach.session().call(call, host_.shard().now_ns() + Reach::kTimeout_ns);
  co_return told.code;
}

// As its home, or as a part that is settled.
void Meddler::judge(const kv::TransactionName& name, Code code, const char* who) {
  const kv::TransactionName at_home{.place = name.place.at_home(), .number = name.number};
  const bool has_happened = nodes_.node(name.place.member()).has_committed(at_home);
  if (code == Code::kConflict && has_happened) {
    stage_.complain(fmt::format("{} says of what has happened that it has not", who));
  }
  if (code == Code::kOk && !has_happened) {
    stage_.complain(fmt::format("{} says of what has not happened that it has", who));
  }
  if (code == Code::kOk || code == Code::kConflict) ++stage_.outcome.demands;
}

Task<> Meddler::ask_home(kv::TransactionName name) {
  Reach& reach = reaches_[name.place.member()];
  if (!reach.is_open()) co_return;
  const kv::wire::NameRequest request{.place = name.place.at_home().bits, .number = name.number};
  const Code code = co_await call(reach, TransactionMethod::kOutcome, bytes_of(request));
  judge(name, code, "a home");
}

Task<> Meddler::tell_part(kv::TransactionName name) {
  Reach& reach = reaches_[prng_.below(reaches_.size())];
  if (!reach.is_open()) co_return;
  const kv::wire::FarSettleRequest request{.name = {.place = name.place.bits, .number = name.number},
                                           .fate = prng_.below(3)};
  const Code code = co_await call(reach, TransactionMethod::kSettleFar, bytes_of(request));
  judge(name, code, "a part");
}

// Words that are taken and not used are others' again when the session closes.
Task<> Meddler::take_words() {
  Reach& reach = reaches_[prng_.below(reaches_.size())];
  if (!reach.is_open()) co_return;
  const kv::wire::WordsRequest request{
      .words = kv::wire::kWordsPerCall, .is_far = static_cast<uint16_t>(prng_.below(2)), .brought_back = 0};
  (void)co_await call(reach, TransactionMethod::kWords, bytes_of(request));
  if (prng_.chance(0.6)) reach.close();
}

}  // namespace refract::campaign
