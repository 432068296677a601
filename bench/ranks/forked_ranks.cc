// SPDX-License-Identifier: Apache-2.0
// Ranks that are forks: a socket joins each to rank 0.
#include <fmt/core.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "bench/measure/beside.h"
#include "bench/ranks/ranks.h"

#include "refract/memory/host/descriptor.h"

namespace refract::bench {
namespace {

std::unexpected<Report> lost() {
  return report(Code::kUnavailable, "another rank has ended");
}

bool write_all(const Descriptor& socket, const void* data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t one =
        ::send(socket.get(), static_cast<const std::byte*>(data) + done, bytes - done, MSG_NOSIGNAL);
    if (one < 0 && errno == EINTR) continue;
    if (one <= 0) return false;
    done += static_cast<size_t>(one);
  }
  return true;
}

bool read_all(const Descriptor& socket, void* data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t one = ::recv(socket.get(), static_cast<std::byte*>(data) + done, bytes - done, MSG_WAITALL);
    if (one < 0 && errno == EINTR) continue;
    if (one <= 0) return false;
    done += static_cast<size_t>(one);
  }
  return true;
}

bool write_text(const Descriptor& socket, const std::string& text) {
  const uint64_t bytes = text.size();
  return write_all(socket, &bytes, sizeof(bytes)) && write_all(socket, text.data(), text.size());
}

bool read_text(const Descriptor& socket, std::string& text) {
  constexpr uint64_t kTextMax = 1 << 20;
  uint64_t bytes = 0;
  if (!read_all(socket, &bytes, sizeof(bytes)) || bytes > kTextMax) return false;
  text.resize(bytes);
  return read_all(socket, text.data(), text.size());
}

class ForkedRanks final : public Ranks {
 public:
  ForkedRanks(size_t index, size_t count) : index_(index), count_(count) {}
  // What the others wait for does not come any more, so they end.
  ~ForkedRanks() override { give_up(); }

  [[nodiscard]] size_t index() const noexcept override { return index_; }
  [[nodiscard]] size_t count() const noexcept override { return count_; }
  [[nodiscard]] Reported<std::vector<std::string>> gather(const std::string& mine) override {
    std::vector<std::string> all(count_);
    all[index_] = mine;
    if (index_ != 0 && !write_text(sockets_[0], mine)) return lost();
    for (size_t i = 0; i < sockets_.size() && index_ == 0; ++i) {
      if (!read_text(sockets_[i], all[i + 1])) return lost();
    }
    for (const Descriptor& socket : sockets_) {
      for (std::string& text : all) {
        const bool is_done = index_ == 0 ? write_text(socket, text) : read_text(socket, text);
        if (!is_done) return lost();
      }
    }
    return all;
  }
  [[nodiscard]] Reported<> tell(size_t rank, uint64_t number) override {
    if (!write_all(sockets_[rank - 1], &number, sizeof(number))) return lost();
    return {};
  }
  [[nodiscard]] Reported<uint64_t> hear() override {
    uint64_t number = 0;
    if (!read_all(sockets_[0], &number, sizeof(number))) return lost();
    return number;
  }
  [[nodiscard]] bool has_messages() const noexcept override { return false; }
  [[nodiscard]] Reported<> send(size_t /*to*/, std::span<const std::byte> /*bytes*/) override {
    return report(Code::kUnsupported, "forks have no messages of MPI");
  }
  [[nodiscard]] Reported<> receive(size_t /*from*/, std::span<std::byte> /*bytes*/) override {
    return report(Code::kUnsupported, "forks have no messages of MPI");
  }
  [[nodiscard]] Reported<> broadcast(std::span<std::byte> /*bytes*/) override {
    return report(Code::kUnsupported, "forks have no messages of MPI");
  }
  void give_up() noexcept override {
    sockets_.clear();
    for (test::Process& process : processes_) (void)process.wait();
    processes_.clear();
  }

  void join(Descriptor socket) { sockets_.push_back(std::move(socket)); }
  void keep(test::Process process) { processes_.push_back(std::move(process)); }
  // In a fork: the ends that rank 0 has.
  void drop_sockets() noexcept { sockets_.clear(); }

 private:
  size_t index_;
  size_t count_;
  std::vector<Descriptor> sockets_;  // Of rank 0: to 1 and so on. Of another: to rank 0.
  std::vector<test::Process> processes_;
};

}  // namespace

Reported<std::unique_ptr<Ranks>> fork_ranks(size_t count, const std::function<int(Ranks&)>& body) {
  auto first = std::make_unique<ForkedRanks>(0, count);
  for (size_t i = 1; i < count; ++i) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
      return report(Code::kSystem, fmt::format("no pair of sockets: {}", errno_text(errno)));
    Descriptor ours(ends[0]);
    Descriptor theirs(ends[1]);
    first->keep(test::Process::run([&]() -> int {
      ours = {};
      first->drop_sockets();
      ForkedRanks rank(i, count);
      rank.join(std::move(theirs));
      return body(rank);
    }));
    first->join(std::move(ours));
  }
  return first;
}

}  // namespace refract::bench
