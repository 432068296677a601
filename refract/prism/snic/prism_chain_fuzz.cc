// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes as chains, and arbitrary memory below them: whatever is said and found, nothing outside the
// regions, the scratch and the reply is touched, the reply can be read, and no buffer is lost or doubled.
// What one form says, the dense form of it says, too.
//
// Input: which half of the rights (1), how much room for the reply (1), length of the chain (2), the chain,
// then what the memory holds. Two regions with the keys 1 and 2; a fuzzer cannot guess longer ones.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "refract/base/check.h"
#include "refract/prism/reply.h"
#include "refract/prism/snic/free_lists.h"
#include "refract/prism/snic/run.h"
#include "refract/prism/testing/other_form.h"

namespace refract::prism::snic {
namespace {

constexpr uint64_t kRegionBytes = 512;
constexpr uint64_t kBuffersAt = 256;
constexpr FreeLists::List kList = {.start = {kBuffersAt}, .buffer_bytes = 32, .count = 8};

// Exactly as long as the region, so that the sanitizer sees every byte before and behind it.
class Memory {
 public:
  Memory(Executor& executor, uint16_t id) {
    (void)lists_.add_list(kList);
    REFRACT_CHECK(executor
                      .add_region({.id = id,
                                   .writer = &writer_,
                                   .start = {0},
                                   .bytes = kRegionBytes,
                                   .buffers = &lists_,
                                   .guard = nullptr})
                      .has_value());
  }
  void fill(std::span<const std::byte> bytes) {
    if (!bytes.empty()) std::memcpy(words_.get(), bytes.data(), std::min<size_t>(bytes.size(), kRegionBytes));
  }
  [[nodiscard]] uint64_t free_buffers() const { return lists_.free_count(0); }
  [[nodiscard]] uint64_t buffers_out() const {
    uint64_t count = 0;
    for (uint64_t i = 0; i < kList.count; ++i) {
      count += lists_.is_out(kList.start.plus(i * kList.buffer_bytes)) ? 1 : 0;
    }
    return count;
  }

 private:
  std::unique_ptr<uint64_t[]> words_ = std::make_unique<uint64_t[]>(kRegionBytes / 8);
  Writer writer_{reinterpret_cast<std::byte*>(words_.get())};
  FreeLists lists_{writer_};
};

void check_dense(std::span<const std::byte> chain, const DecodedChain& decoded) {
  const std::vector<std::byte> dense = testing::dense_of(chain);
  DecodedChain again;  // NOLINT(cppcoreguidelines-pro-type-member-init): decode fills it.
  REFRACT_CHECK(decode(dense, again) == Code::kOk && again.count == decoded.count);
  for (size_t i = 0; i < decoded.count; ++i) {
    const Operation& one = decoded.operations[i];
    const Operation& other = again.operations[i];
    REFRACT_CHECK(std::memcmp(&one.header, &other.header, sizeof(one.header)) == 0);
    const uint64_t bytes = inline_bytes_of(one.header);
    REFRACT_CHECK(bytes == 0 || std::memcmp(one.inline_bytes, other.inline_bytes, bytes) == 0);
  }
}

void execute(std::span<const std::byte> chain, std::span<const std::byte> memory, uint8_t rights,
             size_t room) {
  Executor executor;
  const std::array<std::unique_ptr<Memory>, 2> regions = {std::make_unique<Memory>(executor, uint16_t{1}),
                                                          std::make_unique<Memory>(executor, uint16_t{2})};
  regions[0]->fill(memory);
  Connection connection;
  REFRACT_CHECK(connection.add({.key = {1}, .region = 1, .rights = {rights}}).has_value());
  REFRACT_CHECK(connection.add({.key = {2}, .region = 2, .rights = {ChainRights::kAll}}).has_value());
  std::vector<std::byte> reply(room);
  // Once to its end, then again step by step, abandoned in the middle of what the first run left.
  const Result<size_t> bytes = executor.execute(connection, chain, reply);
  if (bytes) {
    DecodedChain decoded;  // NOLINT(cppcoreguidelines-pro-type-member-init): decode fills it.
    REFRACT_CHECK(decode(chain, decoded) == Code::kOk && *bytes <= room);
    REFRACT_CHECK(Reply::of(std::span(reply).first(*bytes), decoded.count).has_value());
    check_dense(chain, decoded);
  } else {
    REFRACT_CHECK(bytes.code() == Code::kMalformed || bytes.code() == Code::kTooLarge);
  }
  {
    Run run(executor, connection);
    const Result<> begun = run.begin(chain, reply);
    REFRACT_CHECK(begun.code() == bytes.code());
    if (begun) (void)(run.step() && run.step());
  }
  for (const auto& region : regions)
    REFRACT_CHECK(region->free_buffers() + region->buffers_out() == kList.count);
  REFRACT_CHECK(executor.open_runs() == 0);
}

}  // namespace
}  // namespace refract::prism::snic

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::span<const std::byte> input = std::as_bytes(std::span(data, size));
  if (input.size() < 4) return 0;
  const auto rights = std::to_integer<uint8_t>(input[0]);
  const size_t room = std::to_integer<size_t>(input[1]) * 16;
  const size_t wanted = std::to_integer<size_t>(input[2]) | std::to_integer<size_t>(input[3]) << 8;
  input = input.subspan(4);
  const size_t bytes = std::min(wanted, input.size());
  // In storage of exactly its length.
  const std::vector<std::byte> chain(input.begin(), input.begin() + static_cast<ptrdiff_t>(bytes));
  refract::prism::snic::execute(chain, input.subspan(bytes), rights, room);
  return 0;
}
