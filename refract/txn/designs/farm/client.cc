// SPDX-License-Identifier: Apache-2.0
#include "refract/txn/designs/farm/client.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "refract/fabric/await.h"
#include "refract/txn/designs/farm/object.h"

namespace refract::txn::farm {

using designs::Access;
using designs::Bytes;
using kv::TaskTeam;
using runtime::OpResult;
using runtime::Task;

namespace {

// An object that is locked or being written is read again, some 100 us long: then its writer is in the way.
constexpr uint64_t kTries = 14;
// In a READ that took longer the low bits of a version could have come around: 65,535 updates.
constexpr uint64_t kReadMax_ns = 20 * kMillisecond_ns;

// Of what does not change values.
[[nodiscard]] Code harmless(Code code) noexcept {
  return code == Code::kIndeterminate ? Code::kDeadlineExceeded : code;
}

template <typename T>
void append(std::vector<std::byte>& body, const T& part) {
  const Bytes bytes = std::as_bytes(std::span(&part, 1));
  body.insert(body.end(), bytes.begin(), bytes.end());
}

}  // namespace

class FarmClient::Landing {
 public:
  explicit Landing(FarmClient& client) : client_(client) {
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
  [[nodiscard]] Bytes first(uint64_t bytes) const noexcept { return {data(), bytes}; }

  bool is_awaited = false;  // A READ may still land here.

 private:
  FarmClient& client_;
  std::unique_ptr<uint64_t[]> words_;
};

FarmClient::FarmClient(const designs::ClientParts& parts, const Rules& rules, bool unlocks_apart)
    : shard_(parts.shard), timeout_ns_(parts.timeout_ns), rules_(rules), unlocks_apart_(unlocks_apart) {
  for (rpc::Session* session : parts.sessions) servers_.push_back(std::make_unique<ServerAt>(*session));
}

Task<Code> FarmClient::read(const ServerAt& there, Landing& landing, Place place, uint64_t deadline_ns) {
  landing.is_awaited = true;
  const OpResult result =
      co_await fabric::read(there.session.endpoint(), shard_,
                            {.address = RemotePointer::at(there.at.region, place.at), .key = {there.at.key}},
                            {.data = landing.data(), .bytes = place.bytes}, deadline_ns);
  landing.is_awaited = result.code == Code::kDeadlineExceeded;
  co_return result.code;
}

Task<Result<>> FarmClient::attach(uint64_t deadline_ns) {
  deadline_ns = deadline_or_default(deadline_ns);
  for (const auto& there : servers_) {
    const Code code = co_await attach_to(*there, deadline_ns);
    if (code != Code::kOk) co_return fail(harmless(code));
  }
  for (const auto& there : servers_) {
    landing_words_ = std::max<size_t>(landing_words_, there->root.object_bytes / sizeof(uint64_t));
  }
  landings_.clear();
  co_return Result<>{};
}

Task<Code> FarmClient::attach_to(ServerAt& there, uint64_t deadline_ns) {
  const OpResult told = co_await there.session.call({.method = kMethodAttach}, deadline_ns);
  if (told.code != Code::kOk) co_return told.code;
  if (told.bytes.size() != sizeof(there.at)) co_return Code::kMalformed;
  std::memcpy(&there.at, told.bytes.data(), sizeof(there.at));
  Landing landing(*this);
  const Code code = co_await read(there, landing, {.at = 0, .bytes = sizeof(Root)}, deadline_ns);
  if (code != Code::kOk) co_return code;
  Root root{};
  std::memcpy(&root, landing.data(), sizeof(root));
  const bool is_sound =
      root.magic == Root::kMagic && std::has_single_bit(root.entry_count) && root.index <= there.at.bytes &&
      root.entry_count <= (there.at.bytes - root.index) / sizeof(Entry) &&
      root.object_bytes % kLineBytes == 0 && root.object_bytes <= there.at.bytes &&
      object_bytes_for(uint64_t{root.key_bytes_max} + root.value_bytes_max) <= root.object_bytes;
  if (!is_sound) co_return Code::kMalformed;
  there.root = root;
  co_return Code::kOk;
}

class FarmClient::Attempt final : public designs::Transaction {
 public:
  explicit Attempt(FarmClient& client) : client_(client) {}

  [[nodiscard]] Task<Result<>> commit(uint64_t deadline_ns) override;

 protected:
  [[nodiscard]] Task<Result<>> fetch(uint64_t deadline_ns) override;
  [[nodiscard]] uint64_t value_bytes_max() const noexcept override {
    return client_.servers_.front()->root.value_bytes_max;
  }
  [[nodiscard]] size_t servers() const noexcept override { return client_.servers_.size(); }

 private:
  // One key, read or validated; its access has the object's offset as its place, its header as its mark.
  struct Step {
    explicit Step(Access& of) noexcept : access(&of) {}

    Access* access;
    Code code = Code::kOk;
  };
  // One server's part of a commit.
  struct Part {
    size_t server = 0;
    uint16_t method = 0;
    std::vector<std::byte> body;
    Code code = Code::kOk;
  };

  [[nodiscard]] const ServerAt& at(const Access& access) const noexcept {
    return *client_.servers_[access.server];
  }
  [[nodiscard]] const Rules& rules() const noexcept { return client_.rules_; }
  [[nodiscard]] Task<> look_up(Step& step, TaskTeam& team);
  [[nodiscard]] Task<> look_at_header(Step& step, TaskTeam& team);
  [[nodiscard]] Task<Code> find_object(Step& step);
  [[nodiscard]] Task<Code> read_object(Step& step);
  [[nodiscard]] Code take_object(const Object& object, Access& access) const;
  [[nodiscard]] Task<> ask(Part& part, TaskTeam& team);
  // All messages of a kind, side by side. The worst that came of any.
  [[nodiscard]] Task<Code> ask_all(uint16_t method);
  [[nodiscard]] Task<Code> validate_all();
  [[nodiscard]] Task<Code> lock_and_validate();
  void build_parts(uint16_t method);
  [[nodiscard]] bool fits() const noexcept;

  FarmClient& client_;
  std::vector<std::unique_ptr<Part>> parts_;
  uint64_t deadline_ns_ = 0;
  bool is_over_ = false;
};

std::unique_ptr<designs::Transaction> FarmClient::begin() {
  return std::make_unique<Attempt>(*this);
}

Task<Result<>> FarmClient::Attempt::fetch(uint64_t deadline_ns) {
  deadline_ns_ = client_.deadline_or_default(deadline_ns);
  if (is_over_) co_return fail(Code::kInvalidArgument);
  std::vector<Step> steps;
  for (const auto& access : accesses_) {
    if (!access->is_read) steps.emplace_back(*access);
  }
  TaskTeam team(client_.shard_);
  for (Step& step : steps) team.add(look_up(step, team));
  if (!steps.empty()) co_await team.run();
  for (const Step& step : steps) {
    if (step.code == Code::kOk) continue;
    is_over_ = true;
    co_return fail(harmless(step.code));
  }
  co_return Result<>{};
}

Task<> FarmClient::Attempt::look_up(Step& step, TaskTeam& team) {
  step.code = co_await find_object(step);
  team.leave();
}

Task<Code> FarmClient::Attempt::find_object(Step& step) {
  const ServerAt& there = at(*step.access);
  const uint64_t hash = hash_key(step.access->key, there.root.hash_seed);
  for (uint64_t probe = 0; probe < probes_of(there.root); ++probe) {
    Entry entry{};
    {
      Landing landing(client_);
      ++client_.counts_.entries;
      const Place place = {.at = entry_at(there.root, hash + probe), .bytes = sizeof(Entry)};
      const Code code = co_await client_.read(there, landing, place, deadline_ns_);
      if (code != Code::kOk) co_return code;
      std::memcpy(&entry, landing.data(), sizeof(entry));
    }
    if (entry.object == 0) co_return Code::kNotFound;
    if (entry.hash != hash) continue;
    step.access->place = entry.object;
    const Code code = co_await read_object(step);
    if (code != Code::kExists) co_return code;
  }
  co_return Code::kNotFound;
}

Task<Code> FarmClient::Attempt::read_object(Step& step) {
  const ServerAt& there = at(*step.access);
  const Place place = {.at = step.access->place, .bytes = there.root.object_bytes};
  for (uint64_t tries = 1; tries <= kTries; ++tries) {
    {
      Landing landing(client_);
      ++client_.counts_.objects;
      const uint64_t began_ns = client_.shard_.now_ns();
      const Code code = co_await client_.read(there, landing, place, deadline_ns_);
      if (code != Code::kOk) co_return code;
      const std::optional<Object> object = object_in(landing.first(place.bytes), rules().checks_lines);
      const bool is_quick = client_.shard_.now_ns() - began_ns < kReadMax_ns;
      if (object && is_quick) co_return take_object(*object, *step.access);
    }
    ++client_.counts_.not_whole;
    co_await client_.shard_.sleep_for(tries * kMicrosecond_ns);
  }
  co_return Code::kConflict;
}

// kExists: another key stands there.
Code FarmClient::Attempt::take_object(const Object& object, Access& access) const {
  if (!std::ranges::equal(object.key, access.key)) return Code::kExists;
  access.found = object.value;
  access.version = object.header.version();
  access.mark = object.header.bits;
  access.is_read = true;
  return Code::kOk;
}

Task<> FarmClient::Attempt::look_at_header(Step& step, TaskTeam& team) {
  Landing landing(client_);
  ++client_.counts_.headers;
  const Access& access = *step.access;
  const Place place = {.at = access.place, .bytes = sizeof(uint64_t)};
  step.code = co_await client_.read(at(access), landing, place, deadline_ns_);
  if (step.code == Code::kOk) {
    Header now;
    std::memcpy(&now.bits, landing.data(), sizeof(now.bits));
    // Its own lock: others have none on what it has locked.
    const bool may_be_locked = access.is_written || !rules().minds_locks_of_others;
    const bool is_valid = now.version() == access.mark && (may_be_locked || !now.is_locked());
    if (!is_valid) step.code = Code::kConflict;
  }
  team.leave();
}

Task<Code> FarmClient::Attempt::validate_all() {
  if (!rules().validates) co_return Code::kOk;
  std::vector<Step> steps;
  steps.reserve(accesses_.size());
  for (const auto& access : accesses_) steps.emplace_back(*access);
  TaskTeam team(client_.shard_);
  for (Step& step : steps) team.add(look_at_header(step, team));
  if (!steps.empty()) co_await team.run();
  Code worst = Code::kOk;
  for (const Step& step : steps) {
    if (step.code != Code::kOk && worst != Code::kConflict) worst = step.code;
  }
  co_return worst;
}

void FarmClient::Attempt::build_parts(uint16_t method) {
  parts_.clear();
  for (const auto& access : accesses_) {
    if (!access->is_written) continue;
    auto part =
        std::ranges::find_if(parts_, [&](const auto& each) { return each->server == access->server; });
    if (part == parts_.end()) {
      parts_.push_back(std::make_unique<Part>());
      part = parts_.end() - 1;
      (*part)->server = access->server;
      (*part)->method = method;
    }
    std::vector<std::byte>& body = (*part)->body;
    if (method == kMethodUpdate || method == kMethodUpdateHeld) {
      append(body, UpdateHeader{.object = access->place,
                                .value_bytes = static_cast<uint32_t>(access->value.size()),
                                .reserved = 0});
      body.insert(body.end(), access->value.begin(), access->value.end());
      body.resize(round_up(body.size(), 8));
    } else {
      append(body, LockItem{.object = access->place, .version = access->mark});
    }
  }
}

bool FarmClient::Attempt::fits() const noexcept {
  return std::ranges::all_of(parts_, [this](const auto& part) {
    return part->body.size() <= client_.servers_[part->server]->session.payload_bytes_max();
  });
}

Task<> FarmClient::Attempt::ask(Part& part, TaskTeam& team) {
  const rpc::Call call = {.method = part.method, .tail = part.body};
  const OpResult result = co_await client_.servers_[part.server]->session.call(call, deadline_ns_);
  part.code = result.code;
  team.leave();
}

Task<Code> FarmClient::Attempt::ask_all(uint16_t method) {
  build_parts(method);
  TaskTeam team(client_.shard_);
  for (const auto& part : parts_) team.add(ask(*part, team));
  if (!parts_.empty()) co_await team.run();
  Code worst = Code::kOk;
  for (const auto& part : parts_) {
    if (part->code != Code::kOk && worst != Code::kConflict) worst = part->code;
  }
  co_return worst;
}

Task<Code> FarmClient::Attempt::lock_and_validate() {
  if (!rules().validates_behind_locks) {
    const Code early = co_await validate_all();
    if (early != Code::kOk) co_return early;
    const Code locked = co_await ask_all(kMethodLock);
    co_return locked;
  }
  const Code locked = co_await ask_all(kMethodLock);
  if (locked != Code::kOk) co_return locked;
  const Code valid = co_await validate_all();
  co_return valid;
}

Task<Result<>> FarmClient::Attempt::commit(uint64_t deadline_ns) {
  deadline_ns_ = client_.deadline_or_default(deadline_ns);
  const bool is_whole = std::ranges::all_of(accesses_, [](const auto& access) { return access->is_read; });
  if (is_over_ || !is_whole) co_return fail(Code::kInvalidArgument);
  is_over_ = true;
  build_parts(kMethodUpdate);
  if (!fits()) co_return fail(Code::kTooLarge);
  const bool writes = !parts_.empty();
  // One READ has found one object as it stood at one moment.
  if (!writes && accesses_.size() < 2) co_return Result<>{};
  const Code code = co_await lock_and_validate();
  if (code != Code::kOk) {
    if (writes && rules().unlocks_what_it_gives_up) {
      // A lock whose answer did not come is before this in the session's order; a session that has ended
      // holds nothing.
      const Code unlocked = co_await ask_all(kMethodUnlock);
      (void)unlocked;
    }
    co_return fail(harmless(code));
  }
  const uint16_t method = client_.unlocks_apart_ ? kMethodUpdateHeld : kMethodUpdate;
  const Code updated = co_await ask_all(method);
  if (updated != Code::kOk) co_return fail(Code::kIndeterminate);
  if (client_.unlocks_apart_) {
    // A server that does not hear it unlocks when the session ends.
    const Code unlocked = co_await ask_all(kMethodUnlock);
    if (unlocked != Code::kOk) co_return fail(Code::kIndeterminate);
  }
  for (const auto& access : accesses_) {
    if (access->is_written) access->written_version = next_version(access->version);
  }
  co_return Result<>{};
}

std::unique_ptr<designs::Client> make_client(const designs::ClientParts& parts) {
  return std::make_unique<FarmClient>(parts);
}

std::unique_ptr<designs::Client> make_client_that_unlocks_apart(const designs::ClientParts& parts) {
  return std::make_unique<FarmClient>(parts, Rules{}, true);
}

}  // namespace refract::txn::farm
