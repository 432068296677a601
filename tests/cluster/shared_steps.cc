// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/shared_steps.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "tests/process/load.h"
#include "tests/process/sealed.h"

#include "refract/base/units.h"

namespace refract::test {
namespace {

constexpr size_t kHolder = 0;
constexpr size_t kHome = 1;
constexpr size_t kReader = 2;
// Long enough to be met in the middle, as what is made and got takes some milliseconds.
constexpr uint64_t kBytes = 32 * kMiB;
constexpr uint64_t kNumber = 5;
constexpr uint64_t kCallTimeout_ns = 30 * kSecond_ns;
// Of the caller's process: a code behind it.
constexpr int kTold = 100;

// Of the shared ledger.
constexpr uint64_t kReached = 1;
constexpr uint64_t kReturned = 2;

[[nodiscard]] bool is_made(SharedStep step) {
  return step == SharedStep::kCreate || step == SharedStep::kSeal;
}
[[nodiscard]] size_t node_of(StepVictim victim) {
  return victim == StepVictim::kHolder ? kHolder : kHome;
}
[[nodiscard]] bool is_node(StepVictim victim) {
  return victim == StepVictim::kHolder || victim == StepVictim::kHome;
}

}  // namespace

std::string text_of(const StepTrouble& trouble) {
  static constexpr std::array<const char*, 4> kSteps{"create", "seal", "pull", "broadcast"};
  static constexpr std::array<const char*, 4> kVictims{"client", "home", "holder", "redis"};
  static constexpr std::array<const char*, 3> kBlows{"stopped", "killed", "killed with its memory"};
  return fmt::format("{}, {} {}", kSteps.at(static_cast<size_t>(trouble.step)),
                     kVictims.at(static_cast<size_t>(trouble.victim)),
                     kBlows.at(static_cast<size_t>(trouble.blow)));
}

// The process that calls, and what it says of it.
class SharedSteps::Caller {
 public:
  Caller(SharedNodes& nodes, SharedStep step, std::string id)
      : nodes_(nodes), step_(step), id_(std::move(id)), process_(Process::run([this] { return call(); })) {}

  [[nodiscard]] const std::string& id() const noexcept { return id_; }
  [[nodiscard]] Process& process() noexcept { return process_; }
  [[nodiscard]] bool has_returned() const { return state() == kReturned; }
  // The call is under way, or over.
  void wait_for_step(uint64_t pause_us) {
    std::optional<ObjectClient> reader;
    if (!is_made(step_)) reader.emplace(nodes_.open(kReader));
    EXPECT_TRUE(becomes_true([&] {
      if (has_returned() || !process_.is_running()) return true;
      if (!reader) return state() == kReached;
      const auto stat = reader->objects.stat();
      return stat && stat->creations > 0;
    }));
    if (step_ == SharedStep::kSeal) ::usleep(static_cast<useconds_t>(pause_us));
  }
  // Behind the blow.
  void go_on() { ledger_->stop.store(true); }
  // Nothing: it was killed.
  [[nodiscard]] std::optional<Code> wait() {
    exit_ = process_.wait();
    if (exit_ < kTold || exit_ >= 128) return std::nullopt;
    return static_cast<Code>(exit_ - kTold);
  }
  [[nodiscard]] int exit() const noexcept { return exit_; }
  // The client was told that what it asked for is done; of a broadcast, at node c.
  [[nodiscard]] bool was_told_done() const { return ledger_->clients[1].operations.load() != 0; }

 private:
  [[nodiscard]] uint64_t state() const { return ledger_->clients[0].operations.load(); }
  void reach(uint64_t state) { ledger_->clients[0].operations.store(state); }

  // In the process.
  int call() {
    ObjectClient opened =
        nodes_.open(is_made(step_) ? kHolder : kReader, step_ == SharedStep::kSeal, kCallTimeout_ns);
    const Code code = is_made(step_)               ? make(opened.objects)
                      : step_ == SharedStep::kPull ? pull(opened.objects)
                                                   : broadcast(opened.objects);
    reach(kReturned);
    return kTold + static_cast<int>(code);
  }
  [[nodiscard]] Code done(Code code) {
    ledger_->clients[1].operations.store(code == Code::kOk ? 1 : 0);
    return code;
  }
  [[nodiscard]] Code make(Objects& objects) {
    const std::string body = sealed_value(id_, kNumber, kBytes);
    auto made = objects.create(id_, kBytes);
    if (!made) return made.code();
    if (step_ == SharedStep::kCreate) {
      reach(kReached);
      if (!becomes_true([&] { return ledger_->stop.load(); })) return Code::kSystem;
    }
    std::memcpy(made->body().data(), body.data(), body.size());
    if (step_ == SharedStep::kSeal) reach(kReached);
    return done(made->seal().code());
  }
  [[nodiscard]] Code pull(Objects& objects) {
    const auto got = objects.get(id_);
    if (got && number_of(*got) != kNumber) return Code::kCorrupt;
    return done(got.code());
  }
  // What went wrong at any node.
  [[nodiscard]] Code broadcast(Objects& objects) {
    const auto told = objects.broadcast(id_, {}, kCallTimeout_ns / kMillisecond_ns);
    if (!told) return told.code();
    Code worst = Code::kOk;
    for (const BroadcastNode& one : told->nodes) {
      if (one.code != Code::kOk) worst = one.code;
      if (one.node == "c") (void)done(one.code);
    }
    return worst;
  }

  SharedNodes& nodes_;
  const SharedStep step_;
  const std::string id_;
  const SharedLedger ledger_;
  int exit_ = 0;
  Process process_;
};

std::string SharedSteps::run(const StepTrouble& trouble) {
  const std::string id = nodes_.id_at(kHome, fmt::format("step-{}", ++runs_));
  if (!is_made(trouble.step)) {
    ObjectClient maker = nodes_.open(kHolder);
    const auto made = put_sealed(maker.objects, id, kNumber, kBytes);
    if (!made) return fmt::format("it was not made: {}", maker.objects.trouble().to_string());
  }
  Caller caller(nodes_, trouble.step, id);
  caller.wait_for_step(prng_.below(15'000));
  hit(trouble, caller);
  std::string wrong = mend(trouble, caller);
  if (wrong.empty()) wrong = judge_answer(trouble, caller);
  if (wrong.empty()) wrong = judge_end(trouble, caller);
  return wrong;
}

void SharedSteps::hit(const StepTrouble& trouble, Caller& caller) {
  met_ += caller.has_returned() ? 0 : 1;
  const int number = trouble.blow == StepBlow::kStopped ? SIGSTOP : SIGKILL;
  if (trouble.victim == StepVictim::kClient) {
    caller.process().signal(number);
  } else if (trouble.victim == StepVictim::kRedis) {
    outside_.hit(trouble.blow);
  } else if (trouble.blow == StepBlow::kNodeKilled) {
    nodes_.node(node_of(trouble.victim)).kill_everything();
  } else {
    hit_server_ = nodes_.node(node_of(trouble.victim)).server();
    send_signal(hit_server_, number);
  }
  caller.go_on();
}

// What was hit is back, and all nodes agree.
std::string SharedSteps::mend(const StepTrouble& trouble, Caller& caller) {
  const size_t index = node_of(trouble.victim);
  if (trouble.blow == StepBlow::kStopped) sleep_ms(1'000);
  if (trouble.victim == StepVictim::kRedis) {
    outside_.mend(trouble.blow);
  } else if (trouble.blow == StepBlow::kStopped) {
    is_node(trouble.victim) ? send_signal(hit_server_, SIGCONT) : caller.process().signal(SIGCONT);
  } else if (trouble.blow == StepBlow::kNodeKilled) {
    nodes_.set().start_again(index);
    if (!nodes_.node(index).is_up()) return nodes_.node(index).errors();
  } else if (is_node(trouble.victim) && nodes_.node(index).next_server(hit_server_) <= 0) {
    return "no other server came: " + nodes_.node(index).errors();
  }
  return {};
}

std::string SharedSteps::judge_answer(const StepTrouble& trouble, Caller& caller) {
  const std::optional<Code> told = caller.wait();
  told_ += fmt::format("\n{}: {}", text_of(trouble), told ? text(*told) : "no answer");
  const bool is_client_killed = trouble.victim == StepVictim::kClient && trouble.blow == StepBlow::kKilled;
  if (!told) return is_client_killed ? "" : fmt::format("the client ended with {}", caller.exit());
  if (trouble.blow == StepBlow::kStopped && *told == Code::kOk) ++unharmed_;
  const auto is_one_of = [&](std::initializer_list<Code> codes) {
    return std::ranges::find(codes, *told) != codes.end();
  };
  if (is_one_of({Code::kOk, Code::kAway, Code::kUnavailable, Code::kDeadlineExceeded})) return {};
  if (is_made(trouble.step) && *told == Code::kIndeterminate) return {};
  const bool is_lost = trouble.victim == StepVictim::kHolder && trouble.blow == StepBlow::kNodeKilled;
  if (is_lost && *told == Code::kNotFound) return {};
  return fmt::format("the client was told {}", text(*told));
}

// kCorrupt: it has other bytes.
Code SharedSteps::said_by(size_t node, const std::string& id) {
  ObjectClient reader = nodes_.open(node);
  Code code = Code::kAway;
  (void)becomes_true([&] {
    const auto got = reader.objects.get(id);
    code = got && number_of(*got) != kNumber ? Code::kCorrupt : got.code();
    return code == Code::kOk || code == Code::kNotFound || code == Code::kCorrupt;
  });
  return code;
}

std::string SharedSteps::judge_end(const StepTrouble& trouble, const Caller& caller) {
  const std::string trouble_to_agree = nodes_.trouble_to_agree();
  if (!trouble_to_agree.empty()) return trouble_to_agree;
  const std::string making = nodes_.left_over([](const ObjectStat& stat) { return stat.creations == 0; });
  if (!making.empty()) return "a creation is left: " + making;
  std::array<Code, SharedNodes::kNodes> codes{};
  for (size_t i = 0; i < codes.size(); ++i) codes.at(i) = said_by(i, caller.id());
  if (codes[0] != codes[1] || codes[1] != codes[2]) {
    return fmt::format("the nodes say {}, {} and {}", text(codes[0]), text(codes[1]), text(codes[2]));
  }
  if (codes[0] != Code::kOk && codes[0] != Code::kNotFound) return fmt::format("all say {}", text(codes[0]));
  const bool is_there = codes[0] == Code::kOk;
  const bool is_client_killed = trouble.victim == StepVictim::kClient && trouble.blow == StepBlow::kKilled;
  // A memory that is lost takes along what no other node was told to have.
  const bool is_lost = trouble.victim == StepVictim::kHolder && trouble.blow == StepBlow::kNodeKilled;
  const bool must_be_there = is_lost ? caller.was_told_done() && !is_made(trouble.step)
                                     : caller.was_told_done() || !is_made(trouble.step);
  told_ += is_there ? ", there" : ", gone";
  if (must_be_there && !is_there) return "the object is lost";
  if (is_client_killed && trouble.step == SharedStep::kCreate && is_there) return "it was never sealed";
  if (is_there) {
    ObjectClient remover = nodes_.open(kReader);
    if (!remover.objects.remove(caller.id())) return "no remove: " + remover.objects.trouble().to_string();
  }
  return nodes_.left_over();
}

}  // namespace refract::test
