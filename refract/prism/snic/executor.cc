// SPDX-License-Identifier: Apache-2.0
#include "refract/prism/snic/executor.h"

#include <algorithm>

#include "refract/base/check.h"
#include "refract/memory/size_class.h"
#include "refract/prism/limits.h"
#include "refract/prism/snic/run.h"

namespace refract::prism::snic {

Executor::Executor() : bounce_(kTransferBytesMax) {}

Result<> Executor::add_region(const RegionSpec& spec) {
  REFRACT_CHECK(open_runs_ == 0);
  // Whole words and granules, so that alignment in the region is alignment in memory.
  const bool is_sound = spec.id != kScratchRegion && spec.writer != nullptr && spec.bytes % 8 == 0 &&
                        spec.start.value % kGranuleBytes == 0 && spec.bytes <= RemotePointer::kOffsetMask;
  if (!is_sound) return fail(Code::kInvalidArgument);
  if (find(spec.id) != nullptr) return fail(Code::kExists);
  regions_.push_back(spec);
  return {};
}

Result<> Executor::grow(uint16_t region, uint64_t bytes) noexcept {
  const auto spec = std::ranges::find(regions_, region, &RegionSpec::id);
  if (spec == regions_.end()) return fail(Code::kNotFound);
  if (bytes < spec->bytes || bytes % 8 != 0 || bytes > RemotePointer::kOffsetMask) {
    return fail(Code::kInvalidArgument);
  }
  spec->bytes = bytes;
  return {};
}

void Executor::remove_region(uint16_t region) noexcept {
  REFRACT_CHECK(open_runs_ == 0);
  std::erase_if(regions_, [region](const RegionSpec& spec) { return spec.id == region; });
}

void Executor::hold_buffers() noexcept {
  for (const RegionSpec& spec : regions_) {
    if (spec.buffers != nullptr) spec.buffers->hold();
  }
}

void Executor::release_buffers() noexcept {
  for (const RegionSpec& spec : regions_) {
    if (spec.buffers != nullptr) spec.buffers->release();
  }
}

Result<size_t> Executor::execute(Connection& connection, std::span<const std::byte> chain,
                                 std::span<std::byte> reply_room) noexcept {
  Run run(*this, connection);
  if (const Code code = run.take(chain, reply_room); code != Code::kOk) return fail(code);
  while (!run.done()) run.run_next();
  return run.end();
}

}  // namespace refract::prism::snic
