// SPDX-License-Identifier: Apache-2.0
#include "tests/objects/troubled_nodes.h"

#include <fmt/format.h>

#include <algorithm>

namespace refract::campaign {

namespace {

// So that streams end by silence within a run.
constexpr uint64_t kSilentAfter_ns = 8 * kMillisecond_ns;

}  // namespace

TroubledNodes::TroubledNodes(sim::World& world, const Options& options, RunOutcome& outcome, Note note)
    : world_(world), redis_(options.redis), outcome_(outcome), note_(std::move(note)) {
  for (size_t i = 0; i < options.count; ++i) names_.push_back({static_cast<char>('a' + i)});
  const cluster::MemberList list = make_list();
  // A long value comes by several messages or READs, from two holders where there are so many.
  const SimMember::Options small{.redis = redis_,
                                 .silent_after_ns = kSilentAfter_ns,
                                 .transfers = {.piece_bytes = 300,
                                               .message_bytes = 400,
                                               .stall_ns = 2 * kMillisecond_ns,
                                               .stall_alone_ns = 8 * kMillisecond_ns},
                                 .broadcast_degree = options.broadcast_degree};
  for (const std::string& name : names_) {
    nodes_.push_back(std::make_unique<SimMember>(world_, name, list, small));
  }
}

TroubledNodes::SimMember& TroubledNodes::node(std::string_view name) {
  return *nodes_[static_cast<size_t>(std::ranges::find(names_, name) - names_.begin())];
}

cluster::MemberList TroubledNodes::make_list() {
  cluster::MemberList list{.version = ++version_, .members = {}};
  for (size_t i = 0; i < names_.size(); ++i) {
    const auto port = static_cast<uint16_t>(7400 + i);
    list.members.push_back({.name = names_[i], .host = "127.0.0.1", .port = port});
  }
  return list;
}

void TroubledNodes::note(std::string_view what, size_t node) const {
  note_(fmt::format("{} {}", what, names_[node]));
}

bool TroubledNodes::trouble() {
  const size_t at = world_.prng().below(nodes_.size());
  SimMember& node = *nodes_[at];
  bool is_lost = false;
  if (node.process == nullptr) {
    if (chance(0.02)) node.restart(), note("start", at);
  } else if (node.host.paused()) {
    if (chance(0.05)) world_.resume(node.host), note("resume", at);
  } else if (chance(0.004)) {
    count(node);
    node.crash();
    note("kill", at);
    ++outcome_.kills;
  } else if (chance(0.001)) {
    count(node);
    node.crash(true);
    note("lose", at);
    ++outcome_.losses;
    is_lost = true;
  } else if (chance(0.003)) {
    world_.pause(node.host);
    note("pause", at);
  }
  if (chance(0.004)) cut();
  if (chance(0.02)) heal();
  if (redis_ != nullptr) trouble_redis(node, at);
  if (chance(0.002)) list_ = make_list(), ++outcome_.lists;
  // An operator comes to one node after the other.
  if (list_ && chance(0.05)) follow(node);
  return is_lost;
}

void TroubledNodes::count(const SimMember& node) {
  const object::Directory::Counts counts = node.counts();
  outcome_.pulls += counts.pulls;
  outcome_.asked_all += counts.asked_all;
  outcome_.from_several += counts.pulls_from_several;
  outcome_.givers_left += counts.givers_left;
  outcome_.reads += counts.transfer_reads;
  const object::TransferGiver::Counts given = node.process->owner.giver->counts();
  outcome_.arriving += given.arriving;
  outcome_.passed_on += given.arriving_messages;
}

// It forgets all, is started again, or is out of reach of one node.
void TroubledNodes::trouble_redis(const SimMember& node, size_t at) {
  const bool forgets = chance(0.002);
  if (forgets || chance(0.0003)) {
    if (!forgets) {
      redis_->kill();
      redis_->start();
    }
    REFRACT_CHECK(redis_->ask({"FLUSHALL"}).text == "OK");
    ++outcome_.redis_losses;
    note(forgets ? "redis forgets" : "redis restarts", at);
  }
  if (node.process == nullptr || !chance(0.006)) return;
  const bool is_cut = chance(0.4);
  node.process->line->cut(is_cut);
  outcome_.redis_cuts += is_cut ? 1 : 0;
  note(is_cut ? "cut from redis" : "with redis", at);
}

void TroubledNodes::cut() {
  const size_t one = world_.prng().below(nodes_.size());
  const size_t other = world_.prng().below(nodes_.size());
  if (one == other) return;
  world_.cut(nodes_[one]->host, nodes_[other]->host);
  cuts_.emplace_back(one, other);
  note("cut", one);
  note("   from", other);
  ++outcome_.cuts;
}

void TroubledNodes::heal() {
  if (cuts_.empty()) return;
  const auto [one, other] = cuts_.front();
  cuts_.erase(cuts_.begin());
  const bool is_cut_again = std::ranges::any_of(cuts_, [&](const auto& pair) {
    return pair == std::pair(one, other) || pair == std::pair(other, one);
  });
  if (!is_cut_again) world_.heal(nodes_[one]->host, nodes_[other]->host);
  note("heal", one);
  note("   with", other);
}

void TroubledNodes::follow(SimMember& node) {
  if (node.host.paused() || node.version() >= list_->version) return;
  node.follow(*list_);
}

void TroubledNodes::mend() {
  while (!cuts_.empty()) heal();
  for (const auto& node : nodes_) {
    if (node->process == nullptr) node->restart();
    if (node->host.paused()) world_.resume(node->host);
    if (list_) follow(*node);
    if (redis_ != nullptr) node->process->line->cut(false);
  }
}

bool TroubledNodes::have_let_go() const {
  return std::ranges::all_of(nodes_, [](const auto& node) { return node->left_over().empty(); });
}

bool TroubledNodes::are_calm() const {
  const size_t streams = nodes_.size() - (redis_ != nullptr ? 0 : 1);
  return std::ranges::all_of(nodes_, [&](const auto& node) {
    const object::Directory::Counts counts = node->counts();
    return counts.is_complete && counts.streams == streams && counts.tombstones == 0 &&
           counts.home.tombstones == 0 && counts.home.lingering == 0 && claims_at(*node) == 0 &&
           node->process->owner.store.accounts().creations == 0;
  });
}

std::string TroubledNodes::sum_up() {
  std::string wrong;
  const bool is_calm = are_calm();
  for (const auto& node : nodes_) {
    const object::Directory::Counts counts = node->counts();
    count(*node);
    if (!is_calm) {
      wrong += fmt::format(
          "a node is not calm: complete {}, streams {}, tombstones {} and {}, lingering {}, claims {}, "
          "creations {}; ",
          counts.is_complete, counts.streams, counts.tombstones, counts.home.tombstones,
          counts.home.lingering, claims_at(*node), node->process->owner.store.accounts().creations);
    }
    if (!node->process->owner.is_sound()) wrong = "a table contradicts itself";
  }
  return wrong;
}

}  // namespace refract::campaign
