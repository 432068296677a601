// SPDX-License-Identifier: Apache-2.0
// Its place in the space is one buffer of 64 counters. A counter's value is its last word to be stored, so
// that a crash leaves the old value or the new one. The log has new values, not steps: the highest is the
// youngest, and a change that comes again changes nothing.
#include "tests/hosted/counter_store.h"

#include <cstring>
#include <deque>
#include <optional>

#include "refract/base/object_bytes.h"
#include "refract/memory/store_directory.h"

namespace refract::test {
namespace {

constexpr StoreName kStore = StoreName::of("counter");
constexpr uint64_t kCounters = 64;
constexpr uint64_t kBytes = kCounters * sizeof(CounterWords);

// Nothing: no counter has these bytes.
std::optional<CounterWords> words_of(std::span<const std::byte> bytes) {
  CounterWords words;
  if (bytes.size() != sizeof(words)) return std::nullopt;
  std::memcpy(&words, bytes.data(), sizeof(words));
  if (words.name.front() == '\0' || words.name.back() != '\0') return std::nullopt;
  return words;
}

class CounterStore final : public node::HostedStore, private rpc::Service {
 public:
  explicit CounterStore(const node::HostParts& parts) : parts_(parts) {}

  [[nodiscard]] Result<> mark_live(const storage::Record* last) override {
    if (last != nullptr) last_ = words_of(last->value);
    const std::optional<Offset> root = root_of_store(parts_.writer, kStore);
    if (!root) return {};
    const bool is_sound = parts_.heap.is_inside(*root, kBytes) && parts_.heap.mark_live(*root, kBytes);
    if (!is_sound) return fail(Code::kCorrupt);
    root_ = *root;
    return {};
  }
  [[nodiscard]] Result<> finish_recovery() override {
    const Code code = last_ ? raise(*last_) : Code::kOk;
    return code == Code::kOk ? Result<>() : fail(code);
  }
  [[nodiscard]] uint64_t entry_count() const noexcept override {
    uint64_t count = 0;
    while (root_ && count < kCounters && counter(count).value != 0) ++count;
    return count;
  }

  [[nodiscard]] Code replay(const storage::Record& change) override { return restore(change.value); }
  void snapshot(const TakePiece& take) const override {
    for (uint64_t index = 0; index < entry_count(); ++index) take(object_bytes(counter(index)));
  }
  [[nodiscard]] Code restore(std::span<const std::byte> piece) override {
    const std::optional<CounterWords> words = words_of(piece);
    return words ? raise(*words) : Code::kCorrupt;
  }
  void begin_logging() override { log_ = parts_.log; }
  size_t on_log_progress() noexcept override {
    const Code failure = log_->failure();
    size_t done = 0;
    for (; !waiting_.empty(); ++done, waiting_.pop_front()) {
      const Waiting& first = waiting_.front();
      const bool is_confirmed = first.position <= log_->confirmed();
      if (!is_confirmed && failure == Code::kOk) break;
      answer(first.to, is_confirmed ? Code::kOk : failure, first.value);
    }
    return done;
  }

  void serve(std::vector<node::HostedMethods>& methods) override { methods.push_back({kMethodAdd, this}); }
  void answer_through(rpc::Server* server) noexcept override { server_ = server; }
  void add_counters(const observe::AddCounter& add) const override {
    add("counter.counters", entry_count());
    add("counter.adds", adds_);
  }

 private:
  struct Waiting {
    rpc::Responder to;
    uint64_t position;  // Which the log must have confirmed.
    uint64_t value;
  };

  void handle(std::span<const rpc::IncomingCall> calls) noexcept override {
    for (const rpc::IncomingCall& call : calls) {
      const std::optional<CounterWords> words = words_of(call.payload);
      if (!words) {
        answer(call.from, Code::kMalformed);
      } else if (call.header.method == kMethodAdd) {
        add(call.from, *words);
      } else if (call.header.method == kMethodRead) {
        const std::optional<uint64_t> place = root_ ? place_of(*words) : std::nullopt;
        answer(call.from, Code::kOk, place ? counter(*place).value : 0);
      } else {
        answer(call.from, Code::kUnsupported);
      }
    }
  }
  void answer(const rpc::Responder& to, Code code, uint64_t value = 0) noexcept {
    server_->reply(to, code, object_bytes(value));
  }

  void add(const rpc::Responder& to, CounterWords counter_words) {
    const uint64_t record_bytes = sizeof(counter_words);
    const Code room = log_ == nullptr ? Code::kOk : log_->room_for(sizeof(char), record_bytes);
    if (const Code code = room == Code::kOk ? make_root() : room; code != Code::kOk) return answer(to, code);
    const std::optional<uint64_t> place = place_of(counter_words);
    if (!place) return answer(to, Code::kNoSpace);
    counter_words.value += counter(*place).value;
    if (log_ != nullptr) {
      log_->append_hosted({.store = kStore,
                           .stamp = parts_.heap.next_stamp(),
                           .key = object_bytes(counter_words.name.front()),
                           .value = object_bytes(counter_words)});
    }
    (void)raise(counter_words);  // There is a root, and a place.
    ++adds_;
    const bool is_confirmed = log_ == nullptr || log_->appended() <= log_->confirmed();
    if (is_confirmed) return answer(to, Code::kOk, counter_words.value);
    waiting_.push_back({to, log_->appended(), counter_words.value});
  }

  [[nodiscard]] CounterWords counter(uint64_t index) const noexcept {
    return parts_.writer.view<CounterWords>(root_.plus(index * sizeof(CounterWords)));
  }
  // The counter's place, or a free one. Nothing: there is none.
  [[nodiscard]] std::optional<uint64_t> place_of(const CounterWords& wanted) const noexcept {
    for (uint64_t index = 0; index < kCounters; ++index) {
      const CounterWords found = counter(index);
      if (found.value == 0 || found.name == wanted.name) return index;
    }
    return std::nullopt;
  }
  [[nodiscard]] Code make_root() {
    if (root_) return Code::kOk;
    const std::optional<Offset> root = parts_.heap.allocate(kBytes);
    if (!root) return Code::kNoSpace;
    parts_.writer.zero(*root, kBytes);
    const Result<> named = set_root_of_store(parts_.writer, kStore, *root);
    if (!named) parts_.heap.release(*root, kBytes);
    if (named) root_ = *root;
    return named.code();
  }
  // kNoSpace: nothing was changed.
  [[nodiscard]] Code raise(const CounterWords& to) {
    if (const Code code = make_root(); code != Code::kOk) return code;
    const std::optional<uint64_t> place = place_of(to);
    if (!place) return Code::kNoSpace;
    if (counter(*place).value >= to.value) return Code::kOk;
    const Offset at = root_.plus(*place * sizeof(CounterWords));
    parts_.writer.copy(at.plus(offsetof(CounterWords, name)), std::as_bytes(std::span(to.name)));
    parts_.writer.publish(at, to.value);
    return Code::kOk;
  }

  const node::HostParts parts_;
  Offset root_;                       // 0: there is none yet.
  std::optional<CounterWords> last_;  // Of the log, which the memory may lack.
  node::HostedLog* log_ = nullptr;
  rpc::Server* server_ = nullptr;
  std::deque<Waiting> waiting_;
  uint64_t adds_ = 0;
};

}  // namespace

std::unique_ptr<node::HostedStore> host_counter(const node::HostParts& parts) {
  return std::make_unique<CounterStore>(parts);
}

}  // namespace refract::test
