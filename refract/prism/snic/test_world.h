// SPDX-License-Identifier: Apache-2.0
// A region with free lists, an executor and a connection with all rights, for tests of single operations.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/check.h"
#include "refract/prism/chain.h"
#include "refract/prism/reply.h"
#include "refract/prism/snic/executor.h"
#include "refract/prism/snic/free_lists.h"

namespace refract::prism::snic::test {

inline constexpr uint16_t kRegion = 7;
inline constexpr RemoteKey kKey{0x1234'5678'9abc'def0};

struct WorldSpec {
  uint64_t bytes = 4096;
  uint64_t buffer_bytes = 64;
  uint64_t buffers = 8;
  uint64_t buffers_at = 2048;  // In the region.
  uint8_t rights = ChainRights::kAll;
  Guard* guard = nullptr;
};

class World {
 public:
  explicit World(const WorldSpec& spec = {})
      : memory_((kStart + spec.bytes) / 8 + 2), writer_(base()), lists_(writer_), bytes_(spec.bytes) {
    (void)lists_.add_list(
        {.start = {kStart + spec.buffers_at}, .buffer_bytes = spec.buffer_bytes, .count = spec.buffers});
    REFRACT_CHECK(executor_
                      .add_region({.id = kRegion,
                                   .writer = &writer_,
                                   .start = {kStart},
                                   .bytes = spec.bytes,
                                   .buffers = &lists_,
                                   .guard = spec.guard})
                      .has_value());
    allow(spec.rights);
  }

  void allow(uint8_t rights) {
    connection_ = Connection();
    REFRACT_CHECK(connection_.add({.key = kKey, .region = kRegion, .rights = {rights}}).has_value());
  }

  [[nodiscard]] static RemotePointer at(uint64_t offset) { return RemotePointer::at(kRegion, offset); }
  [[nodiscard]] static Offset in_space(RemotePointer pointer) { return {kStart + pointer.offset()}; }

  void set(uint64_t offset, uint64_t word) { std::memcpy(region() + offset, &word, sizeof(word)); }
  void set(uint64_t offset, std::string_view text) {
    std::memcpy(region() + offset, text.data(), text.size());
  }
  [[nodiscard]] uint64_t word(uint64_t offset) const {
    uint64_t word = 0;
    std::memcpy(&word, region() + offset, sizeof(word));
    return word;
  }
  [[nodiscard]] std::string text(uint64_t offset, size_t bytes) const {
    return {reinterpret_cast<const char*>(region() + offset), bytes};
  }
  [[nodiscard]] uint64_t scratch_word(uint64_t offset) const {
    uint64_t word = 0;
    std::memcpy(&word, connection_.scratch() + offset, sizeof(word));
    return word;
  }
  // Everything that a chain could change, and what stands around it.
  [[nodiscard]] std::string image() const {
    std::string image(reinterpret_cast<const char*>(memory_.data()), memory_.size() * 8);
    return image.append(reinterpret_cast<const char*>(connection_.scratch()), kScratchBytes);
  }
  [[nodiscard]] uint64_t free_buffers() const { return lists_.free_count(0); }

  // Runs what has been built. The reply is valid until the next run.
  [[nodiscard]] Reply run(const Chain& chain) { return run(chain, reply_.size()); }
  [[nodiscard]] Reply run(const Chain& chain, size_t room) {
    const Result<std::span<const std::byte>> message = chain.finish();
    REFRACT_CHECK(message.has_value());
    const Result<size_t> bytes = executor_.execute(connection_, *message, std::span(reply_).first(room));
    REFRACT_CHECK(bytes.has_value());
    const Result<Reply> reply = Reply::of(std::span(reply_).first(*bytes), chain.operations());
    REFRACT_CHECK(reply.has_value());
    return *reply;
  }

  [[nodiscard]] Executor& executor() { return executor_; }
  [[nodiscard]] Connection& connection() { return connection_; }
  [[nodiscard]] FreeLists& lists() { return lists_; }
  [[nodiscard]] Writer& writer() { return writer_; }
  [[nodiscard]] std::span<std::byte> room() { return reply_; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }

  // The region begins behind a margin that nothing may touch.
  static constexpr uint64_t kStart = 64;

 private:
  [[nodiscard]] std::byte* base() { return reinterpret_cast<std::byte*>(memory_.data()); }
  [[nodiscard]] std::byte* region() { return base() + kStart; }
  [[nodiscard]] const std::byte* region() const {
    return reinterpret_cast<const std::byte*>(memory_.data()) + kStart;
  }

  std::vector<uint64_t> memory_;
  Writer writer_;
  FreeLists lists_;
  Executor executor_;
  Connection connection_;
  uint64_t bytes_;
  std::vector<std::byte> reply_ = std::vector<std::byte>(256 * 1024);
};

// A builder with a buffer of its own.
struct Draft {
  std::array<std::byte, 4096> buffer{};
  Chain chain{buffer};
  Draft() = default;
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
  ~Draft() = default;
  Chain* operator->() noexcept { return &chain; }
  const Chain& operator*() const noexcept { return chain; }
};

[[nodiscard]] inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}
[[nodiscard]] inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace refract::prism::snic::test
