// SPDX-License-Identifier: Apache-2.0
#include "bench/fabric/fabric_server.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "bench/fabric/fabric_orders.h"
#include "bench/measure/measure.h"

#include "refract/memory/remote_visible.h"

namespace refract::bench {
namespace {

using fabric::Channel;
using fabric::Completion;
using fabric::Op;
using fabric::Request;

// Until newcomers are looked for again. A client that was told to rest for wakes the domain itself.
constexpr int kNapAlone_ms = 2;
constexpr int kNapResting_ms = 100;
constexpr uint32_t kPollsBetweenDoors = 65'536;

class FabricServer {
 public:
  explicit FabricServer(ServingEnd& end) noexcept : end_(end), domain_(end.domain()) {}

  void serve(const std::atomic<bool>* stop) {
    while (stop == nullptr || !stop->load(std::memory_order_relaxed)) {
      if (client_ == nullptr || is_resting_) {
        sleep();
      } else if (++polls_ % kPollsBetweenDoors == 0) {
        end_.let_in();
      }
      turn();
    }
  }

 private:
  void turn() noexcept {
    const size_t count = domain_.poll(completions_);
    for (const Completion& completion : std::span(completions_).first(count)) take(completion);
    if (client_ != nullptr) pay();
    domain_.flush();
  }

  void sleep() {
    end_.let_in();
    if (domain_.prepare_sleep()) {
      std::vector<pollfd> watched;
      for (const int fd : domain_.wake_descriptors())
        watched.push_back({.fd = fd, .events = POLLIN, .revents = 0});
      static_cast<void>(
          ::poll(watched.data(), watched.size(), client_ == nullptr ? kNapAlone_ms : kNapResting_ms));
    }
    domain_.woke();
  }

  void take(const Completion& completion) noexcept {
    switch (completion.op) {
      case Op::kOpened:
        if (completion.code != Code::kOk) return;
        if (client_ != nullptr) return completion.channel->close();
        client_ = completion.channel;
        rest();
        is_resting_ = false;
        return;
      case Op::kClosed:
        if (completion.channel == client_ && completion.value == 0) client_ = nullptr;
        return;
      case Op::kReceive:
        if (completion.channel != client_) return;
        is_resting_ = false;
        if (const auto order = order_in(completion.bytes)) return obey(*order);
        ++counted_;
        if (order_.command == Command::kEcho) ++owed_;
        return;
      default:
        return;
    }
  }

  void rest() noexcept {
    order_ = {.command = Command::kRest};
    owed_ = 0;
    answers_ = 0;
  }

  void obey(const FabricOrder& order) noexcept {
    answer_ = {.value = counted_, .key = end_.key().bits};
    ++answers_;
    if (order.command == Command::kFacts || order.command == Command::kTell) return;
    order_ = order;
    // The client that ordered is not trusted, and the area has an end.
    order_.bytes = std::min<uint64_t>(order.bytes, kFabricBytesMax) & ~uint64_t{7};
    if (order_.bytes < sizeof(uint64_t)) order_.bytes = sizeof(uint64_t);
    counted_ = 0;
    owed_ = 0;
    is_resting_ = order.command == Command::kRest;
  }

  // What is due goes out as far as there is room.
  void pay() noexcept {
    std::byte* const local = end_.memory() + FabricLayout::kLocal;
    while (answers_ > 0) {
      const Request request{
          .local = {reinterpret_cast<std::byte*>(&answer_), sizeof(answer_)}, .tail = {}, .op = Op::kSend};
      if (client_->post({&request, 1}) == 0) return;
      --answers_;
    }
    while (owed_ > 0) {
      const Request request{.local = {local, order_.bytes}, .tail = {}, .op = Op::kSend};
      if (client_->post({&request, 1}) == 0) return;
      --owed_;
    }
    if (order_.command == Command::kWriteBack) write_back(local);
  }

  void write_back(std::byte* local) noexcept {
    const uint64_t last = order_.bytes - sizeof(uint64_t);
    if (observe_u64(end_.memory() + FabricLayout::kWritten + last) != order_.first) return;
    std::memcpy(local + last, &order_.first, sizeof(order_.first));
    const Request request{.local = {local, order_.bytes},
                          .remote = {.address = {order_.address}, .key = {order_.key}},
                          .op = Op::kWrite};
    if (client_->post({&request, 1}) == 1) ++order_.first;
  }

  ServingEnd& end_;
  fabric::Domain& domain_;
  std::array<Completion, 64> completions_;
  Channel* client_ = nullptr;
  FabricOrder order_{.command = Command::kRest};
  FabricAnswer answer_;
  uint64_t answers_ = 0;  // Due.
  uint64_t owed_ = 0;     // Echoes that are due.
  uint64_t counted_ = 0;
  uint32_t polls_ = 0;
  bool is_resting_ = false;
};

}  // namespace

Reported<> serve_fabric(const FabricServerOptions& options) {
  if (options.core >= 0) pin_to_core(static_cast<size_t>(options.core));
  const Reported<std::unique_ptr<ServingEnd>> end = options.row->serve(options.address);
  if (!end) return report(end.error());
  FabricServer server(**end);
  if (options.on_ready) options.on_ready((*end)->address());
  server.serve(options.stop);
  return {};
}

}  // namespace refract::bench
