// SPDX-License-Identifier: Apache-2.0
// FaRM's claims: how it lies in memory, that no READ accepts lines of two moments, and that a server takes
// from a message what it may and nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/testing/golden.h"
#include "refract/txn/designs/farm/client.h"
#include "refract/txn/designs/farm/object.h"
#include "refract/txn/designs/farm/server.h"
#include "refract/txn/designs/test_sim_store.h"

namespace refract::txn::farm {
namespace {

using designs::Bytes;
using designs::bytes_of;
using designs::SimClient;
using designs::SimServer;
using designs::text_of;
using designs::Transaction;

// Every state that an object passes through: one for each word, those of one copy in their order or against
// it.
class States final : public StoreLog {
 public:
  States(std::span<std::byte> memory, bool is_backward) : memory_(memory), is_backward_(is_backward) {}
  void begin() { states_.assign(1, {memory_.begin(), memory_.end()}); }
  void stored(Offset at, std::span<const std::byte> bytes) noexcept override {
    if (states_.empty()) return;
    std::vector<std::byte> state = states_.back();
    const uint64_t words = (bytes.size() + 7) / 8;
    for (uint64_t i = 0; i < words; ++i) {
      const uint64_t word = is_backward_ ? words - 1 - i : i;
      const Bytes part = bytes.subspan(word * 8, std::min<uint64_t>(8, bytes.size() - word * 8));
      std::ranges::copy(part, state.begin() + static_cast<ptrdiff_t>(at.value + word * 8));
      states_.push_back(state);
    }
  }
  [[nodiscard]] const std::vector<std::vector<std::byte>>& all() const noexcept { return states_; }

 private:
  std::span<std::byte> memory_;
  bool is_backward_;
  std::vector<std::vector<std::byte>> states_;
};

// Over all moments at which a READ may take each of three lines: how many accepted what was never there.
uint64_t wrongly_accepted(const StoreRules& rules, bool is_backward) {
  constexpr uint64_t kBytes = 3 * kLineBytes;
  alignas(64) std::array<std::byte, kBytes> memory{};
  States states(memory, is_backward);
  Writer writer(memory.data(), &states);
  const std::string before(150, 'o');
  const std::string after(140, 'n');
  store_object(writer, kBytes, {.at = {0}, .key = bytes_of("k"), .value = bytes_of(before), .version = 5});
  states.begin();
  writer.publish({0}, 5 | Header::kLock);
  store_object(writer, kBytes, {.at = {0}, .key = bytes_of("k"), .value = bytes_of(after), .version = 6},
               rules);
  uint64_t wrong = 0;
  uint64_t right = 0;
  std::array<std::byte, kBytes> read{};
  const auto take = [&](uint64_t line, const std::vector<std::byte>& state) {
    std::copy_n(state.begin() + static_cast<ptrdiff_t>(line * kLineBytes), kLineBytes,
                read.begin() + static_cast<ptrdiff_t>(line * kLineBytes));
  };
  for (const auto& first : states.all()) {
    take(0, first);
    for (const auto& second : states.all()) {
      take(1, second);
      for (const auto& third : states.all()) {
        take(2, third);
        const std::optional<Object> object = object_in(read);
        if (!object) continue;
        const std::string value = text_of(object->value);
        const bool is_one = object->header.version() == 5 ? value == before : value == after;
        ++(is_one ? right : wrong);
      }
    }
  }
  EXPECT_GT(right, 1U);
  return wrong;
}

TEST(FarmObject, a_read_accepts_no_lines_of_two_moments) {
  for (const bool is_backward : {false, true}) EXPECT_EQ(wrongly_accepted({}, is_backward), 0U);
}

TEST(FarmObject, lines_that_keep_their_versions_or_are_unlocked_early_are_found) {
  EXPECT_GT(wrongly_accepted({.hides_versions = false}, false), 0U);
  EXPECT_GT(wrongly_accepted({.hides_versions = false, .unlocks_at_last = false}, false), 0U);
}

TEST(FarmObject, no_version_looks_like_that_of_a_line_that_changes) {
  EXPECT_EQ(next_version(0xfffe), 0xffffU);
  EXPECT_EQ(next_version(0xffff), 0x10001U);
  EXPECT_EQ(next_version(0x1ffff), 0x20001U);
}

// Whatever bytes are read: an object within them, or none.
TEST(FarmObject, any_bytes_are_an_object_or_none) {
  Prng prng(7);
  std::array<std::byte, 3 * kLineBytes> bytes{};
  for (int i = 0; i < 20'000; ++i) {
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(prng.below(3) == 0 ? prng.next() : 0);
    const uint64_t length = prng.below(bytes.size() + 1);
    const std::optional<Object> object = object_in(std::span(bytes).first(length));
    const uint64_t found = object ? object->key.size() + object->value.size() : 0;
    ASSERT_LE(found, length);
  }
}

constexpr designs::Capacity kSmall = {.keys_max = 2, .key_bytes_max = 16, .value_bytes_max = 64};
constexpr uint64_t kPatience_ns = 50 * kMillisecond_ns;

// One server with two keys, and a session for messages by hand.
struct Served {
  Served() : server(world, *designs::find("farm"), 0, terms()), host(world.add_host("client")) {
    EXPECT_TRUE(server.server().load(bytes_of("user:7"), bytes_of("Ada")).has_value());
    EXPECT_TRUE(server.server()
                    .load(bytes_of("lease"), bytes_of("held until all of them have said that they are done"))
                    .has_value());
    std::memcpy(&root, server.memory().data(), sizeof(root));
    process = &host.emplace<SimClient>(host, make_client, size_t{1});
    client = runtime::block_on(host.shard(), process->connected(1));
  }
  [[nodiscard]] static SimServer::Terms terms() {
    return {.capacity = kSmall, .patience_ns = kPatience_ns, .steps = false};
  }
  [[nodiscard]] Code call(uint16_t method, Bytes body) {
    return process->session(0)
        .call_and_wait({.method = method, .tail = body}, world.now_ns() + kSecond_ns)
        .code;
  }
  [[nodiscard]] Code lock(uint64_t object, uint64_t version) {
    const LockItem item{.object = object, .version = version};
    return call(kMethodLock, std::as_bytes(std::span(&item, 1)));
  }
  [[nodiscard]] Code update(uint64_t object, uint32_t value_bytes, size_t body_bytes) {
    std::vector<std::byte> body(sizeof(UpdateHeader) + body_bytes, std::byte{'x'});
    const UpdateHeader header{.object = object, .value_bytes = value_bytes, .reserved = 0};
    std::memcpy(body.data(), &header, sizeof(header));
    return call(kMethodUpdate, body);
  }
  [[nodiscard]] uint64_t header(uint64_t object) {
    uint64_t bits = 0;
    std::memcpy(&bits, server.memory().data() + object, sizeof(bits));
    return bits;
  }
  [[nodiscard]] Code put(std::string_view key, std::string_view value) {
    const std::unique_ptr<Transaction> transaction = client->begin();
    const std::array<Bytes, 1> keys = {bytes_of(key)};
    const Code read = runtime::block_on(host.shard(), transaction->read(keys, 0)).code();
    if (read != Code::kOk) return read;
    EXPECT_TRUE(transaction->write(bytes_of(key), bytes_of(value)).has_value());
    return runtime::block_on(host.shard(), transaction->commit(0)).code();
  }

  sim::World world{{.seed = 1}};
  SimServer server;
  sim::Host& host;
  SimClient* process = nullptr;
  designs::Client* client = nullptr;
  Root root{};
};

TEST(Farm, a_store_lies_in_memory_as_its_page_shows) {
  Served served;
  ASSERT_EQ(served.put("user:7", "Lovelace"), Code::kOk);
  ASSERT_EQ(served.lock(served.root.objects + served.root.object_bytes, 1), Code::kOk);
  const auto lines = golden::lines_of(REFRACT_SOURCE_DIR "/docs/formats/farm.md");
  EXPECT_GT(lines.size(), 10U);
  const auto memory = served.server.memory();
  const std::vector<std::byte> image = golden::image_of(lines, memory.size());
  for (size_t i = 0; i < image.size(); ++i) ASSERT_EQ(image[i], memory[i]) << std::hex << i;
}

TEST(Farm, a_server_locks_and_updates_only_what_it_is_asked_rightly) {
  Served served;
  const uint64_t first = served.root.objects;
  const uint64_t second = first + served.root.object_bytes;
  EXPECT_EQ(served.lock(first + 64, 1), Code::kInvalidArgument) << "no object";
  EXPECT_EQ(served.lock(first + 2 * served.root.object_bytes, 0), Code::kInvalidArgument) << "no key";
  EXPECT_EQ(served.lock(UINT64_MAX, 1), Code::kInvalidArgument);
  EXPECT_EQ(served.lock(first, 2), Code::kConflict) << "another version";
  EXPECT_EQ(served.update(first, 8, 8), Code::kConflict) << "not locked";
  ASSERT_EQ(served.lock(first, 1), Code::kOk);
  EXPECT_EQ(served.lock(first, 1), Code::kConflict) << "locked";
  EXPECT_EQ(served.update(first, 65, 72), Code::kMalformed) << "too long a value";
  EXPECT_EQ(served.update(first, 16, 8), Code::kMalformed) << "longer than the message";
  EXPECT_EQ(served.update(second, 8, 8), Code::kConflict);
  EXPECT_EQ(served.call(kMethodLock, bytes_of("seven..")), Code::kMalformed);
  EXPECT_EQ(served.call(kMethodUpdate, bytes_of("seven..")), Code::kMalformed);
  EXPECT_EQ(served.call(0x335, {}), Code::kUnsupported);
  EXPECT_EQ(served.header(first), 1 | Header::kLock);
  EXPECT_EQ(served.update(first, 8, 8), Code::kOk);
  EXPECT_EQ(served.header(first), 2U);
  EXPECT_EQ(served.header(second), 1U);
  EXPECT_EQ(served.server.server().contradiction(), std::nullopt);
}

TEST(Farm, a_message_locks_all_its_objects_or_none) {
  Served served;
  const uint64_t first = served.root.objects;
  const uint64_t second = first + served.root.object_bytes;
  const std::array<LockItem, 2> wrong = {LockItem{first, 1}, LockItem{second, 9}};
  EXPECT_EQ(served.call(kMethodLock, std::as_bytes(std::span(wrong))), Code::kConflict);
  const std::array<LockItem, 2> twice = {LockItem{first, 1}, LockItem{first, 1}};
  EXPECT_EQ(served.call(kMethodLock, std::as_bytes(std::span(twice))), Code::kInvalidArgument);
  EXPECT_EQ(served.header(first), 1U);
  const std::array<LockItem, 2> both = {LockItem{first, 1}, LockItem{second, 1}};
  EXPECT_EQ(served.call(kMethodLock, std::as_bytes(std::span(both))), Code::kOk);
  EXPECT_EQ(served.server.server().facts().held_keys, 2U);
  EXPECT_EQ(served.call(kMethodUnlock, std::as_bytes(std::span(both))), Code::kOk);
  EXPECT_EQ(served.header(first), 1U) << "unlocked as it was";
  EXPECT_EQ(served.server.server().facts().held_keys, 0U);
}

TEST(Farm, what_is_locked_for_too_long_is_unlocked_and_its_session_is_ended) {
  Served served;
  ASSERT_EQ(served.lock(served.root.objects, 1), Code::kOk);
  EXPECT_EQ(served.put("user:7", "late"), Code::kConflict) << "it is locked, though by the same session";
  ASSERT_TRUE(served.world.run_for(kPatience_ns));
  served.server.server().keep_house();
  ASSERT_TRUE(served.world.run_for(kMillisecond_ns));
  EXPECT_EQ(served.server.server().facts().held_keys, 0U);
  EXPECT_EQ(served.server.server().facts().freed_keys, 1U);
  EXPECT_NE(served.put("user:7", "late"), Code::kOk);
  EXPECT_EQ(served.header(served.root.objects), 1U);
}

}  // namespace
}  // namespace refract::txn::farm
