// SPDX-License-Identifier: Apache-2.0
#include "tests/nodes_transactions/node_lines.h"

#include <algorithm>
#include <cstring>

#include "tests/transactions/stage.h"

#include "refract/base/units.h"

namespace refract::campaign {

using kv::wire::TransactionMethod;
using runtime::Task;

namespace {

constexpr uint64_t kLook_ns = 20'000;  // How often a session that is to come is looked for, at first;
constexpr uint64_t kLookLongest_ns = 2 * kMillisecond_ns;
constexpr double kLoss = 0.02;  // Of a question, and of an answer.

kv::wire::FatesRequest head_of(std::span<const std::byte> body) {
  kv::wire::FatesRequest head{};
  std::memcpy(&head, body.data(), sizeof(head));
  return head;
}

}  // namespace

NodeLines::NodeLines(sim::Host& host, const Options& options, LineCounts& counts)
    : host_(host), options_(options), counts_(counts), is_lossy_(options.is_lossy), prng_(options.seed) {}

NodeLines::~NodeLines() = default;

void NodeLines::close_one() {
  if (lines_.empty()) return;
  auto found = lines_.begin();
  std::advance(found, static_cast<int64_t>(prng_.below(lines_.size())));
  if (!found->second.empty()) found->second.back().session.close();
}

Task<NodeLines::Line*> NodeLines::line_to(uint32_t member, uint64_t deadline_ns) {
  std::list<Line>& lines = lines_[member];
  uint64_t pause_ns = kLook_ns;
  for (;;) {
    const bool is_closed = lines.empty() || lines.back().session.state() == rpc::Session::State::kClosed;
    if (is_closed) {
      if (!lines.empty()) {
        // The one that is gone may be at work further up.
        co_await host_.shard().sleep_for(1);
        std::erase_if(lines, [](const Line& line) {
          return line.callers == 0 && line.session.state() == rpc::Session::State::kClosed;
        });
      }
      const Reported<fabric::Channel*> channel = host_.domain().connect(TransactionStage::shard_name(member));
      if (channel) {
        lines.emplace_back(**channel, host_.shard());
        ++counts_.reopened;
      }
    }
    if (!lines.empty() && lines.back().session.state() == rpc::Session::State::kOpen) co_return &lines.back();
    const uint64_t now_ns = host_.shard().refresh_now();
    if (now_ns >= deadline_ns) co_return nullptr;
    co_await host_.shard().sleep_for(std::min(pause_ns, deadline_ns - now_ns));
    pause_ns = std::min(2 * pause_ns, kLookLongest_ns);
  }
}

Task<Result<std::vector<std::byte>>> NodeLines::ask(kv::wire::FarPlace place, TransactionMethod method,
                                                    std::span<const std::byte> body, uint64_t deadline_ns) {
  if (std::optional<std::vector<std::byte>> answer = made_up(method, body)) co_return *std::move(answer);
  Line* const line = co_await line_to(place.member, deadline_ns);
  const bool is_unsent = line == nullptr || (is_lossy_ && prng_.chance(kLoss));
  counts_.lost += is_unsent ? 1 : 0;
  if (is_unsent) co_return fail(Code::kUnavailable);
  ++line->callers;
  rpc::Call call;
  call.method = static_cast<uint16_t>(method);
  call.head = body;
  const runtime::OpResult told = co_await line->session.call(call, deadline_ns);
  std::vector<std::byte> answer(told.bytes.begin(), told.bytes.end());
  --line->callers;
  const bool is_lost = told.code == Code::kIndeterminate || (is_lossy_ && prng_.chance(kLoss));
  counts_.lost += is_lost ? 1 : 0;
  if (is_lost) co_return fail(Code::kIndeterminate);
  if (told.code != Code::kOk) co_return fail(told.code);
  count(method, body, answer);
  const bool is_look = method == TransactionMethod::kFates && head_of(body).is_demanded == 0;
  if (options_.mutation == Mutation::kOldLooks && is_look) {
    old_looks_[{reinterpret_cast<const char*>(body.data()), body.size()}] = answer;
  }
  co_return answer;
}

std::optional<std::vector<std::byte>> NodeLines::made_up(TransactionMethod method,
                                                         std::span<const std::byte> body) {
  if (options_.mutation == Mutation::kForgetUnasked && method == TransactionMethod::kGone) {
    return std::vector<std::byte>(head_of(body).names, std::byte{1});
  }
  if (options_.mutation != Mutation::kOldLooks) return std::nullopt;
  const auto found = old_looks_.find({reinterpret_cast<const char*>(body.data()), body.size()});
  if (found == old_looks_.end()) return std::nullopt;
  return found->second;
}

void NodeLines::count(TransactionMethod method, std::span<const std::byte> body,
                      std::span<const std::byte> answer) noexcept {
  const auto with = [&](uint8_t byte) {
    return static_cast<uint64_t>(std::ranges::count(answer, std::byte{byte}));
  };
  if (method == TransactionMethod::kGone) {
    ++counts_.gone;
    counts_.not_gone += with(0);
    return;
  }
  ++(head_of(body).is_demanded != 0 ? counts_.demands : counts_.looks);
  counts_.open += with(static_cast<uint8_t>(kv::wire::Fate::kOpen));
  counts_.happened += with(static_cast<uint8_t>(kv::wire::Fate::kHappened));
  counts_.never += with(static_cast<uint8_t>(kv::wire::Fate::kNever));
}

Task<std::optional<uint32_t>> NodeLines::shards_of(uint32_t member, uint64_t deadline_ns) {
  const Line* const line = co_await line_to(member, deadline_ns);
  co_return line == nullptr ? std::nullopt : std::optional<uint32_t>(1);
}

}  // namespace refract::campaign
