// SPDX-License-Identifier: Apache-2.0
// A holder as Plasma's manager was one: a socket that blocks, written and read in pieces of 4 KiB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <thread>

#include "refract/base/report.h"
#include "refract/memory/host/descriptor.h"

namespace refract::bench {

inline constexpr size_t kSocketPieceBytes = 4096;

// Serves one puller, by a thread of its own, until that has gone.
class PieceHolder {
 public:
  PieceHolder() = default;
  PieceHolder(const PieceHolder&) = delete;
  PieceHolder& operator=(const PieceHolder&) = delete;
  ~PieceHolder();

  // Gives the first bytes of `bytes`, which outlive it. Its port.
  [[nodiscard]] Reported<uint16_t> start(const std::string& address, std::span<const std::byte> bytes);

 private:
  void serve() const;

  Descriptor listening_;
  std::span<const std::byte> bytes_;
  std::thread thread_;
};

class PiecePuller {
 public:
  [[nodiscard]] Reported<> connect(const std::string& address, uint16_t port);
  // As many bytes as there is room for.
  [[nodiscard]] Reported<> pull(std::span<std::byte> into);

 private:
  Descriptor socket_;
};

}  // namespace refract::bench
