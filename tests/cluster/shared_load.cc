// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/shared_load.h"

#include <fmt/format.h>

#include <deque>
#include <optional>
#include <utility>

#include "tests/process/sealed.h"

#include "refract/base/clock.h"
#include "refract/base/prng.h"
#include "refract/base/units.h"

namespace refract::test {
namespace {

constexpr uint64_t kTimeout_ns = 3 * kSecond_ns;
constexpr size_t kHeldMax = 4;

std::string id_of(uint64_t which) {
  return fmt::format("object-{}", which);
}

bool is_no_answer(Code code) noexcept {
  return code == Code::kAway || code == Code::kUnavailable || code == Code::kDeadlineExceeded ||
         code == Code::kIndeterminate;
}

uint64_t now_ns() {
  return system_clock().now_ns();
}

}  // namespace

class SharedLoad::Thread {
 public:
  Thread(SharedLoad& load, uint64_t number) : load_(load), is_tcp_(number % 2 == 1), prng_(number + 1) {}

  void run() {
    while (!load_.is_over_.load()) {
      const size_t node = prng_.below(SharedNodes::kNodes);
      if (!load_.is_used_[node].load()) continue;
      step(node);
      load_.operations_.fetch_add(1);
    }
    while (!held_.empty()) let_go();
  }
  // Until this node has answered, and has dropped what it had missed. Nothing else runs.
  void settle(size_t node, const std::string& id) {
    const bool is_settled = becomes_true([&] {
      const Code code = get(node, id);
      return !is_no_answer(code) && !(code == Code::kOk && load_.history_.is_removed(last_found_));
    });
    if (!is_settled) load_.complain(fmt::format("{} is not settled on node {}", id, node));
  }
  void remove(size_t node, const std::string& id) {
    const auto target = load_.history_.begin_removal(id, now_ns());
    if (!target) return;
    Objects& objects = objects_of(node);
    const auto done = objects.remove(id, target->birth);
    if (done) {
      std::set<size_t> missed;
      for (const std::string& name : objects.missed()) missed.insert(static_cast<size_t>(name[0] - 'a'));
      load_.history_.removed(target->number, missed, now_ns());
      ++load_.counts_.removed;
      if (!missed.empty()) ++load_.counts_.missed;
    } else if (done.code() == Code::kNotFound || done.code() == Code::kVersionMismatch) {
      judge(load_.history_.not_there_to_remove(target->number));
    } else {
      no_answer("remove", node, id, done.code());
    }
  }

 private:
  struct Held {
    Object object;
    uint64_t number = 0;
  };

  [[nodiscard]] Objects& objects_of(size_t node) {
    auto& client = clients_[node];
    // A program reads on from the memory of a node that has died, until it notices.
    const uint64_t life = load_.lives_.at(node).load();
    if (std::exchange(lives_seen_[node], life) != life && client) {
      while (!held_.empty()) let_go();
      client.reset();
    }
    if (!client) client.emplace(load_.nodes_.open(node, is_tcp_, kTimeout_ns));
    return client->objects;
  }
  void step(size_t node) {
    const std::string id = id_of(prng_.below(kIds));
    const uint64_t dice = prng_.below(10);
    if (dice < 5) {
      (void)get(node, id);
    } else if (dice < 8) {
      put(node, id);
    } else {
      remove(node, id);
    }
    if (held_.size() > kHeldMax) let_go();
  }
  [[nodiscard]] uint64_t next_bytes() {
    const uint64_t dice = prng_.below(40);
    return kSealedBytesMin + prng_.below(dice == 0 ? 2 * kMiB : dice < 8 ? 100'000 : 4'000);
  }

  void put(size_t node, const std::string& id) {
    const uint64_t number = load_.history_.begin_put(id, node, now_ns());
    Objects& objects = objects_of(node);
    const auto birth = objects.put(id, sealed_value(id, number, next_bytes()));
    if (birth) {
      judge(load_.history_.sealed(number, *birth, now_ns()));
      ++load_.counts_.made;
    } else if (birth.code() == Code::kExists) {
      judge(load_.history_.refused(number, now_ns()));
      ++load_.counts_.refused;
    } else {
      if (birth.code() == Code::kAway) load_.history_.not_made(number, now_ns());
      no_answer("put", node, id, birth.code());
    }
  }
  Code get(size_t node, const std::string& id) {
    const uint64_t begun_ns = now_ns();
    auto got = objects_of(node).get(id, prng_.below(4) == 0 ? 20 : 0);
    if (!got && got.code() == Code::kNotFound) {
      ++load_.counts_.missing;
      judge(load_.history_.missing(id, begun_ns, now_ns()));
    } else if (!got) {
      no_answer("get", node, id, got.code());
    } else if (const auto number = number_of(*got); !number || got->id() != id) {
      load_.complain(fmt::format("{} is torn on node {}", id, node));
    } else {
      ++load_.counts_.found;
      last_found_ = *number;
      judge(load_.history_.found(id, {*number, got->birth()}, node, begun_ns, now_ns()));
      if (prng_.below(8) == 0) held_.push_back({std::move(*got), *number});
    }
    return got.code();
  }
  void let_go() {
    const Held held = std::move(held_.front());
    held_.pop_front();
    if (number_of(held.object) == held.number) return;
    load_.complain(fmt::format("{} #{} has changed while it was held", held.object.id(), held.number));
  }
  void no_answer(const char* what, size_t node, const std::string& id, Code code) {
    ++load_.counts_.away;
    if (is_no_answer(code)) return;
    load_.complain(fmt::format("{} of {} on node {}: {}; {}", what, id, node, text(code),
                               objects_of(node).trouble().to_string()));
  }
  void judge(const SharedHistory::Wrong& wrong) {
    if (wrong) load_.complain(*wrong);
  }

  SharedLoad& load_;
  const bool is_tcp_;
  Prng prng_;
  uint64_t last_found_ = 0;
  // Before what is held.
  std::array<std::optional<ObjectClient>, SharedNodes::kNodes> clients_;
  std::array<uint64_t, SharedNodes::kNodes> lives_seen_{};
  std::deque<Held> held_;
};

SharedLoad::SharedLoad(SharedNodes& nodes) : nodes_(nodes) {
  for (auto& is_used : is_used_) is_used.store(true);
}

void SharedLoad::start() {
  is_over_.store(false);
  ++runs_;
  for (int i = 0; i < kThreads; ++i) {
    threads_.emplace_back(
        [this, number = runs_ * kThreads + static_cast<uint64_t>(i)] { Thread(*this, number).run(); });
  }
}

void SharedLoad::stop() {
  is_over_.store(true);
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void SharedLoad::avoid(size_t node) {
  is_used_.at(node).store(false);
  history_.lose(node);
}

void SharedLoad::use_again(size_t node) {
  ++lives_.at(node);
  is_used_.at(node).store(true);
}

void SharedLoad::go_on(uint64_t operations) {
  const uint64_t goal = operations_.load() + operations;
  if (!becomes_true([&] { return operations_.load() >= goal || !trouble().empty(); })) {
    complain("the load does not go on");
  }
}

void SharedLoad::complain(const std::string& what) {
  const std::scoped_lock lock(mutex_);
  if (troubles_.size() < 20) troubles_.push_back(what);
}

std::string SharedLoad::trouble() const {
  const std::scoped_lock lock(mutex_);
  return fmt::format("{}", fmt::join(troubles_, "\n"));
}

std::string SharedLoad::counts_text() const {
  return fmt::format("{} made, {} refused, {} found, {} missing, {} removed, {} of them missed, {} away",
                     counts_.made.load(), counts_.refused.load(), counts_.found.load(),
                     counts_.missing.load(), counts_.removed.load(), counts_.missed.load(),
                     counts_.away.load());
}

void SharedLoad::judge_the_end(const std::vector<size_t>& nodes) {
  Thread judge(*this, 0);
  for (uint64_t which = 0; which < kIds; ++which) {
    for (const size_t node : nodes) judge.settle(node, id_of(which));
    judge.remove(nodes.front(), id_of(which));
    for (const size_t node : nodes) judge.settle(node, id_of(which));
  }
}

}  // namespace refract::test
