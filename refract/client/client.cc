// SPDX-License-Identifier: Apache-2.0
#include "refract/client/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "refract/base/units.h"
#include "refract/client/answers.h"
#include "refract/client/client_state.h"

namespace refract {

using client::check_key;
using client::ClientState;
using client::Connection;
using client::got_of;
using client::options_of;
using client::Sink;
using client::stat_of;
using client::StringRoom;
using client::take;

namespace {

// A copy of this length was made under a pin.
constexpr uint64_t kPinnedBytes = 16 * kKiB;
// How many keys of a multi_get have their cache misses under way at once.
constexpr size_t kGroup = 16;

template <typename Room>
[[gnu::noinline]] Result<Got> get_carefully(ClientState& state, const Bytes& key, const Room& room) {
  if (const Code code = check_key(key); code != Code::kOk) [[unlikely]]
    return fail(code);
  Got got;
  const Code code = state.read(
      [&](Connection::Reader& reader) {
        const kv::Found found = reader.get(key, reader.hash(key), room);
        if (found.value_bytes >= kPinnedBytes && found.code == Code::kOk && !state.is_node_still_there())
          return Code::kInvalidated;
        got = got_of(found);
        return found.code;
      },
      [&](kv::RpcClient& rpc, uint64_t deadline_ns) {
        Sink<Room> sink(room);
        return take(rpc.get_and_wait(key, sink, deadline_ns), got);
      });
  if (code != Code::kOk) return fail(code);
  return got;
}

// Where nothing can be read directly: pipelined, as far as there are calls to spare.
void get_by_rpc(ClientState& state, std::span<GetItem> items) {
  std::vector<StringRoom> rooms;
  std::vector<Sink<StringRoom>> sinks;
  std::vector<kv::RpcClient::GetItem> asked;
  rooms.reserve(items.size());
  sinks.reserve(items.size());
  for (GetItem& item : items) {
    sinks.emplace_back(rooms.emplace_back(StringRoom{&item.value}));
    asked.push_back({.key = item.key, .sink = &sinks.back()});
  }
  const Result<> sent = state.ask_server<void>([&](kv::RpcClient& rpc, uint64_t deadline_ns) -> Result<> {
    block_on(state.shard(), rpc.multi_get(asked, deadline_ns));
    const bool is_lost =
        std::ranges::any_of(asked, [](const auto& item) { return item.result.code() == Code::kUnavailable; });
    if (is_lost) return fail(Code::kUnavailable);
    return {};
  });
  for (size_t i = 0; i < items.size(); ++i) {
    Got got;
    const Code code = sent ? take(asked[i].result, got) : sent.code();
    items[i].result = code == Code::kOk ? Result<Got>(got) : Result<Got>(fail(code));
  }
}

// The common get stands alone, because how many gets overlap is decided by the instructions of each.
template <typename Room>
Result<Got> get_to(ClientState& state, const Bytes& key, const Room& room) {
  if (Connection::Reader* reader = state.reader_at_once(); reader != nullptr) [[likely]] {
    kv::Found found;
    if (reader->get_at_once(key, reader->hash(key), room, found)) [[likely]]
      return got_of(found);
    state.count_again();
  }
  return get_carefully(state, key, room);
}

}  // namespace

View::View(View&& other) noexcept
    : state_(std::exchange(other.state_, nullptr)),
      held_by_(other.held_by_),
      pin_(other.pin_),
      bytes_(std::exchange(other.bytes_, {})),
      version_(other.version_) {}

View& View::operator=(View&& other) noexcept {
  std::swap(state_, other.state_);
  std::swap(held_by_, other.held_by_);
  std::swap(pin_, other.pin_);
  std::swap(bytes_, other.bytes_);
  std::swap(version_, other.version_);
  return *this;
}

View::~View() {
  if (state_ != nullptr) state_->give_back(*this);
}

Reported<Client> Client::connect(std::string_view address, const ClientOptions& options) {
  return ClientState::connect(address, options);
}

Client::Client(Client&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}

Client& Client::operator=(Client&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

Client::~Client() {
  if (state_ != nullptr) state_->release();
}

Result<std::string> Client::get(Bytes key) {
  std::string value;
  if (const Result<Got> got = get_to(*state_, key, StringRoom{&value}); !got) return fail(got.error());
  return value;
}

Result<Got> Client::get(Bytes key, std::string& value) {
  return get_to(*state_, key, StringRoom{&value});
}

Result<Got> Client::get_into(Bytes key, std::span<std::byte> value) {
  return get_to(*state_, key, client::BufferRoom{value});
}

Result<View> Client::view(Bytes key) {
  if (const Code code = check_key(key); code != Code::kOk) return fail(code);
  return state_->view(key);
}

Result<Got> Client::exists(Bytes key) {
  if (const Code code = check_key(key); code != Code::kOk) return fail(code);
  Got got;
  const Code code = state_->read(
      [&](Connection::Reader& reader) {
        const kv::Found found = reader.look(key, reader.hash(key));
        got = got_of(found);
        return found.code;
      },
      [&](kv::RpcClient& rpc, uint64_t deadline_ns) {
        return take(block_on(state_->shard(), rpc.exists(key, deadline_ns)), got);
      });
  if (code != Code::kOk) return fail(code);
  return got;
}

Result<uint64_t> Client::put(Bytes key, Bytes value, const PutOptions& options) {
  if (options.if_absent && options.if_version != 0) [[unlikely]]
    return fail(Code::kInvalidArgument);
  return state_->ask_server<uint64_t>([&](kv::RpcClient& rpc, uint64_t deadline_ns) {
    return rpc.put_and_wait(key, value, options_of(options), deadline_ns);
  });
}

Result<uint64_t> Client::erase(Bytes key, uint64_t if_version) {
  return state_->ask_server<uint64_t>([&](kv::RpcClient& rpc, uint64_t deadline_ns) {
    return rpc.erase_and_wait(key, if_version, deadline_ns);
  });
}

Result<ScanPage> Client::scan(uint64_t cursor, size_t keys_min) {
  ScanPage page;
  const Code code = state_->read(
      [&](Connection::Reader& reader) { return client::scan_directly(reader, cursor, keys_min, page); },
      [&](kv::RpcClient& rpc, uint64_t deadline_ns) {
        page.entries.clear();
        auto answer = block_on(state_->shard(), rpc.scan(cursor, keys_min, deadline_ns));
        if (!answer) return answer.code();
        page.next = answer->next;
        for (auto& key : answer->keys) {
          page.entries.push_back({std::move(key.key), key.version, key.value_bytes});
        }
        return Code::kOk;
      });
  if (code != Code::kOk) return fail(code);
  return page;
}

void Client::multi_get(std::span<GetItem> items) {
  if (!state_->is_child() && !state_->route_is_direct()) return get_by_rpc(*state_, items);
  while (!items.empty()) {
    const std::span<GetItem> group = items.first(std::min(kGroup, items.size()));
    items = items.subspan(group.size());
    if (!state_->is_child() && state_->may_read_directly(0)) {
      // Two passes that only prefetch, so that the misses of the whole group overlap.
      Connection::Reader& reader = *state_->connection().reader();
      std::array<uint64_t, kGroup> hashes{};
      for (size_t i = 0; i < group.size(); ++i) {
        hashes[i] = reader.hash(group[i].key);
        reader.prefetch_bucket(hashes[i]);
      }
      for (size_t i = 0; i < group.size(); ++i) reader.prefetch_buffers(hashes[i]);
    }
    for (GetItem& item : group) item.result = get_to(*state_, item.key, StringRoom{&item.value});
  }
}

std::vector<Result<std::string>> Client::multi_get(std::span<const std::string_view> keys) {
  std::vector<GetItem> items;
  items.reserve(keys.size());
  for (const std::string_view key : keys) items.push_back({.key = key, .value = {}});
  multi_get(items);
  std::vector<Result<std::string>> values;
  values.reserve(keys.size());
  for (GetItem& item : items) {
    if (item.result) {
      values.emplace_back(std::move(item.value));
    } else {
      values.emplace_back(fail(item.result.error()));
    }
  }
  return values;
}

void Client::multi_put(std::span<PutItem> items) {
  std::vector<kv::RpcClient::PutItem> open;
  std::vector<PutItem*> owners;
  for (PutItem& item : items) {
    if (item.options.if_absent && item.options.if_version != 0) {
      item.result = fail(Code::kInvalidArgument);
      continue;
    }
    open.push_back({.key = item.key, .value = item.value, .options = options_of(item.options)});
    owners.push_back(&item);
  }
  // Those that surely were not sent go again when there is a server; the others have their outcome.
  const Result<> all = state_->ask_server<void>([&](kv::RpcClient& rpc, uint64_t deadline_ns) -> Result<> {
    block_on(state_->shard(), rpc.multi_put(open, deadline_ns));
    size_t left = 0;
    for (size_t i = 0; i < open.size(); ++i) {
      owners[i]->result = open[i].result;
      if (open[i].result.code() != Code::kUnavailable) continue;
      open[left] = open[i];
      owners[left++] = owners[i];
    }
    open.resize(left);
    owners.resize(left);
    if (left > 0) return fail(Code::kUnavailable);
    return {};
  });
  for (PutItem* item : owners) item->result = fail(all.code());
}

Result<NodeStat> Client::stat() {
  const auto reply = state_->ask_server<kv::wire::StatReply>([&](kv::RpcClient& rpc, uint64_t deadline_ns) {
    return block_on(state_->shard(), rpc.stat(deadline_ns));
  });
  if (!reply) return fail(reply.error());
  return stat_of(*reply);
}

Result<Pong> Client::ping() {
  const Clock& clock = state_->shard().clock();
  uint64_t sent_ns = 0;
  const auto reply = state_->ask_server<kv::wire::PingReply>([&](kv::RpcClient& rpc, uint64_t deadline_ns) {
    sent_ns = clock.now_ns();
    return block_on(state_->shard(), rpc.ping(sent_ns, deadline_ns));
  });
  if (!reply) return fail(reply.error());
  return Pong{.round_trip_ns = clock.now_ns() - sent_ns, .node_wall_ns = reply->wall_ns};
}

Route Client::route() const {
  return state_->route();
}

std::string Client::why() const {
  const Route route = state_->route();
  std::string text = fmt::format("node    {} ({})\n", route.address, route.transport);
  text += fmt::format("server  {}, incarnation {}, process {}\n", route.server, route.incarnation,
                      route.server_pid);
  text += fmt::format("reads   {}: {}\n", route.direct ? "direct" : "by the server", route.reason);
  if (route.direct) {
    text += fmt::format("        {} MiB in {} {}\n", route.mapped_bytes / kMiB, route.regions,
                        route.regions == 1 ? "region" : "regions");
  }
  text += "writes  by the server, over a ring in shared memory each way\n";
  return text;
}

Report Client::trouble() const {
  return state_->trouble();
}

ClientCounters Client::counters() const noexcept {
  return state_->counters();
}

}  // namespace refract
