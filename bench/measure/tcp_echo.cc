// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/tcp_echo.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "bench/measure/tcp_socket.h"

namespace refract::bench {
namespace {

struct EchoMessage {
  uint64_t words[8] = {};  // The first is the mode that the other end is in from now on.
};

bool send_message(int socket, const EchoMessage& message) {
  return ::send(socket, &message, sizeof(message), MSG_NOSIGNAL) == sizeof(message);
}

// So small a message arrives whole, or the bench is wrong about its machine and the row says so.
bool receive_message(int socket, TcpEcho::Mode mode, EchoMessage& message) {
  if (mode == TcpEcho::Mode::kBlocking)
    return ::recv(socket, &message, sizeof(message), 0) == sizeof(message);
  while (true) {
    const ssize_t got = ::recv(socket, &message, sizeof(message), MSG_DONTWAIT);
    if (got == sizeof(message)) return true;
    if (got >= 0 || errno != EAGAIN) return false;
    _mm_pause();
  }
}

[[noreturn]] void echo_for_ever(const Descriptor& listener) {
  const Descriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  send_at_once(socket);
  auto mode = TcpEcho::Mode::kBlocking;
  EchoMessage message;
  while (receive_message(socket.get(), mode, message) && send_message(socket.get(), message)) {
    mode = TcpEcho::Mode{message.words[0]};
  }
  ::_exit(0);
}

}  // namespace

Reported<std::unique_ptr<TcpEcho>> TcpEcho::start() {
  const Reported<Descriptor> listener = listen_on("127.0.0.1");
  if (!listener) return report(listener.error());
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return report(Code::kSystem, "cannot fork: " + errno_text(errno));
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(0);
    pin_to_core(1);
    echo_for_ever(*listener);
  }
  Reported<Descriptor> socket = connect_tcp("127.0.0.1", port_of(*listener));
  if (!socket) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return report(socket.error());
  }
  return std::unique_ptr<TcpEcho>(new TcpEcho(std::move(*socket), pid));
}

TcpEcho::~TcpEcho() {
  ::shutdown(socket_.get(), SHUT_RDWR);
  ::waitpid(pid_, nullptr, 0);
}

uint64_t TcpEcho::round_trip(Mode mode, Mode next) {
  EchoMessage message;
  message.words[0] = std::to_underlying(next);
  const uint64_t before = ticks_before();
  const bool done = send_message(socket_.get(), message) && receive_message(socket_.get(), mode, message);
  const uint64_t ticks = ticks_after() - before;
  return done ? ticks : 0;
}

bool TcpEcho::ping_pong(Mode mode, size_t count, Samples& samples) {
  const size_t warm_up = count / 10 + 1;
  samples.clear();
  for (size_t i = 0; i < warm_up + count; ++i) {
    const uint64_t ticks = round_trip(mode, mode);
    if (ticks == 0) return false;
    if (i >= warm_up) samples.record(ticks);
  }
  return round_trip(mode, Mode::kBlocking) != 0;
}

uint64_t TcpEcho::wake_up() {
  return round_trip(Mode::kBlocking, Mode::kBlocking);
}

}  // namespace refract::bench
