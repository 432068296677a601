// SPDX-License-Identifier: Apache-2.0
// In how much time each member could have some objects: asked for a client of this one, and answered to
// others (docs/design/060-rank.md).
//
// The homes say how long the objects are and which members have them; each member says what it lacks of them,
// and how long that would take over its own paths. Nothing is changed anywhere, and one that does not answer
// is told as such.
//
// Threads: only the shard that owns the objects.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "refract/object/directory/directory_state.h"

namespace refract::object {

struct Directory::State::Ranker {
  static constexpr size_t kRankingsMax = 16;  // Under way; beyond them kOverloaded.

  explicit Ranker(State& of) : state(of) {}

  void rank(std::vector<std::string> ids, uint64_t until_ns, TakeRanked take);
  // Another member asks this one.
  void estimate(const rpc::Responder& from, std::span<const std::byte> body);

  State& state;

 private:
  enum class Phase : uint8_t { kLooking, kAsking };
  struct Wanted {
    std::string id;
    Code code = Code::kDeadlineExceeded;
    uint64_t birth = 0;
    ObjectParts parts;
    std::vector<MemberIndex> holders;

    [[nodiscard]] uint64_t bytes() const noexcept;
  };
  struct Ranking {
    explicit Ranking(runtime::Shard& shard) : news(shard) {}
    uint64_t list_version = 0;
    uint64_t until_ns = 0;
    uint64_t look_until_ns = 0;
    std::vector<Wanted> wanted;
    size_t next = 0;  // To be looked up.
    std::vector<RankedMember> members;
    Phase phase = Phase::kLooking;
    size_t running = 0;  // Tasks of the phase.
    Signal news;
  };
  // What one message asks.
  struct Question {
    std::vector<std::byte> body;
    uint32_t count = 0;
    uint64_t bytes = 0;
  };
  // What one member has said.
  struct Told {
    RankedMember member;
    uint64_t wanted_bytes = 0;  // Of all that it was asked about,
    uint64_t room_bytes = 0;    // and of what it may have.
  };

  // Null: its phase is over, or it is.
  [[nodiscard]] Ranking* at(uint64_t number, Phase phase) noexcept;
  [[nodiscard]] Task<> run(uint64_t number, TakeRanked take);
  [[nodiscard]] Task<> wait_for_tasks(Ranking& ranking, uint64_t until_ns);
  void leave(uint64_t number, Phase phase) noexcept;
  [[nodiscard]] Task<> look_up_some(uint64_t number);
  void note_found(uint64_t number, size_t index, const Search& search);
  void add_own(Ranking& ranking) const;
  [[nodiscard]] Task<> ask(uint64_t number, MemberIndex member);
  void ask_itself(const Ranking& ranking, Told& told) const;
  [[nodiscard]] Task<> ask_other(uint64_t number, Peer& peer, Told& told);
  [[nodiscard]] Question question(const Ranking& ranking, size_t& next, size_t room) const;
  [[nodiscard]] static Code add_answer(Told& told, const Question& asked, const wire::EstimateReply& reply);
  [[nodiscard]] wire::EstimateReply estimate_of(std::span<const Wanted> wanted) const;
  [[nodiscard]] Code take_wanted(std::span<const std::byte>& body, Wanted& wanted) const;

  std::map<uint64_t, std::unique_ptr<Ranking>> rankings_;
  uint64_t last_ = 0;
};

}  // namespace refract::object
