// SPDX-License-Identifier: Apache-2.0
// What kv_bench.py measures Python beside: gets and puts of 64 bytes by the C++ client, one at a time; and
// the floor of all that asks by a Unix socket, two threads that pass 64 bytes to and fro and never sleep.
//
// own_calls SOCKET CALLS: prints the nanoseconds of a get, of a put, and there and back on the socket.
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "refract/base/clock.h"
#include "refract/client/client.h"

namespace {

using refract::Client;

// Of a call in the quickest of some batches, since others use the machine, too. -1: one failed.
template <typename Call>
double ns_of(long calls, Call&& call) {
  constexpr int kBatches = 20;
  double best = -1;
  for (int batch = 0; batch < kBatches; ++batch) {
    const uint64_t begun_ns = refract::system_clock().now_ns();
    for (long i = 0; i < calls / kBatches; ++i) {
      if (!call()) return -1;
    }
    const auto ns = static_cast<double>(refract::system_clock().now_ns() - begun_ns);
    const double of_one = ns / static_cast<double>(calls / kBatches);
    if (best < 0 || of_one < best) best = of_one;
  }
  return best;
}

using Message = std::array<char, 64>;

bool has_passed(int from, int to, Message& message) {
  ssize_t got = 0;
  while ((got = ::recv(from, message.data(), message.size(), MSG_DONTWAIT)) < 0) {
  }
  return got > 0 && ::send(to, message.data(), message.size(), MSG_NOSIGNAL) > 0;
}

double socket_ns(long turns) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0) return -1;
  std::thread other([end = ends[1]] {
    Message message{};
    while (has_passed(end, end, message)) {
    }
  });
  Message message{};
  (void)::send(ends[0], message.data(), message.size(), 0);
  const double ns = ns_of(turns, [&] { return has_passed(ends[0], ends[0], message); });
  (void)::shutdown(ends[0], SHUT_RDWR);
  other.join();
  for (const int end : ends) ::close(end);
  return ns;
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) return 2;
  const long calls = std::strtol(words[2], nullptr, 10);
  auto client = Client::connect(words[1]);
  if (!client) {
    std::fprintf(stderr, "%s\n", client.error().to_string().c_str());
    return 1;
  }
  const std::string value(64, 'v');
  if (!client->put("key", value)) return 1;
  std::string found;
  const double get_ns = ns_of(calls, [&] { return client->get("key", found).has_value(); });
  const double put_ns = ns_of(calls / 10, [&] { return client->put("key", value).has_value(); });
  std::printf("%.1f %.1f %.1f\n", get_ns, put_ns, socket_ns(calls / 10));
  return 0;
}
