// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/tcp/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <memory>
#include <utility>

#include "refract/base/units.h"
#include "refract/fabric/tcp/tuning.h"

namespace refract::fabric::tcp {
namespace {

constexpr const char* kAddressForm = "write HOST:PORT, or [ADDRESS]:PORT for IPv6";

template <typename T>
void set(int fd, int level, int option, T value) noexcept {
  (void)::setsockopt(fd, level, option, &value, sizeof(value));
}

// Of one of the kernel's settings; 0: it does not say.
uint64_t last_number_in(const char* path) noexcept {
  const Descriptor file(::open(path, O_RDONLY | O_CLOEXEC));
  std::array<char, 128> text{};
  if (!file || ::read(file.get(), text.data(), text.size() - 1) <= 0) return 0;
  uint64_t last = 0;
  for (const char* at = text.data(); *at != 0;) {
    const auto [end, error] = std::from_chars(at, text.data() + text.size() - 1, last);
    at = error == std::errc() ? end : at + 1;
  }
  return last;
}

const sockaddr_in& as_v4(const SocketAddress& address) noexcept {
  return *reinterpret_cast<const sockaddr_in*>(&address.storage);
}
const sockaddr_in6& as_v6(const SocketAddress& address) noexcept {
  return *reinterpret_cast<const sockaddr_in6*>(&address.storage);
}

bool is_v4(const std::string& host) noexcept {
  in_addr parsed{};
  return ::inet_pton(AF_INET, host.c_str(), &parsed) == 1;
}

// What stands behind a percent sign names the interface.
bool is_v6(const std::string& host) noexcept {
  in6_addr parsed{};
  return ::inet_pton(AF_INET6, host.substr(0, host.find('%')).c_str(), &parsed) == 1;
}

// Whether the resolver would take it for a number, of which it knows unexpected forms: 1.2.3 is 1.2.0.3.
bool ends_in_number(std::string_view host) noexcept {
  std::string_view last = host.substr(host.rfind('.') + 1);
  const char* digits = "0123456789";
  if (last.starts_with("0x") || last.starts_with("0X")) {
    last.remove_prefix(2);
    digits = "0123456789abcdefABCDEF";
  }
  return last.find_first_not_of(digits) == std::string_view::npos;
}

}  // namespace

uint16_t SocketAddress::port() const noexcept {
  if (storage.ss_family == AF_INET) return ntohs(as_v4(*this).sin_port);
  return storage.ss_family == AF_INET6 ? ntohs(as_v6(*this).sin6_port) : uint16_t{0};
}

bool SocketAddress::is_loopback() const noexcept {
  if (storage.ss_family == AF_INET) return ntohl(as_v4(*this).sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  if (storage.ss_family != AF_INET6) return false;
  const in6_addr& v6 = as_v6(*this).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == IN_LOOPBACKNET);
}

std::string SocketAddress::text() const {
  std::array<char, INET6_ADDRSTRLEN> name{};
  if (storage.ss_family == AF_INET) {
    if (::inet_ntop(AF_INET, &as_v4(*this).sin_addr, name.data(), name.size()) == nullptr) return {};
    return fmt::format("{}:{}", name.data(), port());
  }
  if (storage.ss_family != AF_INET6) return {};
  if (::inet_ntop(AF_INET6, &as_v6(*this).sin6_addr, name.data(), name.size()) == nullptr) return {};
  return fmt::format("[{}]:{}", name.data(), port());
}

Reported<HostAndPort> split_address(std::string_view address) {
  const auto wrong = [address](std::string_view why) {
    return report(Code::kInvalidArgument, fmt::format("'{}' is no TCP address: {}", address, why),
                  kAddressForm);
  };
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return wrong("it names no port");
  std::string_view host = address.substr(0, colon);
  const std::string_view port = address.substr(colon + 1);
  unsigned number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc() || end != port.data() + port.size() || number > UINT16_MAX) {
    return wrong("the port is no number from 0 to 65535");
  }
  const bool has_brackets = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (has_brackets) host = host.substr(1, host.size() - 2);
  if (host.empty()) return wrong("it names no host");
  HostAndPort parts{std::string(host), std::string(port)};
  if (has_brackets) {
    if (!is_v6(parts.host)) return wrong(fmt::format("'{}' stands in brackets and is no IPv6 address", host));
  } else if (host.find(':') != std::string_view::npos) {
    return wrong("an IPv6 address stands in brackets");
  } else if (ends_in_number(host) && !is_v4(parts.host)) {
    return wrong(fmt::format("'{}' is no IPv4 address, which has four numbers from 0 to 255", host));
  }
  return parts;
}

Reported<std::vector<SocketAddress>> resolve(const HostAndPort& place, bool numbers_only) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (numbers_only ? AI_NUMERICHOST : 0);
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(place.host.c_str(), place.port.c_str(), &hints, &found);
  if (error != 0) {
    return report(
        numbers_only ? Code::kInvalidArgument : Code::kUnavailable,
        fmt::format("cannot find host '{}': {}", place.host, ::gai_strerror(error)),
        numbers_only ? "write its address in numbers" : "check the name, or write its address in numbers");
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* row = found; row != nullptr; row = row->ai_next) {
    SocketAddress& address = addresses.emplace_back();
    std::memcpy(&address.storage, row->ai_addr, row->ai_addrlen);
    address.bytes = row->ai_addrlen;
  }
  return addresses;
}

SocketAddress local_address(int fd) noexcept {
  SocketAddress address;
  address.bytes = sizeof(address.storage);
  if (::getsockname(fd, address.get(), &address.bytes) != 0) return {};
  return address;
}

SocketAddress peer_address(int fd) noexcept {
  SocketAddress address;
  address.bytes = sizeof(address.storage);
  if (::getpeername(fd, address.get(), &address.bytes) != 0) return {};
  return address;
}

void tune(int fd) noexcept {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveIdle_s);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, kKeepAliveInterval_s);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, kKeepAliveProbes);
  set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeout_ms);
}

// The kernel grows a send buffer to a bound that is often below bandwidth x delay. A process that may not
// force a larger one asks for what the system allows to all, unless that is less than what the kernel would
// grow to: asking ends the growth. The receive buffer's bound is larger by default, so it is left alone.
void enlarge_buffers(int fd) noexcept {
  if (::setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &kLargeSocketBuffer, sizeof(kLargeSocketBuffer)) == 0) {
    return;
  }
  // The kernel doubles what it is asked for.
  const uint64_t allowed = 2 * last_number_in("/proc/sys/net/core/wmem_max");
  if (allowed > last_number_in("/proc/sys/net/ipv4/tcp_wmem")) {
    set(fd, SOL_SOCKET, SO_SNDBUF, kLargeSocketBuffer);
  }
}

uint32_t round_trip_us(int fd) noexcept {
  tcp_info info{};
  socklen_t bytes = sizeof(info);
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return 0;
  return info.tcpi_rtt;
}

}  // namespace refract::fabric::tcp
