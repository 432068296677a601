// SPDX-License-Identifier: Apache-2.0
#include "refract/object/redis/home_rows.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>

namespace refract::object {

namespace {

template <typename T>
std::optional<T> take_struct(std::string_view& rest) noexcept {
  if (rest.size() < sizeof(T)) return std::nullopt;
  T value;
  const auto bytes = std::as_bytes(std::span(rest)).first(sizeof(T));
  std::memcpy(&value, bytes.data(), bytes.size());
  rest.remove_prefix(sizeof(T));
  return value;
}

template <typename T>
void append_struct(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <typename Reserved>
bool are_zero(const Reserved& reserved) noexcept {
  return std::ranges::all_of(reserved, [](auto byte) { return byte == 0; });
}

}  // namespace

// --- The state ---

void HomeRows::begin(size_t members, const Era& era, uint64_t change) {
  table.begin(members);
  head_ = {.change = change,
           .list_version = era.list_version,
           .list_digest = era.list_digest,
           .members = static_cast<uint8_t>(members)};
  std::memcpy(head_.run, era.run.data(), std::min(era.run.size(), sizeof(head_.run)));
  streams_.assign(members, {});
  lingering_ = silent_ = 0;
}

bool HomeRows::take_state(std::string_view bytes, uint64_t lingering) {
  const auto head = take_struct<wire::StateHead>(bytes);
  if (!head || head->version != wire::kRowsVersion || !are_zero(head->reserved) || head->is_complete > 1 ||
      head->members == 0 || bytes.size() != head->members * sizeof(wire::StreamState)) {
    return false;
  }
  head_ = *head;
  table.begin(head->members);
  table.is_complete_ = head->is_complete != 0;
  streams_.resize(head->members);
  for (size_t i = 0; i < streams_.size(); ++i) {
    const wire::StreamState state = *take_struct<wire::StreamState>(bytes);
    if (!are_zero(state.reserved) || state.is_current > 1 || state.first_stream > state.stream) return false;
    streams_[i] = state;
    table.streams_[i] = state.stream;
    table.identities_[i] = {state.identity[0], state.identity[1]};
    table.current_.set(i, state.is_current != 0);
  }
  lingering_ = table.lingering_ = table.unknown().none() ? 0 : lingering;
  silent_ = 0;
  return true;
}

HomeRows::Era HomeRows::era() const {
  const std::string_view run(head_.run, sizeof(head_.run));
  return {.run = std::string(run.substr(0, run.find('\0'))),
          .list_version = head_.list_version,
          .list_digest = head_.list_digest};
}

void HomeRows::open_stream(MemberIndex member, const std::array<uint64_t, 2>& identity) {
  const bool is_another = table.identities_[member] != identity;
  table.open_stream(member, identity);
  if (is_another) streams_[member].first_stream = table.streams_[member];
}

std::string HomeRows::next_state() const {
  wire::StateHead head = head_;
  ++head.change;
  head.is_complete = table.is_complete_ ? 1 : 0;
  std::string bytes;
  append_struct(bytes, head);
  for (size_t i = 0; i < streams_.size(); ++i) {
    append_struct(bytes, wire::StreamState{.identity = {table.identities_[i][0], table.identities_[i][1]},
                                           .stream = table.streams_[i],
                                           .first_stream = streams_[i].first_stream,
                                           .is_current = static_cast<uint8_t>(table.current_[i] ? 1 : 0)});
  }
  return bytes;
}

// --- Rows ---

bool HomeRows::is_sound(const wire::RowWord& word) const noexcept {
  return word.member < streams_.size() && word.is_coming <= 1 && word.reserved == 0 &&
         CopiesWord{word.copies}.is_sound() && (word.is_coming == 0 || word.copies == 0);
}

bool HomeRows::is_void(MemberIndex member, uint32_t stream) const noexcept {
  return stream < streams_[member].first_stream;
}

bool HomeRows::take_row(std::string_view id, std::string_view bytes) {
  if (bytes.empty()) return true;
  const auto head = take_struct<wire::RowHead>(bytes);
  if (!head || head->version != wire::kRowsVersion || head->reserved != 0) return false;
  HomeTable::Entry entry;
  for (size_t i = 0; i < head->births; ++i) {
    if (!take_birth(bytes, entry)) return false;
  }
  for (size_t i = 0; i < head->tombstones; ++i) {
    if (!take_tombstone(bytes, id)) return false;
  }
  if (!entry.empty()) table.entries_[std::string(id)] = std::move(entry);
  return bytes.empty();
}

bool HomeRows::take_birth(std::string_view& rest, HomeTable::Entry& entry) {
  const auto said = take_struct<wire::RowBirth>(rest);
  if (!said || !are_zero(said->reserved) || said->reserved_too != 0 ||
      said->flags > (wire::kWasHeld | wire::kIsClaimed) || !CopiesWord{said->wish}.is_sound()) {
    return false;
  }
  HomeTable::Birth birth{.birth = said->birth,
                         .parts = {.body_bytes = said->body_bytes,
                                   .metadata_bytes = said->metadata_bytes,
                                   .id_bytes = said->id_bytes},
                         .wish = CopiesWord{said->wish},
                         .holders = {},
                         .was_held = (said->flags & wire::kWasHeld) != 0,
                         .is_claimed = (said->flags & wire::kIsClaimed) != 0,
                         .claim = {}};
  const bool was_silent = said->words == 0 && !birth.is_claimed;
  if (birth.is_claimed) {
    if (said->claim_member >= streams_.size()) return false;
    birth.claim = {.member = said->claim_member, .stream = said->claim_stream, .is_coming = false};
    birth.is_claimed = !is_void(said->claim_member, said->claim_stream);
  }
  HomeTable::MemberSet named;
  for (size_t i = 0; i < said->words; ++i) {
    const auto word = take_struct<wire::RowWord>(rest);
    if (!word || !is_sound(*word) || named[word->member]) return false;
    named.set(word->member);
    if (is_void(word->member, word->stream)) continue;
    birth.holders.push_back({.member = word->member,
                             .stream = word->stream,
                             .is_coming = word->is_coming != 0,
                             .copies = CopiesWord{word->copies}});
  }
  const bool is_known = std::ranges::find(entry, birth.birth, &HomeTable::Birth::birth) != entry.end();
  if (is_known) return false;
  if (birth.is_silent()) {
    // As the table leaves it out.
    if (table.unknown().none() || birth.birth == 0) return true;
    if (!was_silent) ++table.lingering_;
    if (was_silent && ++silent_ > lingering_) {
      ++lingering_;
      ++table.lingering_;
    }
  }
  entry.push_back(std::move(birth));
  return true;
}

bool HomeRows::take_tombstone(std::string_view& rest, std::string_view id) {
  const auto said = take_struct<wire::RowTombstone>(rest);
  if (!said || !are_zero(said->reserved) || said->birth == 0) return false;
  HomeTable::MemberSet acknowledged;
  for (size_t i = 0; i < said->words; ++i) {
    const auto word = take_struct<wire::RowWord>(rest);
    if (!word || !is_sound(*word)) return false;
    // Another memory of the member has acknowledged nothing.
    if (!is_void(word->member, word->stream)) acknowledged.set(word->member);
  }
  return table.tombstones_.try_emplace(HomeTable::Named(id, said->birth), acknowledged).second;
}

std::string HomeRows::row(std::string_view id) const {
  wire::RowHead head;
  std::string births;
  if (const auto at = table.entries_.find(std::string(id)); at != table.entries_.end()) {
    head.births = static_cast<uint16_t>(at->second.size());
    for (const HomeTable::Birth& birth : at->second) {
      const int flags = (birth.was_held ? wire::kWasHeld : 0) | (birth.is_claimed ? wire::kIsClaimed : 0);
      append_struct(births, wire::RowBirth{.birth = birth.birth,
                                           .body_bytes = birth.parts.body_bytes,
                                           .metadata_bytes = birth.parts.metadata_bytes,
                                           .id_bytes = birth.parts.id_bytes,
                                           .words = static_cast<uint8_t>(birth.holders.size()),
                                           .flags = static_cast<uint8_t>(flags),
                                           .claim_stream = birth.is_claimed ? birth.claim.stream : 0,
                                           .claim_member = birth.is_claimed ? birth.claim.member : uint8_t{0},
                                           .wish = birth.wish.bits});
      for (const HomeTable::Word& word : birth.holders) {
        append_struct(births, wire::RowWord{.stream = word.stream,
                                            .member = word.member,
                                            .is_coming = static_cast<uint8_t>(word.is_coming ? 1 : 0),
                                            .copies = word.copies.bits});
      }
    }
  }
  std::string tombstones;
  for (auto tomb = table.tombstones_.lower_bound(HomeTable::Named(id, 0));
       tomb != table.tombstones_.end() && tomb->first.first == id; ++tomb) {
    ++head.tombstones;
    append_struct(tombstones, wire::RowTombstone{.birth = tomb->first.second,
                                                 .words = static_cast<uint8_t>(tomb->second.count())});
    for (size_t i = 0; i < streams_.size(); ++i) {
      if (!tomb->second[i]) continue;
      append_struct(tombstones,
                    wire::RowWord{.stream = table.streams_[i], .member = static_cast<uint8_t>(i)});
    }
  }
  if (births.empty() && tombstones.empty()) return {};
  std::string bytes;
  append_struct(bytes, head);
  return bytes + births + tombstones;
}

int64_t HomeRows::lingering_delta() const noexcept {
  return static_cast<int64_t>(table.lingering_) - static_cast<int64_t>(lingering_);
}

std::vector<std::string> HomeRows::conflicts() const {
  std::vector<std::string> ids;
  for (const auto& [id, entry] : table.entries_) {
    const auto stands = [](const HomeTable::Birth& birth) { return birth.birth != 0 && !birth.is_silent(); };
    if (std::ranges::count_if(entry, stands) > 1) ids.push_back(id);
  }
  return ids;
}

}  // namespace refract::object
