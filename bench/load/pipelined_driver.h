// SPDX-License-Identifier: Apache-2.0
// What the clients of all servers share that answer over TCP in the order in which they were asked: requests
// are pipelined, one system call takes out all of a turn, values are received straight into their place, and
// it polls or blocks as it is told. Derived classes know the protocol. So no peer is measured with a better
// client than another.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/load/store_driver.h"

#include "refract/memory/host/descriptor.h"

namespace refract::bench {

class PipelinedDriver : public StoreDriver {
 public:
  PipelinedDriver(const PipelinedDriver&) = delete;
  PipelinedDriver& operator=(const PipelinedDriver&) = delete;
  ~PipelinedDriver() override = default;

  [[nodiscard]] Reported<> run(Workload& workload) final;
  // Commands, whether or not they shared a segment.
  [[nodiscard]] uint64_t requests_sent() const noexcept final { return asked_; }
  // Entries `first` to `end`, each once.
  [[nodiscard]] Reported<> fill(uint64_t first, uint64_t end);

 protected:
  // An operation under way.
  struct Slot {
    Operation operation;
    std::vector<std::byte> value;  // To be put.
    uint32_t phase = 0;            // Of an operation with several requests, one after the other.
    std::string keys;              // That a scan has found.
  };
  enum class Step : uint8_t {
    kNone,    // The answer has not come as a whole.
    kDone,    // It has, and ended its operation with `code`.
    kAsked,   // It has, and the operation's next request was appended.
    kBroken,  // It makes no sense, or is a refusal: `what` says which.
  };
  struct Answer {
    Step step = Step::kNone;
    Code code = Code::kOk;
    std::string what = {};
  };

  // `server` is its name in sentences.
  PipelinedDriver(std::string_view server, Descriptor socket, const DriverOptions& options,
                  const Contents& contents);

  // Appends the request that the operation of the slot begins with.
  virtual void ask(Slot& slot) = 0;
  // Takes the next answer apart, which is that to the oldest request, of `slot`. Null: none was asked for.
  [[nodiscard]] virtual Answer take_answer(Slot* slot) = 0;
  // Where bytes from the socket go, and how many came. Called when take_answer has said kNone.
  [[nodiscard]] virtual std::span<iovec> room() noexcept = 0;
  virtual void received(size_t bytes) noexcept = 0;

  // One operation, alone.
  [[nodiscard]] Reported<> perform(const Operation& operation);
  void append_text(std::string_view text);
  // From where it lies if that is cheaper than copying.
  void append_value(const Slot& slot);
  [[nodiscard]] const Contents& contents() const noexcept { return contents_; }
  // Where values are received.
  [[nodiscard]] std::span<std::byte> target() noexcept { return target_; }
  // Whether the target holds the value of that entry, which is checked once.
  [[nodiscard]] bool is_value_of(uint64_t index, uint64_t bytes) noexcept {
    return bytes == contents_.value_bytes() && contents_.take_value(index, target_.data());
  }

 private:
  // What goes out: bytes of commands_, or a large value that lies elsewhere.
  struct Piece {
    const std::byte* large = nullptr;
    size_t bytes = 0;
  };

  [[nodiscard]] bool take_batch(Workload& workload);
  void begin(const Operation& operation);
  [[nodiscard]] Reported<> send();
  void sent(size_t bytes);
  [[nodiscard]] Reported<bool> receive();
  [[nodiscard]] Reported<> wait_for_socket();
  [[nodiscard]] Reported<> take_answers(Workload* workload);
  // What is under way continues by a turn; false: nothing has come.
  [[nodiscard]] Reported<bool> turn(Workload* workload);
  [[nodiscard]] bool is_idle() const noexcept { return free_.size() == slots_.size(); }
  [[nodiscard]] std::unexpected<Report> lost(int error) const;
  [[nodiscard]] bool has_unsent() const noexcept { return first_piece_ < pieces_.size(); }

  std::string_view server_;
  Descriptor socket_;
  DriverOptions options_;
  Contents contents_;
  bool values_are_large_;
  std::vector<std::byte> target_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  std::vector<uint32_t> waiting_;  // A ring: answers come in the order of the requests, one of each slot.
  std::vector<Operation> batch_;   // Taken, but not all due yet.
  bool ended_ = false;
  uint64_t asked_ = 0;
  uint64_t answered_ = 0;
  std::string commands_;
  size_t commands_sent_ = 0;
  std::vector<Piece> pieces_;
  size_t first_piece_ = 0;
  std::vector<iovec> vectors_;
  uint64_t idle_since_ns_ = 0;
  uint64_t spin_ns_ = 0;
};

}  // namespace refract::bench
