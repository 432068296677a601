// SPDX-License-Identifier: Apache-2.0
// Arbitrary reports to PRISM-KV's daemon between honest operations: clients that lie, that repeat themselves
// and that died. No report takes a buffer from an item: every key keeps the value that its last put gave it,
// and after two sweeps every buffer is either an item's or free.
//
// Input: steps of a byte each, some with more behind it: puts and erases of a few keys, a buffer that was
// taken and never stored, a turn of the sweep, and reports of as many bytes as the next one says. A word of a
// report whose upper half is 0 is a buffer's number, the others are sent as they are.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "refract/base/check.h"
#include "refract/kv/designs/prism/layout.h"
#include "refract/kv/designs/prism/server.h"
#include "refract/kv/designs/test_store.h"

namespace refract::kv::prism_kv {
namespace {

using designs::LoopbackStore;
using Bytes = std::span<const std::byte>;

// So few buffers that they are used again within an input.
constexpr designs::Capacity kCapacity = {
    .keys_max = 4, .key_bytes_max = 8, .value_bytes_min = 8, .value_bytes_max = 60, .spare_values = 3};
constexpr size_t kStepsMax = 128;
// A store is made for each input.
constexpr designs::LoopbackSizes kSizes = {.link = {.depth = 8, .message_bytes_max = 1024}, .ops_max = 32};

const designs::Design& row() {
  return *designs::find("prism");
}

class Steps {
 public:
  explicit Steps(Bytes input) : rest_(input) {}
  [[nodiscard]] bool are_over() const { return rest_.empty(); }
  [[nodiscard]] uint8_t byte() {
    if (rest_.empty()) return 0;
    const auto byte = std::to_integer<uint8_t>(rest_.front());
    rest_ = rest_.subspan(1);
    return byte;
  }
  [[nodiscard]] std::vector<std::byte> bytes(size_t wanted) {
    const Bytes bytes = rest_.first(std::min(wanted, rest_.size()));
    rest_ = rest_.subspan(bytes.size());
    return {bytes.begin(), bytes.end()};
  }

 private:
  Bytes rest_;
};

class Liars {
 public:
  Liars() {
    std::memcpy(&root_, store_.memory().data(), sizeof(root_));
    lists().poison_with(std::byte{0xdd});
  }

  void step(Steps& steps) {
    const uint8_t what = steps.byte();
    switch (what % 8) {
      case 0:
      case 1:
        put(what / 8, steps.byte());
        break;
      case 2:
        erase(what / 8);
        break;
      case 3:
        // Of a client that died between ALLOCATE and swap, after it had written whatever it liked.
        (void)lists().allocate(what / 8 % root_.list_count, steps.bytes(16));
        break;
      case 4:
        server().keep_house();
        break;
      default:
        report(steps.bytes(steps.byte()));
    }
  }

  void end() {
    REFRACT_CHECK(store_.settle() == Code::kOk);
    for (int i = 0; i < 8; ++i) REFRACT_CHECK(get(i) == value_of(i));
    // A buffer goes back when two passes have missed it, and one of them may have begun already.
    for (const uint64_t end = server().counts().passes + 4; server().counts().passes < end;) {
      server().keep_house();
    }
    REFRACT_CHECK(server().contradiction() == std::nullopt);
    const designs::Server::Facts facts = server().facts();
    REFRACT_CHECK(facts.buffers == facts.free_buffers + facts.used_buffers);
    REFRACT_CHECK(facts.keys == model_.size());
    for (int i = 0; i < 8; ++i) REFRACT_CHECK(get(i) == value_of(i));
  }

 private:
  [[nodiscard]] PrismKvServer& server() { return dynamic_cast<PrismKvServer&>(store_.server()); }
  [[nodiscard]] prism::snic::FreeLists& lists() { return server().lists(); }
  [[nodiscard]] static std::string key_of(int number) { return "key" + std::to_string(number % 8); }
  // "-" where there is none, which no value is.
  [[nodiscard]] std::string value_of(int number) const {
    const auto known = model_.find(key_of(number));
    return known == model_.end() ? "-" : known->second;
  }
  [[nodiscard]] std::string get(int number) {
    const LoopbackStore::Read read = store_.get(key_of(number));
    if (read.code == Code::kNotFound) return "-";
    REFRACT_CHECK(read.code == Code::kOk);
    return read.value;
  }

  void put(int number, uint8_t bytes) {
    const std::string value(bytes % 61, static_cast<char>('a' + puts_++ % 26));
    const Code code = store_.put(key_of(number), value);
    REFRACT_CHECK(code == Code::kOk || code == Code::kNoSpace);
    if (code == Code::kOk) model_.insert_or_assign(key_of(number), value);
  }
  void erase(int number) {
    const Code code = store_.erase(key_of(number));
    const bool was_there = model_.contains(key_of(number));
    REFRACT_CHECK(code == (was_there ? Code::kOk : Code::kNotFound) || code == Code::kNoSpace);
    if (code == Code::kOk) model_.erase(key_of(number));
  }
  // The pointer to a buffer: those of the first list, of the second one, and so on.
  [[nodiscard]] uint64_t pointer_to(uint64_t number) {
    const uint64_t of_a_list = lists().list(0).count;
    const prism::snic::FreeLists::List& list = lists().list(number / of_a_list % root_.list_count);
    const Offset at = list.start.plus(number % of_a_list * list.buffer_bytes);
    return RemotePointer::at(server().region(), at.value).bits;
  }
  void report(std::vector<std::byte> body) {
    for (size_t at = 0; at + sizeof(uint64_t) <= body.size(); at += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, &body[at], sizeof(word));
      if (word >> 32 == 0) word = pointer_to(word);
      std::memcpy(&body[at], &word, sizeof(word));
    }
    const Code code = peer_.session
                          ->call_and_wait({.method = kMethodReport, .tail = body},
                                          store_.shard().refresh_now() + kSecond_ns)
                          .code;
    const bool is_whole =
        body.size() % sizeof(uint64_t) == 0 && body.size() <= kReportsMax * sizeof(uint64_t);
    REFRACT_CHECK(code == (is_whole ? Code::kOk : Code::kMalformed));
  }

  LoopbackStore store_{row(), kCapacity, nullptr, kSizes};
  LoopbackStore::Peer peer_ = store_.connect(row());
  Root root_{};
  std::map<std::string, std::string> model_;
  unsigned puts_ = 0;
};

}  // namespace
}  // namespace refract::kv::prism_kv

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace refract::kv::prism_kv;  // NOLINT(google-build-using-namespace)
  Steps steps(std::as_bytes(std::span(data, bytes)));
  Liars liars;
  for (size_t i = 0; i < kStepsMax && !steps.are_over(); ++i) liars.step(steps);
  liars.end();
  return 0;
}
