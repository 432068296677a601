// SPDX-License-Identifier: Apache-2.0
// Marks the few places where a crash or a refusal is most dangerous, so that the simulator can make it happen
// there.
//
//   REFRACT_FAULT("kv.put.after_allocate");                                  // The process may be killed
//   here. if (REFRACT_FAULT_FAILS("kv.grow.no_memory")) return fail(Code::kNoSpace);  // This may be refused.
//
// Outside the simulator a site costs one predictable branch on a pointer that is null; still, none stands on
// the direct get. Every site of the program is known from the start, reached or not, so that a test can
// assert that a campaign has fired each. A name is unique; sites are used by one thread, while a listener is
// set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace refract::runtime {

class FaultSite;

namespace detail {
inline constinit FaultSite* newest_fault_site = nullptr;
}

class FaultSite {
 public:
  explicit FaultSite(std::string_view name) noexcept : name_(name), next_(detail::newest_fault_site) {
    detail::newest_fault_site = this;
  }
  FaultSite(const FaultSite&) = delete;
  FaultSite& operator=(const FaultSite&) = delete;
  ~FaultSite() = default;  // Sites live as long as the program.

  [[nodiscard]] std::string_view name() const noexcept { return name_; }
  // Over all runs of this process.
  [[nodiscard]] uint64_t reached_count() const noexcept { return reached_count_; }
  [[nodiscard]] uint64_t fired_count() const noexcept { return fired_count_; }

  // All sites: `for (const FaultSite* site = FaultSite::first(); site != nullptr; site = site->next())`.
  [[nodiscard]] static FaultSite* first() noexcept { return detail::newest_fault_site; }
  [[nodiscard]] FaultSite* next() const noexcept { return next_; }

 private:
  friend class FaultListener;

  std::string_view name_;
  FaultSite* next_;
  uint64_t reached_count_ = 0;
  uint64_t fired_count_ = 0;
};

// Decides which sites fire: the simulated world.
class FaultListener {
 public:
  enum class Kind : uint8_t { kCrash, kRefuse };

  virtual ~FaultListener() = default;

  bool reached(FaultSite& site, Kind kind) noexcept {
    ++site.reached_count_;
    const bool fires = decide(site, kind);
    if (fires) ++site.fired_count_;
    return fires;
  }

 protected:
  // True: the site fires. Of a kCrash site, whatever the process does after this call never happened.
  virtual bool decide(const FaultSite& site, Kind kind) noexcept = 0;
};

inline constinit FaultListener* fault_listener = nullptr;

// A string as a template argument: makes each site one object that exists before main().
template <size_t kBytes>
struct FaultName {
  char text[kBytes] = {};
  // Not explicit: a literal must become one.
  constexpr FaultName(const char (&literal)[kBytes]) noexcept {  // NOLINT(google-explicit-constructor)
    for (size_t i = 0; i < kBytes; ++i) text[i] = literal[i];
  }
};

template <FaultName kName>
inline FaultSite fault_site{std::string_view(kName.text, sizeof(kName.text) - 1)};

}  // namespace refract::runtime

#define REFRACT_FAULT_REACHED(name, kind)                                            \
  (__builtin_expect(::refract::runtime::fault_listener != nullptr, 0) &&             \
   ::refract::runtime::fault_listener->reached(::refract::runtime::fault_site<name>, \
                                               ::refract::runtime::FaultListener::Kind::kind))

#define REFRACT_FAULT(name) static_cast<void>(REFRACT_FAULT_REACHED(name, kCrash))
#define REFRACT_FAULT_FAILS(name) REFRACT_FAULT_REACHED(name, kRefuse)
