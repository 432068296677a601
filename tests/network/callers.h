// SPDX-License-Identifier: Apache-2.0
// Threads that write and read the same few keys through refract::Client, with every call and answer written
// down, so that the checker can judge the whole.
//
// A caller complains of each answer that the call cannot have, of a broken value, and of a call that did not
// end with its deadline. A write that came back as indeterminate is repeated with its identity, until its
// fate is known: the two count as one write.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "refract/base/prng.h"
#include "refract/base/testing/linearizability/history.h"
#include "refract/client/client.h"

namespace refract::test {

// After its deadline a call may take so much longer, on a machine that is busy with other things.
inline constexpr uint64_t kDeadlineSlack_ns = 20'000'000'000;

// What the callers of a test share.
class Scene {
 public:
  static constexpr size_t kKeys = 12;

  [[nodiscard]] static std::string key_of(size_t key) { return "shared-" + std::to_string(key); }
  [[nodiscard]] uint64_t new_number() noexcept { return numbers_.fetch_add(1) + 1; }

  // The call, and what it returned.
  [[nodiscard]] size_t begin(uint32_t caller, linearizability::Operation call, size_t key);
  void end(size_t index, linearizability::Recorder::Return result);
  [[nodiscard]] uint32_t add_caller(const std::string& name);
  void count(Code code);
  // How often a call was answered so, attempts that were repeated included.
  [[nodiscard]] uint64_t count_of(Code code) const;
  // The first complaint stays.
  void complain(const std::string& wrong);
  [[nodiscard]] std::string complaint() const;
  // "ok 1200, deadline_exceeded 7".
  [[nodiscard]] std::string codes() const;

  // Nothing, or what no order of the operations explains. `has_one_shard`: versions are compared across keys.
  // REQUIRES: all callers have stopped.
  [[nodiscard]] std::string contradiction(bool has_one_shard) const;
  [[nodiscard]] size_t operations() const;

 private:
  mutable std::mutex mutex_;  // Of what follows, but the number.
  linearizability::Recorder recorder_;
  std::string complaint_;
  std::array<uint64_t, 256> codes_{};
  std::atomic<uint64_t> numbers_ = 0;
};

struct CallerOptions {
  std::string name;
  std::string address;
  ClientOptions client = {};
  uint64_t seed = 0;
  // The deadline is so far away that each call must succeed.
  bool is_patient = false;
  uint64_t large_bytes = 150'000;  // Of one value in 25.
};

class Caller {
 public:
  // Connects, and begins to call.
  Caller(Scene& scene, CallerOptions options);
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;
  ~Caller() { stop(); }

  // Waits for the call that is under way.
  void stop();
  [[nodiscard]] uint64_t operations() const noexcept { return operations_.load(); }
  // Of these, those that were carried out, or refused by their condition.
  [[nodiscard]] uint64_t answered() const noexcept { return answered_.load(); }
  [[nodiscard]] uint64_t unanswered() const noexcept { return operations() - answered(); }
  [[nodiscard]] ClientCounters counters() const noexcept { return client_->counters(); }
  // Every key once. REQUIRES: it has stopped.
  void read_all();

 private:
  using Operation = linearizability::Operation;
  using Outcome = linearizability::Outcome;
  using Kind = linearizability::Kind;
  struct Write {
    size_t record = 0;
    size_t key = 0;
    std::string name;
    std::string value;
    PutOptions options;
  };

  void run();
  void step();
  void get(size_t key);
  void exists(size_t key);
  void put(size_t key);
  void erase(size_t key);
  void get_many();
  void put_many();

  [[nodiscard]] uint64_t draw_bytes();
  [[nodiscard]] Write begin_put(size_t key, const PutOptions& options);
  void end_get(size_t record, size_t key, const Result<Got>& got, const std::string* value);
  void end_write(const Write& write, Result<uint64_t> result, bool may_have_happened);
  // Repeated while it is not known whether it happened. `call` makes one attempt.
  template <typename Call>
  [[nodiscard]] Result<uint64_t> insist(const Call& call, bool& may_have_happened);
  template <typename Call>
  [[nodiscard]] auto timed(const Call& call, size_t messages = 1);
  void note(Code code);

  Scene& scene_;
  CallerOptions options_;
  std::unique_ptr<Client> client_;
  uint32_t number_;
  Prng prng_;
  std::array<uint64_t, Scene::kKeys> versions_{};  // Last seen.
  std::atomic<uint64_t> operations_ = 0;
  std::atomic<uint64_t> answered_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

// Waits until each of them had so many more answers. False: there is a complaint, or no progress.
[[nodiscard]] bool make_progress(const Scene& scene, const std::vector<std::unique_ptr<Caller>>& callers,
                                 uint64_t answers);

}  // namespace refract::test
