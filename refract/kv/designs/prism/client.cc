// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/designs/prism/client.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "refract/prism/chain.h"
#include "refract/runtime/fault.h"

namespace refract::kv::prism_kv {

using runtime::OpResult;
using runtime::Task;

namespace {

using Bytes = std::span<const std::byte>;

constexpr size_t kReportBatch = 16;  // So many are told at a time; fewer wait for more.
constexpr int kTriesForRoom = 4;
// Headers, and operands of the longest chain here.
constexpr size_t kChainOverheadBytes = prism::Chain::kHeadersBytesMax + 64;

// A get's: nothing was to be changed, so nothing is in doubt.
[[nodiscard]] Code read_outcome(Code code) noexcept {
  return code == Code::kIndeterminate ? Code::kDeadlineExceeded : code;
}

// What a READ of an item gave. The server, or the client that wrote the item, may have put anything there.
struct Item {
  ItemHeader header{};
  Bytes key;    // As much of it as was read.
  Bytes value;  // Likewise.
};
[[nodiscard]] bool take_item(Bytes bytes, Item& item) noexcept {
  if (bytes.size() < sizeof(item.header)) return false;
  std::memcpy(&item.header, bytes.data(), sizeof(item.header));
  const Bytes rest = bytes.subspan(sizeof(item.header));
  item.key = rest.first(std::min<size_t>(rest.size(), item.header.key_bytes));
  item.value = rest.subspan(item.key.size());
  return item.header.key_bytes > 0;
}

}  // namespace

class PrismKvClient::Workspace {
 public:
  explicit Workspace(PrismKvClient& client) : client_(client) {
    if (client.workspaces_.empty()) {
      bytes_ = std::make_unique<std::vector<std::byte>>();
    } else {
      bytes_ = std::move(client.workspaces_.back());
      client.workspaces_.pop_back();
    }
    // Room for an item, and for a chain that carries it.
    bytes_->resize(2 * prism::padded(item_bytes_max(client.root_)) + kChainOverheadBytes);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() { client_.workspaces_.push_back(std::move(bytes_)); }

  [[nodiscard]] std::span<std::byte> item() const noexcept {
    return std::span(*bytes_).first(item_bytes_max(client_.root_));
  }
  [[nodiscard]] std::span<std::byte> chain() const noexcept {
    return std::span(*bytes_).subspan(prism::padded(item_bytes_max(client_.root_)));
  }
  // The item of this key and value, or its tombstone.
  [[nodiscard]] Bytes make_item(Bytes key, Bytes value, bool is_tombstone) const noexcept {
    const ItemHeader header{
        .key_bytes = static_cast<uint32_t>(key.size()),
        .value_bytes = is_tombstone ? ItemHeader::kTombstone : static_cast<uint32_t>(value.size())};
    std::byte* to = item().data();
    std::memcpy(to, &header, sizeof(header));
    std::memcpy(to + sizeof(header), key.data(), key.size());
    if (!value.empty()) std::memcpy(to + sizeof(header) + key.size(), value.data(), value.size());
    return item().first(header.item_bytes());
  }

 private:
  PrismKvClient& client_;
  std::unique_ptr<std::vector<std::byte>> bytes_;
};

Task<Result<>> PrismKvClient::attach(uint64_t deadline_ns) {
  deadline_ns = deadline_or_default(deadline_ns);
  constexpr prism::ChainRights kWanted = {prism::ChainRights::kRead | prism::ChainRights::kAtomic |
                                          prism::ChainRights::kAllocate};
  const Result<prism::Attachment> store = co_await chains_.attach(kStoreName, kWanted, deadline_ns);
  if (!store) co_return fail(read_outcome(store.error().code));
  store_ = *store;
  const Workspace work(*this);
  prism::Chain chain(work.chain(), store_.form);
  chain.read(at(store_.root), store_.key, sizeof(Root));
  const Result<prism::Reply> reply = co_await chains_.run(chain, deadline_ns);
  if (!reply) co_return fail(read_outcome(reply.error().code));
  if (reply->code(0) != Code::kOk) co_return fail(reply->code(0));
  if (reply->bytes(0).size() != sizeof(Root)) co_return fail(Code::kMalformed);
  Root root{};
  std::memcpy(&root, reply->bytes(0).data(), sizeof(root));
  const bool is_sound =
      root.magic == Root::kMagic && std::has_single_bit(root.slot_count) && root.slots <= store_.bytes &&
      root.slot_count <= (store_.bytes - root.slots) / sizeof(Slot) && root.list_count >= 2 &&
      root.list_count <= kListsMax && item_bytes_max(root) <= prism::kTransferBytesMax;
  if (!is_sound) co_return fail(Code::kMalformed);
  root_ = root;
  co_return Result<>{};
}

Task<Result<uint64_t>> PrismKvClient::get(Bytes key, ValueSink& sink, uint64_t deadline_ns) {
  deadline_ns = deadline_or_default(deadline_ns);
  if (key.empty()) co_return fail(Code::kInvalidArgument);
  const uint64_t home = home_of(key, root_);
  for (uint64_t probe = 0; probe < std::min(kProbesMax, root_.slot_count); ++probe) {
    std::array<std::byte, prism::Chain::kHeadersBytesMax> buffer;
    prism::Chain chain(buffer, store_.form);
    chain.read(at(slot_at(root_, home + probe)), store_.key, static_cast<uint32_t>(item_bytes_max(root_)))
        .indirect()
        .bounded();
    ++counts_.probes;
    const Result<prism::Reply> reply = co_await chains_.run(chain, deadline_ns);
    if (!reply) co_return fail(read_outcome(reply.error().code));
    // A slot that leads nowhere says kNotFound, too: no key has come that far.
    if (reply->code(0) != Code::kOk) co_return fail(reply->code(0));
    Item item;
    if (!take_item(reply->bytes(0), item)) co_return fail(Code::kMalformed);
    if (!std::ranges::equal(item.key, key)) continue;
    if (item.header.value_bytes == ItemHeader::kTombstone) co_return fail(Code::kNotFound);
    if (item.header.value_bytes != item.value.size()) co_return fail(Code::kMalformed);
    std::byte* const room = sink.room(item.value.size());
    if (room == nullptr) co_return fail(Code::kTooLarge);
    if (!item.value.empty()) std::memcpy(room, item.value.data(), item.value.size());
    co_return item.value.size();
  }
  co_return fail(Code::kNotFound);
}

// One round trip a slot. The slot and the item are read one behind the other, and others may come between,
// but a slot never changes its key: if the item is the key's, so was what the slot said.
Task<Result<PrismKvClient::Located>> PrismKvClient::locate(Bytes key, Workspace& work, uint64_t deadline_ns) {
  const uint64_t home = home_of(key, root_);
  for (uint64_t probe = 0; probe < std::min(kProbesMax, root_.slot_count); ++probe) {
    Located located{.index = home + probe, .slot = {}};
    const RemotePointer slot = at(slot_at(root_, located.index));
    prism::Chain chain(work.chain(), store_.form);
    chain.read(slot, store_.key, sizeof(Slot));
    // The key is all that is wanted of the item.
    chain.read(slot, store_.key, static_cast<uint32_t>(sizeof(ItemHeader) + key.size())).indirect().bounded();
    ++counts_.locates;
    const Result<prism::Reply> reply = co_await chains_.run(chain, deadline_ns);
    if (!reply) co_return fail(read_outcome(reply.error().code));
    if (reply->code(0) != Code::kOk) co_return fail(reply->code(0));
    if (reply->bytes(0).size() != sizeof(Slot)) co_return fail(Code::kMalformed);
    std::memcpy(&located.slot, reply->bytes(0).data(), sizeof(Slot));
    if (RemotePointer{located.slot.pointer}.offset() == 0) co_return located;
    if (reply->code(1) != Code::kOk) co_return fail(reply->code(1));
    Item item;
    if (!take_item(reply->bytes(1), item)) co_return fail(Code::kMalformed);
    if (item.header.key_bytes != key.size() || !std::ranges::equal(item.key, key)) continue;
    located.is_present = item.header.value_bytes != ItemHeader::kTombstone;
    co_return located;
  }
  co_return fail(Code::kNoSpace);
}

// The second round trip: what the slot is to say is put together in the scratch, then swapped in as one. The
// last operation tells where the new item lies, so that it can be reported if no slot leads there.
Task<Result<PrismKvClient::Swung>> PrismKvClient::swing(const Located& located, Bytes item, uint64_t list,
                                                        Workspace& work, uint64_t deadline_ns) {
  const std::array<uint64_t, 2> behind_pointer = {item.size(), located.slot.generation + 1};
  prism::Chain chain(work.chain(), store_.form);
  chain.write(prism::scratch(8), {}, std::as_bytes(std::span(behind_pointer)));
  chain.allocate(at(list), store_.key, item).redirect(0).conditional();
  chain
      .compare_swap({.address = at(slot_at(root_, located.index)),
                     .key = store_.key,
                     .bytes = sizeof(Slot),
                     .compare = prism::Operand::of(std::as_bytes(std::span(&located.slot, 1))),
                     .swap = prism::Operand::at(prism::scratch(0))})
      .conditional();
  chain.read(prism::scratch(0), {}, sizeof(uint64_t));
  const Result<prism::Reply> reply = co_await chains_.run(chain, deadline_ns);
  if (!reply) co_return fail(reply.error());
  for (const size_t first : {size_t{0}, size_t{1}}) {
    if (reply->code(first) != Code::kOk) co_return fail(reply->code(first));
  }
  const Code swapped = reply->code(2);
  const RemotePointer fresh = reply->pointer(3);
  if (swapped == Code::kOk) {
    const RemotePointer old{located.slot.pointer};
    if (old.offset() != 0) report_later(old);
    co_return Swung::kDone;
  }
  report_later(fresh);
  if (swapped != Code::kCompareFailed) co_return fail(swapped);
  ++counts_.overtaken;
  co_return Swung::kOvertaken;
}

// An empty list may fill again by what this client still has to report.
Task<Result<PrismKvClient::Swung>> PrismKvClient::swing_patiently(const Located& located, Bytes item,
                                                                  uint64_t list, Workspace& work,
                                                                  uint64_t deadline_ns) {
  for (int tries = 1;; ++tries) {
    const Result<Swung> swung = co_await swing(located, item, list, work, deadline_ns);
    if (swung.code() != Code::kNoSpace || tries == kTriesForRoom) co_return swung;
    const Result<> settled = co_await settle(deadline_ns);
    if (!settled) co_return fail(Code::kNoSpace);
    co_await parts_.shard.sleep_for(static_cast<uint64_t>(tries) * 10 * kMicrosecond_ns);
  }
}

Task<Result<>> PrismKvClient::put(Bytes key, Bytes value, uint64_t deadline_ns) {
  deadline_ns = deadline_or_default(deadline_ns);
  if (key.empty()) co_return fail(Code::kInvalidArgument);
  if (key.size() > root_.key_bytes_max || value.size() > root_.value_bytes_max) {
    co_return fail(Code::kTooLarge);
  }
  Workspace work(*this);
  const Bytes item = work.make_item(key, value, false);
  const uint64_t list = list_for(root_, item.size());
  for (;;) {
    const Result<Located> located = co_await locate(key, work, deadline_ns);
    if (!located) co_return fail(located.error());
    const Result<Swung> swung = co_await swing_patiently(*located, item, list, work, deadline_ns);
    if (!swung) co_return fail(swung.error());
    const bool was_bound = located->slot.pointer != 0;
    // The slot was this key's and changed since it was read, and so by a write of this key, which took effect
    // while this one was under way: it overwrote what no client has seen.
    if (*swung == Swung::kDone || was_bound) co_return Result<>{};
    // Another key may have come to the slot first.
  }
}

Task<Result<>> PrismKvClient::erase(Bytes key, uint64_t deadline_ns) {
  deadline_ns = deadline_or_default(deadline_ns);
  if (key.empty()) co_return fail(Code::kInvalidArgument);
  if (key.size() > root_.key_bytes_max) co_return fail(Code::kNotFound);
  Workspace work(*this);
  const Bytes item = work.make_item(key, {}, true);
  for (;;) {
    const Result<Located> located = co_await locate(key, work, deadline_ns);
    if (located.code() == Code::kNoSpace) co_return fail(Code::kNotFound);
    if (!located) co_return fail(located.error());
    if (!located->is_present) co_return fail(Code::kNotFound);
    const Result<Swung> swung = co_await swing_patiently(*located, item, 0, work, deadline_ns);
    if (!swung) co_return fail(swung.error());
    // The write that overtook it may have erased the key, too, and one value is erased once.
    if (*swung == Swung::kDone) co_return Result<>{};
  }
}

void PrismKvClient::report_later(RemotePointer buffer) {
  reports_.push_back(buffer.bits);
  if (reports_.size() >= kReportBatch) start_report();
}

void PrismKvClient::start_report() noexcept {
  if (reports_under_way_ || reports_.empty()) return;
  const size_t count = std::min(reports_.size(), kReportsMax);
  const rpc::Call call{.method = kMethodReport, .head = std::as_bytes(std::span(reports_).first(count))};
  // The bytes are copied by now. Not sent: later.
  if (parts_.session.start(call, *this, 0) == 0) return;
  ++counts_.reports;
  reports_under_way_ = true;
  reports_.erase(reports_.begin(), reports_.begin() + static_cast<ptrdiff_t>(count));
}

void PrismKvClient::on_reply(uint32_t, const OpResult& reply) noexcept {
  reports_under_way_ = false;
  // The sweep finds what such a report named.
  if (reply.code != Code::kOk) ++counts_.lost_reports;
}

Task<Result<>> PrismKvClient::settle(uint64_t deadline_ns) {
  deadline_ns = deadline_or_default(deadline_ns);
  while (reports_under_way_ || !reports_.empty()) {
    if (parts_.session.state() == rpc::Session::State::kClosed) co_return fail(Code::kUnavailable);
    if (parts_.shard.now_ns() >= deadline_ns) co_return fail(Code::kDeadlineExceeded);
    start_report();
    co_await parts_.shard.sleep_for(kMicrosecond_ns);
  }
  co_return Result<>{};
}

std::unique_ptr<designs::Client> make_client(const designs::ClientParts& parts) {
  return std::make_unique<PrismKvClient>(parts);
}

}  // namespace refract::kv::prism_kv
