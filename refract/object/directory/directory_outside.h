// SPDX-License-Identifier: Apache-2.0
// What a directory has where its ids have a home outside of the list of members: a peer that stands for it,
// to which the member's stream goes as to a home that is a member.
//
// Threads: only the shard that owns the objects.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "refract/object/directory/directory_state.h"
#include "refract/object/directory/outside_home.h"

namespace refract::object {

struct Directory::State::Outside final : OutsideHome::Watcher {
  Outside(State& of, OutsideHome& its_home)
      : state(of), home(its_home), peer(of.parts.shard, its_home.name()) {}

  // Under the list of now.
  void reach();
  [[nodiscard]] Task<Code> send_page(uint32_t run, const Page& page);
  [[nodiscard]] Task<Said> ask(Search& search);
  [[nodiscard]] Task<Removed> remove(std::string id, uint64_t birth);
  // Who has not said what he has, or the home itself.
  void add_away(std::vector<std::string>& names) const;

  // --- directory_outside_copies.cc ---
  [[nodiscard]] Task<KeptCopies> keep_copies(CopiesWish wish);
  [[nodiscard]] bool place(const Named& named, const OutsideHome::Copies& copies, size_t beyond,
                           bool is_awaited);
  [[nodiscard]] Task<> bind_here(Named named, bool may_pull);
  [[nodiscard]] Task<> bring_one_more(Named named);
  // There is a bound copy here, whose number is to be looked at.
  void look_after(const Named& named);
  void start_care();

  State& state;
  OutsideHome& home;
  Peer peer;
  MemberSet current;                  // Members with a stream, as it was seen last.
  MemberSet heard;                    // Those that were seen with one, in this stream.
  std::map<Named, CopiesWord> words;  // What members are told of births that are being placed.
  std::set<Named> unsettled;          // Bound copies here whose number is to be looked at.

 private:
  void home_opened() noexcept override;
  void home_closed() noexcept override;
  void home_ordered(Method method, const std::string& id, uint64_t birth) noexcept override;
  void home_heard(MemberIndex member, const std::string& id, uint64_t birth,
                  uint64_t holders) noexcept override;
  [[nodiscard]] Code room_for_tombstone(std::string_view id, uint64_t birth);
  [[nodiscard]] Code await_removal_from(const OutsideHome::Buried& buried, Removal& removal,
                                        uint64_t version);
  [[nodiscard]] Task<> drop_until_done();

  void note_current(const MemberSet& now_current);
  [[nodiscard]] Task<bool> take_bound();
  [[nodiscard]] Task<> care();
  [[nodiscard]] Task<> look_at_unsettled();
  [[nodiscard]] bool is_first(const Named& named, const OutsideHome::Copies& copies) const;
  [[nodiscard]] uint64_t next_grace_end_ns() const;

  bool is_caring_ = false;
  Named asked_about_;             // One of the bound copies here.
  std::set<Named> undone_drops_;  // That it has ordered, and for which there was no room.
  bool is_dropping_ = false;
};

}  // namespace refract::object
