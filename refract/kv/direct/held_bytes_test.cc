// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/direct/held_bytes.h"

#include <gtest/gtest.h>

#include <array>

namespace refract::kv {
namespace {

TEST(HeldBytes, stores_as_many_as_asked_and_nothing_behind_them) {
  std::array<std::byte, HeldBytes::kBytes> source;
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i + 1);
  for (size_t bytes = 0; bytes <= source.size(); ++bytes) {
    std::array<std::byte, HeldBytes::kBytes + 1> target{};
    HeldBytes(source.data()).store(target.data(), bytes);
    for (size_t i = 0; i < target.size(); ++i) {
      EXPECT_EQ(target[i], i < bytes ? source[i] : std::byte{0}) << bytes << " bytes, byte " << i;
    }
  }
}

TEST(HeldBytes, stay_as_they_were_when_loaded) {
  std::array<std::byte, HeldBytes::kBytes> source{};
  const HeldBytes held(source.data());
  source.fill(std::byte{1});
  std::array<std::byte, HeldBytes::kBytes> target;
  held.store(target.data(), target.size());
  EXPECT_EQ(target, (std::array<std::byte, HeldBytes::kBytes>{}));
}

}  // namespace
}  // namespace refract::kv
