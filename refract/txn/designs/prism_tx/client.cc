// SPDX-License-Identifier: Apache-2.0
#include "refract/txn/designs/prism_tx/client.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "refract/prism/chain.h"

namespace refract::txn::prism_tx {

using designs::Access;
using designs::Bytes;
using kv::TaskTeam;
using runtime::OpResult;
using runtime::Task;

namespace {

constexpr size_t kPw = 0;  // Words of a slot.
constexpr size_t kPr = 1;
constexpr size_t kC = 2;
constexpr int kTriesForRoom = 16;
// Headers, and operands of the longest chain here.
constexpr size_t kChainBytes = prism::Chain::kHeadersBytesMax + 192;

// Of what does not change values.
[[nodiscard]] Code harmless(Code code) noexcept {
  return code == Code::kIndeterminate ? Code::kDeadlineExceeded : code;
}

[[nodiscard]] prism::Operand words(uint64_t first, uint64_t second) noexcept {
  const std::array<uint64_t, 2> both = {first, second};
  return prism::Operand::of(std::as_bytes(std::span(both)));
}

// What a READ of a buffer gave: whatever its writer has put there.
struct Item {
  ItemHeader header{};
  Bytes key;
  Bytes value;
};
[[nodiscard]] bool take_item(Bytes bytes, Item& item) noexcept {
  if (bytes.size() < sizeof(item.header)) return false;
  std::memcpy(&item.header, bytes.data(), sizeof(item.header));
  const Bytes rest = bytes.subspan(sizeof(item.header));
  if (item.header.key_bytes == 0 || item.header.item_bytes() > bytes.size()) return false;
  item.key = rest.first(item.header.key_bytes);
  item.value = rest.subspan(item.key.size(), item.header.value_bytes);
  return true;
}

}  // namespace

PrismTxClient::PrismTxClient(const designs::ClientParts& parts, const Rules& rules)
    : shard_(parts.shard),
      clock_(parts.clock),
      number_(parts.number),
      timeout_ns_(parts.timeout_ns),
      rules_(rules) {
  for (rpc::Session* session : parts.sessions) servers_.push_back(std::make_unique<ServerAt>(*session));
}

Task<Result<>> PrismTxClient::attach(uint64_t deadline_ns) {
  deadline_ns = deadline_or_default(deadline_ns);
  for (const auto& at : servers_) {
    const Result<> attached = co_await attach_to(*at, deadline_ns);
    if (!attached) co_return fail(harmless(attached.error().code));
  }
  co_return Result<>{};
}

Task<Result<>> PrismTxClient::attach_to(ServerAt& at, uint64_t deadline_ns) {
  const uint64_t number = number_;
  const rpc::Call join = {.method = kMethodJoin, .head = std::as_bytes(std::span(&number, 1))};
  const OpResult joined = co_await at.session.call(join, deadline_ns);
  if (joined.code != Code::kOk) co_return fail(joined.code);
  constexpr prism::ChainRights kWanted = {prism::ChainRights::kRead | prism::ChainRights::kAtomic |
                                          prism::ChainRights::kAllocate};
  const Result<prism::Attachment> store = co_await at.chains.attach(kStoreName, kWanted, deadline_ns);
  if (!store) co_return fail(store.error());
  at.store = *store;
  std::array<std::byte, kChainBytes> buffer;
  prism::Chain chain(buffer, at.store.form);
  chain.read(at.store.at(at.store.root), at.store.key, sizeof(Root));
  const Result<prism::Reply> reply = co_await at.chains.run(chain, deadline_ns);
  if (!reply) co_return fail(reply.error());
  if (reply->code(0) != Code::kOk) co_return fail(reply->code(0));
  if (reply->bytes(0).size() != sizeof(Root)) co_return fail(Code::kMalformed);
  Root root{};
  std::memcpy(&root, reply->bytes(0).data(), sizeof(root));
  const bool is_sound =
      root.magic == Root::kMagic && std::has_single_bit(root.slot_count) && root.slots <= at.store.bytes &&
      root.slot_count <= (at.store.bytes - root.slots) / sizeof(Slot) &&
      root.buffer_bytes <= prism::kTransferBytesMax &&
      sizeof(ItemHeader) + uint64_t{root.key_bytes_max} + root.value_bytes_max <= root.buffer_bytes;
  if (!is_sound) co_return fail(Code::kMalformed);
  at.root = root;
  co_return Result<>{};
}

// Loosely synchronised clocks cost aborts where one is behind; what was read raises them.
Timestamp PrismTxClient::next_timestamp(Timestamp floor) noexcept {
  const uint64_t now = clock_.now_ns() / Timestamp::kTick_ns;
  last_ticks_ = std::max({now, last_ticks_ + 1, floor.ticks() + 1});
  if (last_ticks_ > now) ++counts_.raised_clocks;
  return last_ticks_ > Timestamp::kTicksMax ? Timestamp{} : Timestamp::of(last_ticks_, number_);
}

class PrismTxClient::Attempt final : public designs::Transaction {
 public:
  explicit Attempt(PrismTxClient& client) : client_(client) {}

  [[nodiscard]] Task<Result<>> commit(uint64_t deadline_ns) override;

 protected:
  [[nodiscard]] Task<Result<>> fetch(uint64_t deadline_ns) override;
  [[nodiscard]] uint64_t value_bytes_max() const noexcept override {
    return client_.servers_.front()->root.value_bytes_max;
  }
  [[nodiscard]] size_t servers() const noexcept override { return client_.servers_.size(); }

 private:
  // How far a key has come. Its access has the slot's index as its place and RC as its mark.
  struct Step {
    explicit Step(Access& of) noexcept : access(&of) {}

    Access* access;
    Code code = Code::kOk;   // Of the chain that was awaited last.
    bool is_raised = false;  // PW is TS, or was.
    bool may_be_raised = false;
    bool failed_by_reader = false;
  };
  using Work = Task<> (Attempt::*)(Step&, TaskTeam&);

  [[nodiscard]] ServerAt& at(const Access& access) const noexcept { return *client_.servers_[access.server]; }
  [[nodiscard]] const Rules& rules() const noexcept { return client_.rules_; }
  // One chain for each of the steps, side by side. The worst that came of any.
  [[nodiscard]] Task<Code> in_step(std::vector<Step>& steps, Work work);
  [[nodiscard]] Task<> look_up(Step& step, TaskTeam& team);
  [[nodiscard]] Task<> validate(Step& step, TaskTeam& team);
  [[nodiscard]] Task<> prepare(Step& step, TaskTeam& team);
  [[nodiscard]] Task<> install(Step& step, TaskTeam& team);
  [[nodiscard]] Task<> give_up(Step& step, TaskTeam& team);
  [[nodiscard]] Task<Code> look(Step& step);
  [[nodiscard]] Code take_looked(const prism::Reply& reply, Step& step);
  [[nodiscard]] Task<Code> put_in(Step& step);
  void build_install(prism::Chain& chain, const Access& access, Bytes item) const noexcept;
  [[nodiscard]] std::vector<std::byte> item_of(const Access& access) const;
  [[nodiscard]] Code validated(const prism::Reply& reply, const Access& access) const noexcept;
  [[nodiscard]] Code prepared(const prism::Reply& reply, Step& step) const noexcept;
  [[nodiscard]] std::vector<Step> steps_to_read() const;
  [[nodiscard]] std::vector<Step> steps_to_validate() const;
  [[nodiscard]] std::vector<Step> steps_to_write() const;
  [[nodiscard]] bool draw_timestamp() noexcept;
  [[nodiscard]] Task<Code> prepare_all(std::vector<Step>& writes);

  PrismTxClient& client_;
  Timestamp timestamp_;
  uint64_t deadline_ns_ = 0;
  bool is_over_ = false;
};

std::unique_ptr<designs::Transaction> PrismTxClient::begin() {
  return std::make_unique<Attempt>(*this);
}

std::vector<PrismTxClient::Attempt::Step> PrismTxClient::Attempt::steps_to_read() const {
  std::vector<Step> steps;
  for (const auto& access : accesses_) {
    if (!access->is_read) steps.emplace_back(*access);
  }
  return steps;
}

std::vector<PrismTxClient::Attempt::Step> PrismTxClient::Attempt::steps_to_validate() const {
  std::vector<Step> steps;
  for (const auto& access : accesses_) {
    if (!access->is_written || rules().validates_written) steps.emplace_back(*access);
  }
  return steps;
}

std::vector<PrismTxClient::Attempt::Step> PrismTxClient::Attempt::steps_to_write() const {
  std::vector<Step> steps;
  for (const auto& access : accesses_) {
    if (access->is_written) steps.emplace_back(*access);
  }
  return steps;
}

Task<Code> PrismTxClient::Attempt::in_step(std::vector<Step>& steps, Work work) {
  TaskTeam team(client_.shard_);
  for (Step& step : steps) team.add((this->*work)(step, team));
  if (!steps.empty()) co_await team.run();
  Code worst = Code::kOk;
  for (const Step& step : steps) {
    // A conflict says more than that some answer did not come.
    if (step.code != Code::kOk && worst != Code::kConflict) worst = step.code;
  }
  co_return worst;
}

Task<Result<>> PrismTxClient::Attempt::fetch(uint64_t deadline_ns) {
  deadline_ns_ = client_.deadline_or_default(deadline_ns);
  if (is_over_) co_return fail(Code::kInvalidArgument);
  std::vector<Step> steps = steps_to_read();
  const Code code = co_await in_step(steps, &Attempt::look_up);
  if (code == Code::kOk) co_return Result<>{};
  is_over_ = true;
  co_return fail(harmless(code));
}

Task<> PrismTxClient::Attempt::look_up(Step& step, TaskTeam& team) {
  step.code = co_await look(step);
  team.leave();
}

Task<Code> PrismTxClient::Attempt::look(Step& step) {
  ServerAt& there = at(*step.access);
  const uint64_t home = home_of(step.access->key, there.root);
  const auto item_bytes = static_cast<uint32_t>(there.root.buffer_bytes);
  for (uint64_t probe = 0; probe < probes_of(there.root); ++probe) {
    step.access->place = home + probe;
    std::array<std::byte, kChainBytes> buffer;
    prism::Chain chain(buffer, there.store.form);
    if (rules().reads_slot_first) chain.read(there.slot(home + probe, kPw), there.store.key, sizeof(Slot));
    chain.read(there.slot(home + probe, 3), there.store.key, item_bytes).indirect();
    if (!rules().reads_slot_first) chain.read(there.slot(home + probe, kPw), there.store.key, sizeof(Slot));
    ++client_.counts_.probes;
    const Result<prism::Reply> reply = co_await there.chains.run(chain, deadline_ns_);
    if (!reply) co_return reply.error().code;
    const Code code = take_looked(*reply, step);
    if (code != Code::kExists) co_return code;
  }
  co_return Code::kNotFound;
}

// kExists: another key stands there.
Code PrismTxClient::Attempt::take_looked(const prism::Reply& reply, Step& step) {
  const size_t of_slot = rules().reads_slot_first ? 0 : 1;
  const size_t of_item = 1 - of_slot;
  if (reply.code(of_slot) != Code::kOk) return reply.code(of_slot);
  // A slot that leads nowhere says kNotFound: no key has come that far.
  if (reply.code(of_item) != Code::kOk) return reply.code(of_item);
  Slot slot;
  if (reply.bytes(of_slot).size() != sizeof(slot)) return Code::kMalformed;
  std::memcpy(&slot, reply.bytes(of_slot).data(), sizeof(slot));
  Item item;
  if (!take_item(reply.bytes(of_item), item)) return Code::kMalformed;
  Access& access = *step.access;
  if (!std::ranges::equal(item.key, access.key)) return Code::kExists;
  access.found.assign(item.value.begin(), item.value.end());
  access.version = item.header.timestamp;
  access.mark =
      rules().reads_greater_of_both ? std::max(item.header.timestamp, slot.committed) : item.header.timestamp;
  access.is_read = true;
  return Code::kOk;
}

// Where it swaps PW is what was read, so all of both words may be swapped.
Task<> PrismTxClient::Attempt::validate(Step& step, TaskTeam& team) {
  ServerAt& there = at(*step.access);
  const prism::Masks nothing_is_swapped = {.compare = words(UINT64_MAX, UINT64_MAX), .swap = {}};
  const prism::Operand supplied = words(step.access->mark, timestamp_.bits);
  std::array<std::byte, kChainBytes> buffer;
  prism::Chain chain(buffer, there.store.form);
  chain.compare_swap({.address = there.slot(step.access->place, kPw),
                      .key = there.store.key,
                      .bytes = 2 * sizeof(uint64_t),
                      .comparison = prism::Comparison::kGreater,
                      .compare = supplied,
                      .swap = supplied,
                      .masks = rules().raises_readers ? nullptr : &nothing_is_swapped});
  const Result<prism::Reply> reply = co_await there.chains.run(chain, deadline_ns_);
  step.code = reply ? validated(*reply, *step.access) : reply.error().code;
  if (step.code == Code::kConflict) ++client_.counts_.not_valid;
  team.leave();
}

// PW is never below C, and so never below what was read. Where it is the same and a later reader has
// prepared, nothing needs to be raised.
Code PrismTxClient::Attempt::validated(const prism::Reply& reply, const Access& access) const noexcept {
  if (reply.code(0) == Code::kOk) return Code::kOk;
  if (reply.code(0) != Code::kCompareFailed) return reply.code(0);
  return reply.word(0) == access.mark ? Code::kOk : Code::kConflict;
}

// PW first, PR then: a reader that prepares between the two finds that PW is not what it read.
Task<> PrismTxClient::Attempt::prepare(Step& step, TaskTeam& team) {
  ServerAt& there = at(*step.access);
  std::array<std::byte, kChainBytes> buffer;
  prism::Chain chain(buffer, there.store.form);
  chain.compare_swap({.address = there.slot(step.access->place, kPw),
                      .key = there.store.key,
                      .comparison = prism::Comparison::kGreater,
                      .compare = prism::Operand::of(timestamp_.bits),
                      .swap = prism::Operand::of(timestamp_.bits)});
  chain.read(there.slot(step.access->place, kPr), there.store.key, sizeof(uint64_t)).conditional();
  step.may_be_raised = true;
  const Result<prism::Reply> reply = co_await there.chains.run(chain, deadline_ns_);
  step.code = reply ? prepared(*reply, step) : reply.error().code;
  if (step.code == Code::kConflict) ++client_.counts_.not_prepared;
  team.leave();
}

Code PrismTxClient::Attempt::prepared(const prism::Reply& reply, Step& step) const noexcept {
  step.may_be_raised = false;
  if (reply.code(0) == Code::kCompareFailed) return Code::kConflict;
  if (reply.code(0) != Code::kOk) return reply.code(0);
  step.is_raised = true;
  if (reply.code(1) != Code::kOk) return reply.code(1);
  const uint64_t reader = reply.word(1);
  const bool holds = rules().accepts_own_reader ? timestamp_.bits >= reader : timestamp_.bits > reader;
  step.failed_by_reader = !holds;
  return holds || !rules().checks_readers ? Code::kOk : Code::kConflict;
}

std::vector<std::byte> PrismTxClient::Attempt::item_of(const Access& access) const {
  const ItemHeader header{.timestamp = timestamp_.bits,
                          .key_bytes = static_cast<uint32_t>(access.key.size()),
                          .value_bytes = static_cast<uint32_t>(access.value.size())};
  std::vector<std::byte> item(header.item_bytes());
  std::memcpy(item.data(), &header, sizeof(header));
  std::ranges::copy(access.key, item.begin() + sizeof(header));
  std::ranges::copy(access.value, item.begin() + static_cast<ptrdiff_t>(sizeof(header) + access.key.size()));
  return item;
}

Task<> PrismTxClient::Attempt::install(Step& step, TaskTeam& team) {
  step.code = co_await put_in(step);
  team.leave();
}

// Only C is to be compared: behind TS is 0, so where C is TS already, raised by a clean-up, it does not hold.
void PrismTxClient::Attempt::build_install(prism::Chain& chain, const Access& access,
                                           Bytes item) const noexcept {
  const ServerAt& there = at(access);
  chain.write(prism::scratch(0), {}, std::as_bytes(std::span(&timestamp_.bits, 1)));
  chain.allocate(there.store.at(0), there.store.key, item).redirect(8).owned().conditional();
  chain
      .compare_swap({.address = there.slot(access.place, kC),
                     .key = there.store.key,
                     .bytes = 2 * sizeof(uint64_t),
                     .comparison = prism::Comparison::kGreater,
                     .compare = prism::Operand::of(timestamp_.bits),
                     .swap = prism::Operand::at(prism::scratch(0))})
      .conditional()
      .retire();
}

// All that are prepared are installed, or the transaction would be half: a list that is empty fills again,
// for it lacks only what chains under way hold.
Task<Code> PrismTxClient::Attempt::put_in(Step& step) {
  ServerAt& there = at(*step.access);
  const std::vector<std::byte> item = item_of(*step.access);
  std::vector<std::byte> buffer(kChainBytes + prism::padded(item.size()));
  for (int tries = 1;; ++tries) {
    prism::Chain chain(buffer, there.store.form);
    build_install(chain, *step.access, item);
    const Result<prism::Reply> reply = co_await there.chains.run(chain, deadline_ns_);
    if (!reply) co_return Code::kIndeterminate;
    // A later writer has committed: no one will ever read this value.
    if (reply->code(2) == Code::kOk || reply->code(2) == Code::kCompareFailed) co_return Code::kOk;
    if (reply->code(1) != Code::kNoSpace || tries == kTriesForRoom) co_return Code::kIndeterminate;
    co_await client_.shard_.sleep_for(static_cast<uint64_t>(tries) * 10 * kMicrosecond_ns);
  }
}

// Where no answer came PW is raised first, by whomever: C may never be above it, and a chain that comes late
// finds nothing to raise.
Task<> PrismTxClient::Attempt::give_up(Step& step, TaskTeam& team) {
  ServerAt& there = at(*step.access);
  std::array<std::byte, kChainBytes> buffer;
  prism::Chain chain(buffer, there.store.form);
  for (const size_t word : {kPw, kC}) {
    if (word == kPw && !step.may_be_raised) continue;
    chain.compare_swap({.address = there.slot(step.access->place, word),
                        .key = there.store.key,
                        .comparison = prism::Comparison::kGreater,
                        .compare = prism::Operand::of(timestamp_.bits),
                        .swap = prism::Operand::of(timestamp_.bits)});
  }
  const Result<prism::Reply> reply = co_await there.chains.run(chain, deadline_ns_);
  // Else the server finds the key, when it misses this client.
  step.code = reply.code();
  team.leave();
}

bool PrismTxClient::Attempt::draw_timestamp() noexcept {
  Timestamp floor;
  for (const auto& access : accesses_) floor.bits = std::max(floor.bits, access->mark);
  timestamp_ = client_.next_timestamp(floor);
  return timestamp_.bits != 0;
}

// kOk: nothing can keep the writes from being installed.
Task<Code> PrismTxClient::Attempt::prepare_all(std::vector<Step>& writes) {
  if (rules().validates_reads) {
    std::vector<Step> reads = steps_to_validate();
    const Code code = co_await in_step(reads, &Attempt::validate);
    if (code != Code::kOk) co_return code;
  }
  const Code code = co_await in_step(writes, &Attempt::prepare);
  if (code == Code::kOk || !rules().raises_committed) co_return code;
  std::erase_if(writes, [this](const Step& step) {
    const bool counts = step.is_raised && (rules().raises_wherever_prepared || !step.failed_by_reader);
    return !counts && !step.may_be_raised;
  });
  const Code given_up = co_await in_step(writes, &Attempt::give_up);
  (void)given_up;
  co_return code;
}

Task<Result<>> PrismTxClient::Attempt::commit(uint64_t deadline_ns) {
  deadline_ns_ = client_.deadline_or_default(deadline_ns);
  const bool is_whole = std::ranges::all_of(accesses_, [](const auto& access) { return access->is_read; });
  if (is_over_ || !is_whole || !draw_timestamp()) co_return fail(Code::kInvalidArgument);
  is_over_ = true;
  std::vector<Step> writes = steps_to_write();
  const Code code = co_await prepare_all(writes);
  if (code != Code::kOk) co_return fail(harmless(code));
  const Code installed = co_await in_step(writes, &Attempt::install);
  if (installed != Code::kOk) co_return fail(Code::kIndeterminate);
  for (const Step& step : writes) step.access->written_version = timestamp_.bits;
  co_return Result<>{};
}

std::unique_ptr<designs::Client> make_client(const designs::ClientParts& parts) {
  return std::make_unique<PrismTxClient>(parts);
}

}  // namespace refract::txn::prism_tx
