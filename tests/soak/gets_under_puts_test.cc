// SPDX-License-Identifier: Apache-2.0
// A direct get beside a writer that replaces values as fast as it can brings one value, whole, of the key
// that was asked for, and never an older one than before. Millions here, as many as one likes by hand.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/process/node_process.h"

#include "refract/base/clock.h"
#include "refract/base/prng.h"
#include "refract/base/testing/turns.h"
#include "refract/base/units.h"
#include "refract/client/client.h"
#include "refract/client/reader.h"

namespace refract::test::gets_under_puts_test {
namespace {

// Few enough that the same buffers are reused over and over, and enough that caches do not hold them all.
constexpr uint64_t kKeys = 100'000;
constexpr size_t kBatch = 64;

using Words = std::array<uint64_t, 8>;

// Every word follows from key and number, so that a mixture of two values, or another key's, is neither.
Words value_of(uint64_t key, uint64_t number) {
  Words words{key, number};
  for (size_t i = 2; i < words.size(); ++i) words[i] = (key ^ number << 20) * (0x9e3779b97f4a7c15 + 2 * i);
  return words;
}
std::string key_of(uint64_t key) {
  return fmt::format("key-{:012}", key);
}

class CheckedReader {
 public:
  explicit CheckedReader(Client client) : client_(std::move(client)), latest_(kKeys) {
    for (uint64_t key = 0; key < kKeys; ++key) keys_.push_back(key_of(key));
  }

  // By each way that reads directly, in turns.
  void get_some() {
    for (uint64_t i = 0; i < kBatch; ++i) asked_[i] = prng_.below(kKeys);
    switch (rounds_++ % 5) {
      case 0:
        for (const uint64_t key : asked_) get(key);
        break;
      case 1:
        for (size_t i = 0; i < kBatch; ++i) {
          if (i + Client::kAnnouncedAhead < kBatch)
            client_.announce(keys_[asked_[i + Client::kAnnouncedAhead]]);
          get(asked_[i]);
        }
        break;
      case 2:
        for (const uint64_t key : asked_) {
          const Result<View> view = client_.view(keys_[key]);
          check(key, view ? view->bytes() : std::span<const std::byte>());
        }
        break;
      case 3:
        for (const uint64_t key : asked_) get_inline(key);
        break;
      default:
        for (size_t i = 0; i < kBatch; ++i) items_[i].key = keys_[asked_[i]];
        client_.multi_get(items_);
        for (size_t i = 0; i < kBatch; ++i) check(asked_[i], std::as_bytes(std::span(items_[i].value)));
    }
  }

  [[nodiscard]] uint64_t checked() const noexcept { return checked_; }
  [[nodiscard]] uint64_t changed() const noexcept { return changed_; }
  [[nodiscard]] const std::string& trouble() const noexcept { return trouble_; }
  [[nodiscard]] ClientCounters counters() const noexcept { return client_.counters(); }

 private:
  void get(uint64_t key) {
    Words words{};
    const Result<Got> got = client_.get_into(keys_[key], std::as_writable_bytes(std::span(words)));
    check(key, std::as_bytes(std::span(words)).first(got ? got->value_bytes : 0));
  }
  void get_inline(uint64_t key) {
    if (!reader_) reader_ = client_.reader();
    if (!reader_) return complain(key, "cannot be read: there is no reader");
    Words words{};
    const Result<Got> got = reader_->get_into(keys_[key], std::as_writable_bytes(std::span(words)));
    check(key, std::as_bytes(std::span(words)).first(got ? got->value_bytes : 0));
  }
  void check(uint64_t key, std::span<const std::byte> value) {
    ++checked_;
    Words words{};
    if (value.size() != sizeof(words)) return complain(key, "is not as long as it was put");
    std::memcpy(words.data(), value.data(), sizeof(words));
    if (words[0] != key) return complain(key, "is of another key");
    if (words != value_of(key, words[1])) return complain(key, "is a mixture");
    if (words[1] < latest_[key]) return complain(key, "is older than the one before");
    changed_ += words[1] != latest_[key] ? 1 : 0;
    latest_[key] = words[1];
  }
  void complain(uint64_t key, const char* what) {
    if (trouble_.empty()) trouble_ = fmt::format("get {}: the value of {} {}", checked_, keys_[key], what);
  }

  Client client_;
  Result<Reader> reader_ = fail(Code::kForked);  // Of the thread that asks.
  Prng prng_{7};
  std::vector<std::string> keys_;
  std::vector<uint64_t> latest_;
  std::array<uint64_t, kBatch> asked_{};
  std::vector<GetItem> items_ = std::vector<GetItem>(kBatch);
  uint64_t rounds_ = 0;
  uint64_t checked_ = 0;
  uint64_t changed_ = 0;
  std::string trouble_;
};

void write_until(const std::atomic<bool>& is_over, Client client, std::atomic<uint64_t>& puts) {
  Prng prng(11);
  std::array<Words, kBatch> values;
  std::array<std::string, kBatch> keys;
  std::vector<PutItem> items(kBatch);
  for (uint64_t number = kKeys + 1; !is_over.load(); number += kBatch) {
    // Each key once in a batch, whose items have no order.
    const uint64_t first = prng.below(kKeys);
    for (size_t i = 0; i < kBatch; ++i) {
      const uint64_t key = (first + i * 1'009) % kKeys;
      keys[i] = key_of(key);
      values[i] = value_of(key, number + i);
      items[i] = {.key = keys[i], .value = Bytes(std::as_bytes(std::span(values[i])))};
    }
    client.multi_put(items);
    for (const PutItem& item : items) puts.fetch_add(item.result ? 1 : 0, std::memory_order_relaxed);
  }
}

uint64_t gets_wanted() {
  const char* const given = std::getenv("REFRACT_CHECKED_GETS");
  return given == nullptr ? turns(3'000'000, 300'000) : std::strtoull(given, nullptr, 10);
}

TEST(GetsUnderPuts, are_never_torn_foreign_or_older_than_before) {
  Node node({.arguments = {"--memory-limit", "256MiB"}});
  ASSERT_TRUE(node.is_up()) << node.errors();
  {
    Client client = node.connect();
    for (uint64_t key = 0; key < kKeys; ++key) {
      const Words words = value_of(key, key + 1);
      ASSERT_TRUE(client.put(key_of(key), Bytes(std::as_bytes(std::span(words)))));
    }
  }
  std::atomic<bool> is_over = false;
  std::atomic<uint64_t> puts = 0;
  std::thread writer(write_until, std::cref(is_over), node.connect(), std::ref(puts));
  CheckedReader reader(node.connect());
  const uint64_t wanted = gets_wanted();
  // On a busy machine the writer falls behind; the reader waits for it, since puts are what may tear a get.
  const auto has_shown = [&] {
    return reader.checked() >= wanted && puts.load() > kKeys && reader.changed() > wanted / 100;
  };
  while (!has_shown() && reader.trouble().empty()) reader.get_some();
  is_over = true;
  writer.join();
  fmt::print("{} gets beside {} puts; {} brought a value that was new to the reader; {} asked the server\n",
             reader.checked(), puts.load(), reader.changed(), reader.counters().rereads);
  EXPECT_EQ(reader.trouble(), "");
  EXPECT_GT(reader.changed(), wanted / 100) << "else this test shows nothing";
  EXPECT_GT(puts.load(), kKeys);
}

}  // namespace
}  // namespace refract::test::gets_under_puts_test
