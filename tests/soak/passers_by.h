// SPDX-License-Identifier: Apache-2.0
// Clients that come, write what does not stay long, look at it, and go.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "refract/base/histogram.h"

namespace refract::test {

inline constexpr int kThirds = 3;
// Each call of a passer-by has so long.
inline constexpr uint64_t kCallTimeout_ns = 10'000'000'000;

// What a passer-by has seen, in memory that it shares with the test. The histograms are its own until it
// ends.
struct Passing {
  std::atomic<bool> stop;
  std::atomic<int> third;  // In which the run is.
  std::atomic<uint64_t> visits;
  std::atomic<uint64_t> unanswered;  // Calls that ended without an answer, as they may when a server dies.
  Histogram put_ns[kThirds];
  Histogram get_ns[kThirds];
  uint64_t longest_ns;  // Of all calls.
};

// Shared with children of the test.
class SharedPassing {
 public:
  SharedPassing();
  SharedPassing(const SharedPassing&) = delete;
  SharedPassing& operator=(const SharedPassing&) = delete;
  ~SharedPassing();
  [[nodiscard]] Passing& operator*() const noexcept { return *passing_; }
  [[nodiscard]] Passing* operator->() const noexcept { return passing_; }

 private:
  Passing* passing_;
};

// Until passing.stop: one client after the other, by turns at each of the two addresses. 0: everything was as
// it should be; else it has said to stderr what was not.
[[nodiscard]] int pass_by(const std::string& one_address, const std::string& other_address, uint64_t seed,
                          Passing& passing);

}  // namespace refract::test
