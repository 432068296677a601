// SPDX-License-Identifier: Apache-2.0
#include "refract/node/peers/shard_lines.h"

#include <algorithm>
#include <set>

#include "refract/base/units.h"
#include "refract/cluster/placement.h"

namespace refract::node {

using runtime::Task;

namespace {

// How often a session that is to come is looked for.
constexpr uint64_t kLookFirst_ns = 200 * kMicrosecond_ns;
constexpr uint64_t kLookLongest_ns = 20 * kMillisecond_ns;

}  // namespace

// To the shards of one number.
class ShardLines::Line final : private cluster::Peers::Watcher {
 public:
  Line(runtime::Shard& shard, const fabric::tcp::Secret& secret, const cluster::Members& members, uint32_t to)
      : members_(members), peers_(shard, secret, {.shard = to}) {}
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  ~Line() override = default;

  // Null: there is none now; one is on its way.
  [[nodiscard]] rpc::Session* session_to(uint32_t member) {
    const bool is_new = wanted_.insert(member).second;
    if (is_new || version_ != members_.list().version) reach();
    const auto found = sessions_.find(members_.list().members[member].name);
    return found == sessions_.end() ? nullptr : found->second;
  }
  [[nodiscard]] std::optional<uint32_t> shards_of(uint32_t member) const {
    return peers_.shards_of(members_.list().members[member].name);
  }

 private:
  void reach() {
    version_ = members_.list().version;
    cluster::MemberList list{.version = version_, .members = {}};
    for (const uint32_t member : wanted_) list.members.push_back(members_.list().members[member]);
    peers_.reach(list, members_.self_name(), *this);
  }
  void peer_opened(const std::string& name, rpc::Session& session) noexcept override {
    sessions_[name] = &session;
  }
  void peer_closed(const std::string& name, rpc::Session& session) noexcept override {
    sessions_.erase(name);
    peers_.let_go(session);
  }

  const cluster::Members& members_;
  uint64_t version_ = 0;
  std::set<uint32_t> wanted_;
  std::map<std::string, rpc::Session*, std::less<>> sessions_;
  NodePeers peers_;
};

ShardLines::ShardLines(runtime::Shard& shard, const fabric::tcp::Secret& cluster_secret,
                       const cluster::Members& members)
    : shard_(shard), secret_(cluster_secret), members_(members) {
  placements_.reserve(members.list().members.size());
  for (size_t member = 0; member < members.list().members.size(); ++member) {
    placements_.push_back(cluster::placement_of(members.list(), member));
  }
}

ShardLines::~ShardLines() = default;

ShardLines::Line& ShardLines::line_to(uint32_t shard) {
  std::unique_ptr<Line>& line = lines_[shard];
  if (line == nullptr) line = std::make_unique<Line>(shard_, secret_, members_, shard);
  return *line;
}

Task<rpc::Session*> ShardLines::session_to(kv::wire::FarPlace place, uint64_t deadline_ns) {
  Line& line = line_to(place.shard);
  uint64_t pause_ns = kLookFirst_ns;
  for (;;) {
    rpc::Session* const session = line.session_to(place.member);
    if (session != nullptr && session->state() == rpc::Session::State::kOpen) co_return session;
    if (shard_.refresh_now() >= deadline_ns) co_return nullptr;
    co_await shard_.sleep_for(std::min(pause_ns, deadline_ns - shard_.now_ns()));
    pause_ns = std::min(2 * pause_ns, kLookLongest_ns);
  }
}

Task<Result<std::vector<std::byte>>> ShardLines::ask(kv::wire::FarPlace place,
                                                     kv::wire::TransactionMethod method,
                                                     std::span<const std::byte> body, uint64_t deadline_ns) {
  rpc::Session* const session = co_await session_to(place, deadline_ns);
  if (session == nullptr) co_return fail(Code::kUnavailable);
  const runtime::OpResult result = co_await session->call(
      {.method = static_cast<uint16_t>(method), .head = body, .tail = {}}, deadline_ns);
  if (result.code != Code::kOk) co_return fail(result.code);
  co_return std::vector<std::byte>(result.bytes.begin(), result.bytes.end());
}

Task<std::optional<uint32_t>> ShardLines::shards_of(uint32_t member, uint64_t deadline_ns) {
  const kv::wire::FarPlace first{.member = static_cast<uint16_t>(member), .shard = 0};
  rpc::Session* const session = co_await session_to(first, deadline_ns);
  if (session == nullptr) co_return std::nullopt;
  co_return line_to(0).shards_of(member);
}

}  // namespace refract::node
