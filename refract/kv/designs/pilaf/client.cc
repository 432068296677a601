// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/designs/pilaf/client.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "refract/base/check.h"
#include "refract/fabric/await.h"

namespace refract::kv::pilaf {

using runtime::OpResult;
using runtime::Task;

Lookup::Lookup(const Root& root, uint64_t moves, Bytes key) noexcept
    : root_(root), moves_(moves), key_(key), places_(places_of(key, root)) {
  want_entry();
}

void Lookup::want_entry() noexcept {
  phase_ = Phase::kEntry;
  wanted_ = {.at = root_.entries + places_.index[way_] * sizeof(Entry), .bytes = sizeof(Entry)};
}

// The root stands directly in front of its entries.
void Lookup::want_root() noexcept {
  phase_ = Phase::kRoot;
  wanted_ = {.at = root_.entries - sizeof(Root), .bytes = sizeof(Root)};
}

Lookup::Step Lookup::take(Bytes bytes) noexcept {
  REFRACT_DCHECK(bytes.size() == wanted_.bytes);
  switch (phase_) {
    case Phase::kEntry:
      return take_entry(bytes);
    case Phase::kBlob:
      return take_blob(bytes);
    case Phase::kRoot:
      return take_root(bytes);
  }
  return Step::kTorn;
}

Lookup::Step Lookup::torn() noexcept {
  ++counts_.torn;
  return Step::kTorn;
}

Lookup::Step Lookup::take_entry(Bytes bytes) noexcept {
  ++counts_.entries;
  Entry entry{};
  std::memcpy(&entry, bytes.data(), sizeof(entry));
  if (!verifies(entry)) return torn();
  if (entry.state == Entry::kMoved) return Step::kMoved;
  if (entry.state != Entry::kUsed) return next_place();
  if (entry.blob_bytes < sizeof(BlobHeader) || entry.blob_bytes > root_.blob_bytes_max) return torn();
  phase_ = Phase::kBlob;
  wanted_ = {.at = entry.blob, .bytes = entry.blob_bytes};
  blob_crc_ = entry.blob_crc;
  return Step::kRead;
}

// The CRC came with an entry that was whole: what agrees with it is what that entry stood for, even if the
// bytes have been given back and put again meanwhile.
Lookup::Step Lookup::take_blob(Bytes bytes) noexcept {
  ++counts_.blobs;
  if (crc64(bytes) != blob_crc_) {
    want_entry();
    return torn();
  }
  BlobHeader header{};
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (uint64_t{header.key_bytes} + header.value_bytes != bytes.size() - sizeof(header)) {
    want_entry();
    return torn();
  }
  if (!std::ranges::equal(bytes.subspan(sizeof(header), header.key_bytes), key_)) return next_place();
  value_ = bytes.subspan(sizeof(header) + header.key_bytes);
  return Step::kFound;
}

Lookup::Step Lookup::next_place() noexcept {
  ++way_;
  if (way_ == kWays) {
    want_root();
  } else {
    want_entry();
  }
  return Step::kRead;
}

// The key was in none of its places when each was looked at. It may have moved from one not seen yet to one
// seen already, but then the count of moves has grown since it was read before the first place.
Lookup::Step Lookup::take_root(Bytes bytes) noexcept {
  ++counts_.roots;
  Root root{};
  std::memcpy(&root, bytes.data(), sizeof(root));
  if (!verifies(root)) return torn();
  if (root.state != Root::kMagic) return Step::kMoved;
  if (root.moves == moves_) return Step::kAbsent;
  moves_ = root.moves;
  way_ = 0;
  want_entry();
  return Step::kRead;
}

class PilafClient::Landing {
 public:
  explicit Landing(PilafClient& client) : client_(client) {
    if (client.parts_.session.endpoint().channel == nullptr) {
      // Nothing lands any more.
      std::ranges::move(client.lost_, std::back_inserter(client.landings_));
      client.lost_.clear();
    }
    if (client.landings_.empty()) {
      words_ = std::make_unique<uint64_t[]>(client.landing_words_);
    } else {
      words_ = std::move(client.landings_.back());
      client.landings_.pop_back();
    }
  }
  Landing(const Landing&) = delete;
  Landing& operator=(const Landing&) = delete;
  ~Landing() { (is_awaited ? client_.lost_ : client_.landings_).push_back(std::move(words_)); }

  [[nodiscard]] std::byte* data() const noexcept { return reinterpret_cast<std::byte*>(words_.get()); }

  bool is_awaited = false;  // A READ may still land here.

 private:
  PilafClient& client_;
  std::unique_ptr<uint64_t[]> words_;
};

Task<Code> PilafClient::read(Landing& landing, Lookup::Range place, uint64_t deadline_ns) {
  landing.is_awaited = true;
  const OpResult result =
      co_await fabric::read(parts_.session.endpoint(), parts_.shard,
                            {.address = RemotePointer::at(at_.region, place.at), .key = {at_.key}},
                            {.data = landing.data(), .bytes = place.bytes}, deadline_ns);
  landing.is_awaited = result.code == Code::kDeadlineExceeded;
  co_return result.code;
}

Task<Code> PilafClient::learn_root(uint64_t deadline_ns) {
  const OpResult told = co_await parts_.session.call({.method = kMethodAttach}, deadline_ns);
  if (told.code != Code::kOk) {
    // Nothing was to be changed by it.
    co_return told.code == Code::kIndeterminate ? Code::kDeadlineExceeded : told.code;
  }
  if (told.bytes.size() != sizeof(at_)) co_return Code::kMalformed;
  std::memcpy(&at_, told.bytes.data(), sizeof(at_));
  if (at_.bytes < sizeof(Root) || at_.root > at_.bytes - sizeof(Root)) co_return Code::kMalformed;
  landing_words_ = std::max(landing_words_, sizeof(Root) / 8);
  for (;;) {
    Landing landing(*this);
    const Code code = co_await read(landing, {.at = at_.root, .bytes = sizeof(Root)}, deadline_ns);
    if (code != Code::kOk) co_return code;
    Root root{};
    std::memcpy(&root, landing.data(), sizeof(root));
    if (verifies(root)) {
      const bool is_sound = root.entry_count > 0 && root.entries == at_.root + sizeof(Root) &&
                            root.entry_count <= at_.bytes / sizeof(Entry) &&
                            root.blob_bytes_max <= at_.bytes &&
                            (root_.state == 0 || root_.blob_bytes_max == root.blob_bytes_max);
      if (!is_sound) co_return Code::kMalformed;
      root_ = root;
      moves_ = root.moves;
      break;
    }
    co_await parts_.shard.sleep_for(kMicrosecond_ns);
  }
  // The first time they were long enough for a root only.
  const size_t words = (std::max<size_t>(root_.blob_bytes_max, sizeof(Root)) + 7) / 8;
  if (words != landing_words_) landings_.clear();
  landing_words_ = words;
  co_return Code::kOk;
}

Task<Result<>> PilafClient::attach(uint64_t deadline_ns) {
  const Code code = co_await learn_root(deadline_or_default(deadline_ns));
  if (code != Code::kOk) co_return fail(code);
  co_return Result<>{};
}

// Until the look-up has its answer, or `code` says why it has none.
Task<Lookup::Step> PilafClient::look_up(Lookup& lookup, Landing& landing, Code& code, uint64_t deadline_ns) {
  Lookup::Step step = Lookup::Step::kRead;
  uint64_t pause_ns = 0;
  while (step == Lookup::Step::kRead || step == Lookup::Step::kTorn) {
    if (step == Lookup::Step::kTorn) {
      if (parts_.shard.now_ns() >= deadline_ns) {
        code = Code::kDeadlineExceeded;
        break;
      }
      // The server is between two stores, or has stopped there.
      co_await parts_.shard.sleep_for(pause_ns);
      pause_ns = std::min<uint64_t>(2 * pause_ns + 500, 100 * kMicrosecond_ns);
    }
    const Lookup::Range place = lookup.wanted();
    code = co_await read(landing, place, deadline_ns);
    if (code != Code::kOk) break;
    step = lookup.take({landing.data(), place.bytes});
  }
  co_return step;
}

Task<Result<uint64_t>> PilafClient::get(Bytes key, ValueSink& sink, uint64_t deadline_ns) {
  deadline_ns = deadline_or_default(deadline_ns);
  if (key.empty()) co_return fail(Code::kInvalidArgument);
  ++counts_.gets;
  for (;;) {
    // Its own: another get may learn a new one meanwhile.
    const Root root = root_;
    Landing landing(*this);
    Lookup lookup(root, moves_, key);
    Code code = Code::kOk;
    const Lookup::Step step = co_await look_up(lookup, landing, code, deadline_ns);
    counts_.entries += lookup.counts().entries;
    counts_.blobs += lookup.counts().blobs;
    counts_.roots += lookup.counts().roots;
    counts_.torn += lookup.counts().torn;
    if (code != Code::kOk) co_return fail(code);
    const bool is_same_table = root.entries == root_.entries;
    if (is_same_table) moves_ = std::max(moves_, lookup.moves());
    if (step == Lookup::Step::kAbsent) co_return fail(Code::kNotFound);
    if (step == Lookup::Step::kFound) {
      const Bytes value = lookup.value();
      std::byte* const room = sink.room(value.size());
      if (room == nullptr) co_return fail(Code::kTooLarge);
      if (!value.empty()) std::memcpy(room, value.data(), value.size());
      co_return value.size();
    }
    if (!is_same_table) continue;
    ++counts_.moved;
    code = co_await learn_root(deadline_ns);
    if (code != Code::kOk) co_return fail(code);
  }
}

Task<Result<>> PilafClient::change(uint16_t method, Bytes key, Bytes value, uint64_t deadline_ns) {
  const BlobHeader header{.key_bytes = static_cast<uint32_t>(key.size()),
                          .value_bytes = static_cast<uint32_t>(value.size())};
  if (key.empty()) co_return fail(Code::kInvalidArgument);
  if (key.size() + value.size() + sizeof(header) > root_.blob_bytes_max) co_return fail(Code::kTooLarge);
  const Landing head(*this);
  std::memcpy(head.data(), &header, sizeof(header));
  std::memcpy(head.data() + sizeof(header), key.data(), key.size());
  const OpResult answer = co_await parts_.session.call(
      {.method = method, .head = Bytes(head.data(), sizeof(header) + key.size()), .tail = value},
      deadline_or_default(deadline_ns));
  if (answer.code != Code::kOk) co_return fail(answer.code);
  co_return Result<>{};
}

Task<Result<>> PilafClient::put(Bytes key, Bytes value, uint64_t deadline_ns) {
  return change(kMethodPut, key, value, deadline_ns);
}

Task<Result<>> PilafClient::erase(Bytes key, uint64_t deadline_ns) {
  return change(kMethodErase, key, {}, deadline_ns);
}

Task<Result<>> PilafClient::settle(uint64_t) {
  co_return Result<>{};
}

std::unique_ptr<designs::Client> make_client(const designs::ClientParts& parts) {
  return std::make_unique<PilafClient>(parts);
}

}  // namespace refract::kv::pilaf
