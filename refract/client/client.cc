// SPDX-License-Identifier: Apache-2.0
#include "refract/client/client.h"

#include <utility>

#include "refract/base/units.h"
#include "refract/client/answers.h"
#include "refract/client/client_state.h"
#include "refract/client/reader.h"
#include "refract/client/shard_cursor.h"

namespace refract {

using client::AsyncCalls;
using client::check_key;
using client::check_put;
using client::ClientState;
using client::Connection;
using client::got_of;
using client::KeyOwner;
using client::options_of;
using client::Sink;
using client::StringRoom;
using client::take;
using client::ThreadState;
using client::Write;

namespace {

// A copy of this length was made under a pin.
constexpr uint64_t kPinnedBytes = 16 * kKiB;

// For what may last: a room whose type is known to the coroutines.
client::Room general(const StringRoom& room) noexcept {
  return {.string = room.target, .buffer = {}};
}
client::Room general(const client::BufferRoom& room) noexcept {
  return {.string = nullptr, .buffer = room.target};
}

bool is_settled(Code code) noexcept {
  return code != Code::kInvalidated && code != Code::kCorrupt;
}

// When a call that failed began, as far as the shard's clock can tell: where words tell what becomes of a
// server the clock is not read before the call. 0: unknown.
uint64_t begun_of(const Connection& connection, uint64_t clock_ns) noexcept {
  return connection.tells_by_words() ? 0 : clock_ns;
}

// A key that was looked for by this hash already.
KeyOwner place_of(const ThreadState& mine, Bytes key, uint64_t hash) noexcept {
  return {.key = {key, {.seed = mine.hash_seed(), .hash = hash, .is_known = true}}};
}

template <typename Room>
[[gnu::noinline]] Result<Got> get_carefully(ClientState& client, const KeyOwner& place, Room room) {
  if (const Code code = check_key(place.key.bytes()); code != Code::kOk) [[unlikely]]
    return fail(code);
  ThreadState* mine = client.mine();
  if (mine == nullptr || mine->is_child()) [[unlikely]]
    return fail(Code::kForked);
  uint64_t begun_ns = 0;
  if (Connection* connection = mine->reading_at(place); connection != nullptr) {
    Got got;
    const Code code = read_value(*connection, place.key, room, got);
    const bool is_pinned = code == Code::kOk && got.value_bytes >= kPinnedBytes;
    if (is_settled(code) && (!is_pinned || mine->is_node_still_there(*connection))) {
      if (code != Code::kOk) return fail(code);
      return got;
    }
  } else if (connection = mine->asking_at(place); connection != nullptr) {
    Sink<Room> sink(room);
    begun_ns = begun_of(*connection, mine->shard().now_ns());
    const Result<kv::Got> answer = connection->get_and_wait(place.key, sink);
    mine->publish();
    if (answer) return got_of(*answer);
    if (answer.code() != Code::kUnavailable) {
      mine->peers().note(*connection, answer.code());
      return fail(answer.error());
    }
  }
  mine->count_reread();
  return mine->wait_or(Code::kDeadlineExceeded, mine->async().get_slowly(place, general(room), begun_ns));
}

// What the shortest way does not settle, by the same reader.
template <typename Room>
[[gnu::noinline]] Result<Got> get_again(ClientState& client, Bytes key, Room room, uint64_t hash) {
  ThreadState& mine = ClientState::mine_at_once();
  if (check_key(key) == Code::kOk) [[likely]] {
    const client::ShardReader way = mine.way_of(hash);
    const kv::Found found = way.reader->get(key, hash, room);
    const bool is_pinned = found.code == Code::kOk && found.value_bytes >= kPinnedBytes;
    if (is_settled(found.code) && (!is_pinned || mine.is_node_still_there(*way.connection))) [[likely]] {
      if (found.code != Code::kOk) return fail(found.code);
      return got_of(found);
    }
  }
  mine.count_again();
  return get_carefully(client, place_of(mine, key, hash), room);
}

// The short way of a node with several shards, of which the key's slot names one. Apart, so that the ways by
// the hash are what they would be if there were no slots.
template <typename Room>
[[gnu::noinline]] Result<Got> get_by_slot(ClientState& client, Bytes key, Room room) {
  if (!client.has_mine_at_once() || !ClientState::mine_at_once().has_shards_of_slots()) {
    return get_carefully(client, {.key = key}, room);
  }
  ThreadState& mine = ClientState::mine_at_once();
  if (Connection::Reader* const reader = mine.slot_at_once(key).reader; reader != nullptr) [[likely]] {
    kv::Found found;
    if (reader->get_at_once(key, reader->hash(key), room, found)) [[likely]]
      return got_of(found);
    mine.count_again();
  }
  return get_carefully(client, {.key = key}, room);
}

// The same, of which the key's hash names one.
template <typename Room>
[[gnu::noinline]] Result<Got> get_at_length(ClientState& client, Bytes key, Room room) {
  if (client.has_mine_at_once() && ClientState::mine_at_once().has_shards()) [[likely]] {
    ThreadState& mine = ClientState::mine_at_once();
    const uint64_t hash = mine.hash(key);
    Connection::Reader* const reader = mine.shard_at_once(hash).reader;
    if (reader == nullptr) [[unlikely]]
      return get_carefully(client, place_of(mine, key, hash), room);
    kv::Found found;
    if (reader->get_at_once(key, hash, room, found)) [[likely]]
      return got_of(found);
    return get_again(client, key, room, hash);
  }
  return get_by_slot(client, key, room);
}

// The common get stands alone, because how many gets overlap is decided by the instructions of each.
template <typename Room>
[[gnu::always_inline]] inline Result<Got> get_to(ClientState& client, Bytes key, Room room) {
  if (client.has_mine_at_once()) [[likely]] {
    ThreadState& mine = ClientState::mine_at_once();
    if (Connection::Reader* reader = mine.reader_at_once(key); reader != nullptr) [[likely]] {
      kv::Found found;
      const uint64_t hash = reader->hash(key);
      if (reader->get_at_once(key, hash, room, found)) [[likely]]
        return got_of(found);
      return get_again(client, key, room, hash);
    }
  }
  return get_at_length(client, key, room);
}

// By loads alone. What is not settled is left to the other.
[[gnu::noinline]] Result<View> view_by_loads(ClientState& client, const KeyOwner& place) {
  if (const Code code = check_key(place.key.bytes()); code != Code::kOk) return fail(code);
  ThreadState* mine = client.mine();
  if (mine == nullptr || mine->is_child()) return fail(Code::kForked);
  Connection* connection = mine->reading_at(place);
  if (connection == nullptr) return fail(Code::kInvalidated);
  View view;
  const Code code = AsyncCalls::view_directly(*connection, place.key, view);
  if (code == Code::kOk) return view;
  if (!is_settled(code)) mine->count_reread();
  return fail(code);
}

[[gnu::noinline]] Result<View> view_carefully(ClientState& client, const KeyOwner& place) {
  Result<View> view = view_by_loads(client, place);
  if (view || is_settled(view.code())) return view;
  ThreadState& mine = *client.mine();
  return mine.wait_or(Code::kDeadlineExceeded, mine.async().view(place));
}

[[gnu::noinline]] Result<View> view_again(ClientState& client, Bytes key, uint64_t hash) {
  ThreadState& mine = ClientState::mine_at_once();
  mine.count_again();
  return view_carefully(client, place_of(mine, key, hash));
}

[[gnu::noinline]] Result<View> view_by_slot(ClientState& client, Bytes key) {
  if (!client.has_mine_at_once() || !ClientState::mine_at_once().has_shards_of_slots()) {
    return view_carefully(client, {.key = key});
  }
  ThreadState& mine = ClientState::mine_at_once();
  const client::ShardReader way = mine.slot_at_once(key);
  if (way.reader == nullptr) [[unlikely]]
    return view_carefully(client, {.key = key});
  Result<View> view(std::in_place);
  if (!AsyncCalls::view_at_once(*way.reader, *way.connection, key, way.reader->hash(key), *view))
      [[unlikely]] {
    mine.count_again();
    return view_carefully(client, {.key = key});
  }
  return view;
}

[[gnu::noinline]] Result<View> view_at_length(ClientState& client, Bytes key) {
  if (!client.has_mine_at_once() || !ClientState::mine_at_once().has_shards()) {
    return view_by_slot(client, key);
  }
  ThreadState& mine = ClientState::mine_at_once();
  const uint64_t hash = mine.hash(key);
  const client::ShardReader way = mine.shard_at_once(hash);
  if (way.reader == nullptr) [[unlikely]]
    return view_carefully(client, place_of(mine, key, hash));
  Result<View> view(std::in_place);
  if (!AsyncCalls::view_at_once(*way.reader, *way.connection, key, hash, *view)) [[unlikely]]
    view = view_again(client, key, hash);
  return view;
}

[[gnu::noinline]] Result<Got> exists_by_loads(ClientState& client, const KeyOwner& place) {
  if (const Code code = check_key(place.key.bytes()); code != Code::kOk) return fail(code);
  ThreadState* mine = client.mine();
  if (mine == nullptr || mine->is_child()) return fail(Code::kForked);
  Connection* connection = mine->reading_at(place);
  if (connection == nullptr) return fail(Code::kInvalidated);
  Got got;
  const Code code = look_at_entry(*connection, place.key, got);
  if (code == Code::kOk) return got;
  if (!is_settled(code)) mine->count_reread();
  return fail(code);
}

[[gnu::noinline]] Result<Got> exists_carefully(ClientState& client, const KeyOwner& place) {
  const Result<Got> got = exists_by_loads(client, place);
  if (got || is_settled(got.code())) return got;
  ThreadState& mine = *client.mine();
  return mine.wait_or(Code::kDeadlineExceeded, mine.async().exists(place));
}

[[gnu::noinline]] Result<Got> exists_again(ClientState& client, Bytes key, uint64_t hash) {
  ThreadState& mine = ClientState::mine_at_once();
  mine.count_again();
  return exists_carefully(client, place_of(mine, key, hash));
}

[[gnu::noinline]] Result<Got> exists_by_slot(ClientState& client, Bytes key) {
  if (!client.has_mine_at_once() || !ClientState::mine_at_once().has_shards_of_slots()) {
    return exists_carefully(client, {.key = key});
  }
  ThreadState& mine = ClientState::mine_at_once();
  Connection::Reader* const reader = mine.slot_at_once(key).reader;
  if (reader == nullptr) [[unlikely]]
    return exists_carefully(client, {.key = key});
  kv::Found found;
  if (reader->look_at_once(key, reader->hash(key), found)) [[likely]]
    return got_of(found);
  mine.count_again();
  return exists_carefully(client, {.key = key});
}

[[gnu::noinline]] Result<Got> exists_at_length(ClientState& client, Bytes key) {
  if (!client.has_mine_at_once() || !ClientState::mine_at_once().has_shards()) {
    return exists_by_slot(client, key);
  }
  ThreadState& mine = ClientState::mine_at_once();
  const uint64_t hash = mine.hash(key);
  Connection::Reader* const reader = mine.shard_at_once(hash).reader;
  if (reader == nullptr) [[unlikely]]
    return exists_carefully(client, place_of(mine, key, hash));
  kv::Found found;
  if (reader->look_at_once(key, hash, found)) [[likely]]
    return got_of(found);
  return exists_again(client, key, hash);
}

[[gnu::always_inline]] inline Result<Got> look_at(ClientState& client, Bytes key) {
  if (client.has_mine_at_once()) [[likely]] {
    ThreadState& mine = ClientState::mine_at_once();
    if (Connection::Reader* reader = mine.reader_at_once(key); reader != nullptr) [[likely]] {
      kv::Found found;
      const uint64_t hash = reader->hash(key);
      if (reader->look_at_once(key, hash, found)) [[likely]]
        return got_of(found);
      return exists_again(client, key, hash);
    }
  }
  return exists_at_length(client, key);
}

// Blocking calls that have no shorter way. `given_up`: what is said of one that was not to wait any longer.
template <typename T, typename Begin>
Result<T> wait_for(ClientState& client, Code given_up, Begin begin) {
  ThreadState* mine = client.mine();
  if (mine == nullptr || mine->is_child()) return fail(Code::kForked);
  return mine->wait_or(given_up, begin(mine->async()));
}

// Of many, some of which have no outcome.
template <typename Item>
void give_up(std::span<Item> items, Code given_up) noexcept {
  for (Item& item : items) {
    if (item.result.code() == Code::kUnavailable) item.result = fail(given_up);
  }
}

template <typename Item>
void read_many(ClientState& client, std::span<Item> items) {
  ThreadState* mine = client.mine();
  if (mine == nullptr || mine->is_child()) {
    for (Item& item : items) item.result = fail(Code::kForked);
    return;
  }
  mine->count_reads(0);
  std::vector<uint32_t> rest;
  mine->async().get_directly(items, rest);
  mine->count_reads(items.size() - rest.size());
  if (rest.empty()) return;
  for (const uint32_t index : rest) items[index].result = fail(Code::kUnavailable);
  if (!mine->has_waited_for(mine->async().get_by_calls(items, rest))) give_up(items, Code::kDeadlineExceeded);
}

}  // namespace

View::View(View&& other) noexcept
    : held_by_(std::exchange(other.held_by_, nullptr)),
      pin_(other.pin_),
      at_(std::exchange(other.at_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      version_(other.version_),
      copy_(std::move(other.copy_)),
      own_(other.own_) {}

View& View::operator=(View&& other) noexcept {
  std::swap(held_by_, other.held_by_);
  std::swap(pin_, other.pin_);
  std::swap(at_, other.at_);
  std::swap(size_, other.size_);
  std::swap(version_, other.version_);
  std::swap(copy_, other.copy_);
  std::swap(own_, other.own_);
  return *this;
}

void View::let_go() noexcept {
  held_by_->let_go(pin_);
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
  if (state_ != nullptr) state_->end();
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

void Client::announce(Bytes key) noexcept {
  if (!state_->has_mine_at_once()) [[unlikely]] {
    if (state_->mine() == nullptr) return;
  }
  const Connection::Key hashed(key);
  Connection::Reader* const reader = ClientState::mine_at_once().reader_for(hashed);
  if (reader != nullptr) reader->announce(hashed.hash(reader->hash_seed()));
}

Result<View> Client::view(Bytes key) {
  Result<View> view(std::in_place);
  if (state_->has_mine_at_once()) [[likely]] {
    ThreadState& mine = ClientState::mine_at_once();
    if (Connection::Reader* reader = mine.reader_at_once(key); reader != nullptr) [[likely]] {
      const uint64_t hash = reader->hash(key);
      if (!AsyncCalls::view_at_once(*reader, mine.sole_connection(), key, hash, *view)) [[unlikely]]
        view = view_again(*state_, key, hash);
      return view;
    }
  }
  view = view_at_length(*state_, key);
  return view;
}

Result<View> Client::view_at_once(Bytes key) {
  Result<View> view(std::in_place);
  if (state_->has_mine_at_once()) [[likely]] {
    ThreadState& mine = ClientState::mine_at_once();
    if (Connection::Reader* reader = mine.reader_at_once(key); reader != nullptr) [[likely]] {
      const uint64_t hash = reader->hash(key);
      if (AsyncCalls::view_at_once(*reader, mine.sole_connection(), key, hash, *view)) [[likely]]
        return view;
      mine.count_again();
      view = view_by_loads(*state_, place_of(mine, key, hash));
      return view;
    }
  }
  view = view_by_loads(*state_, {.key = key});
  return view;
}

Result<Got> Client::exists(Bytes key) {
  return look_at(*state_, key);
}

Result<Got> Client::exists_at_once(Bytes key) {
  return exists_by_loads(*state_, {.key = key});
}

Result<Reader> Client::reader() {
  ThreadState* mine = state_->mine();
  if (mine == nullptr || mine->is_child()) return fail(Code::kForked);
  return Reader(mine->ticket(), *state_);
}

Result<Got> Reader::get_by_client(Bytes key, std::span<std::byte> value) {
  return get_to(*state_, key, client::BufferRoom{value});
}

Result<Got> Reader::look_by_client(Bytes key) {
  return look_at(*state_, key);
}

Result<uint64_t> Client::put(Bytes key, Bytes value, const PutOptions& options) {
  if (const Code code = check_put(key, options); code != Code::kOk) [[unlikely]]
    return fail(code);
  ThreadState* mine = state_->mine();
  if (mine == nullptr || mine->is_child()) [[unlikely]]
    return fail(Code::kForked);
  Write write(mine->peers(), options.request, client::is_conditional(options));
  uint64_t first_ns = 0;
  const KeyOwner place{.key = key};
  if (Connection* connection = mine->asking_at(place); connection != nullptr) [[likely]] {
    const uint64_t begun_ns = mine->shard().now_ns();
    const Result<uint64_t> version =
        connection->put_and_wait(place.key, value, options_of(options, write.attempt()));
    mine->publish();
    if (version && !write.has_identity()) [[likely]]
      return version;
    write.note(version.code(), begun_ns);
    if (!write.may_go_again(*connection, version.code())) {
      mine->peers().note(*connection, version.code());
      write.end(mine->peers(), version.code());
      return version;
    }
    // A write with an identity has looked at the clock.
    first_ns = write.has_identity() ? begun_ns : begun_of(*connection, begun_ns);
  }
  const Result<uint64_t> version =
      mine->wait_or(Code::kIndeterminate, mine->async().put_on(place, value, options, write, first_ns));
  // The task says the end where it comes to it.
  if (version.code() == Code::kIndeterminate) write.end(mine->peers(), version.code());
  return version;
}

Result<Reservation> Client::reserve(uint64_t bytes) {
  const ThreadState* mine = state_->mine();
  if (mine == nullptr || mine->is_child()) return fail(Code::kForked);
  return state_->reserve(bytes);
}

Result<uint64_t> Client::put(Bytes key, const Reservation& value, const PutOptions& options) {
  PutOptions built = options;
  built.built_in = &value;
  return put(key, Bytes(value.bytes()), built);
}

Result<uint64_t> Client::erase(Bytes key, uint64_t if_version, const RequestId& request) {
  return wait_for<uint64_t>(*state_, Code::kIndeterminate,
                            [&](AsyncCalls& async) { return async.erase(key, if_version, request); });
}

Result<RequestId> Client::new_request() {
  ThreadState* mine = state_->mine();
  if (mine == nullptr || mine->is_child()) return fail(Code::kForked);
  return mine->peers().new_request();
}

Result<ScanPage> Client::scan(uint64_t cursor, size_t keys_min) {
  ThreadState* mine = state_->mine();
  if (mine == nullptr || mine->is_child()) return fail(Code::kForked);
  const auto shard = mine->peers().shard_at(client::ShardCursor::from(cursor).shard);
  if (shard) (void)mine->reading_at({.key = {}, .shard = *shard});
  return mine->wait_or(Code::kDeadlineExceeded, mine->async().scan(cursor, keys_min));
}

void Client::multi_get(std::span<GetItem> items) {
  read_many(*state_, items);
}

void Client::multi_get_into(std::span<GetIntoItem> items) {
  read_many(*state_, items);
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
  ThreadState* mine = state_->mine();
  if (mine == nullptr || mine->is_child()) {
    for (PutItem& item : items) item.result = fail(Code::kForked);
    return;
  }
  // Whether the server of before is still there is seen by a turn at the latest.
  (void)mine->asking_at({.key = {}, .shard = mine->peers().first_shard()});
  if (!mine->has_waited_for(mine->async().multi_put(items))) give_up(items, Code::kIndeterminate);
}

void Client::multi_exists(std::span<ExistsItem> items) {
  std::vector<uint32_t> rest;
  for (size_t i = 0; i < items.size(); ++i) {
    items[i].result = exists_by_loads(*state_, {.key = items[i].key});
    if (items[i].result || is_settled(items[i].result.code())) continue;
    items[i].result = fail(Code::kUnavailable);
    rest.push_back(static_cast<uint32_t>(i));
  }
  if (rest.empty()) return;
  ThreadState& mine = *state_->mine();
  if (!mine.has_waited_for(mine.async().look_by_calls(items, rest))) give_up(items, Code::kDeadlineExceeded);
}

Result<size_t> Client::prefix_exists(std::span<const Bytes> keys) {
  client::PrefixRounds rounds(keys);
  while (!rounds.is_over()) {
    multi_exists(rounds.next());
    rounds.take();
  }
  return rounds.result();
}

Result<uint64_t> Client::clear() {
  return wait_for<uint64_t>(*state_, Code::kIndeterminate, [](AsyncCalls& async) { return async.clear(); });
}

Result<NodeStat> Client::stat() {
  return wait_for<NodeStat>(*state_, Code::kDeadlineExceeded, [](AsyncCalls& async) { return async.stat(); });
}

Result<Pong> Client::ping() {
  return wait_for<Pong>(*state_, Code::kDeadlineExceeded, [](AsyncCalls& async) { return async.ping(); });
}

Result<ClusterMembers> Client::members() {
  return wait_for<ClusterMembers>(*state_, Code::kDeadlineExceeded,
                                  [](AsyncCalls& async) { return async.members(); });
}

Route Client::route() const {
  ThreadState* mine = state_->mine();
  if (mine == nullptr) return {};
  if (!mine->is_child()) (void)mine->has_waited_for(mine->peers().find_out());
  return mine->async().route();
}

Report Client::trouble() const {
  const ThreadState* mine = state_->mine();
  if (mine == nullptr) return {Code::kForked, std::string(info(Code::kForked).sentence), ""};
  return mine->trouble();
}

ClientCounters Client::counters() const noexcept {
  if (state_->has_mine_at_once()) ClientState::mine_at_once().publish();
  return state_->counters();
}

}  // namespace refract
