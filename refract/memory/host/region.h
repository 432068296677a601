// SPDX-License-Identifier: Apache-2.0
// A Region is a contiguous piece of a node's memory: made once, populated, sealed, then handed to readers.
//
// The order matters, and the calls stand in it: create() checks that there is room (a memfd that goes over a
// cgroup's limit gets the process killed), makes the file and maps it writable; populate_some() takes the
// memory, in steps, so that a single-threaded keeper serves its socket between two of them; seal() forbids
// every writable mapping from then on, for every process, ourselves included: a writer must hold its mapping
// before. read_descriptor() is what readers get.
//
// The creator's mapping is inherited by its children; that is how a server that the keeper forks again writes
// to a region that no process could map any more.
//
// Threads: one owner. Control path only: calls block and allocate. The AddressSpace must outlive the region
// (it may be moved).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "refract/base/report.h"
#include "refract/memory/host/address_space.h"
#include "refract/memory/host/backing.h"
#include "refract/memory/host/descriptor.h"
#include "refract/memory/host/limits.h"

namespace refract {

struct RegionSpec {
  Backing backing = {};
  uint16_t id = 0;
  uint64_t bytes = 0;                     // A multiple of page_bytes(backing).
  uint64_t base = 0;                      // Offset in the address space, likewise.
  uint64_t headroom_bytes = 32ULL << 20;  // Must stay free for the process itself and its neighbours.
  // Called with the first 4096 bytes of a file that exists already, before anything is mapped writable: an
  // error refuses the file ("not a region of Refract"). All zero bytes mean that a node died before it wrote
  // its header.
  std::function<Reported<>(std::span<const std::byte> start)> accept_existing = {};
  SystemRoot system = {};  // Where limits are looked up.
};

// The size of the file that holds a region below a file: backing; 0 if there is none (or it is empty, or the
// backing has no files). A node that starts again learns from it which regions it had.
[[nodiscard]] Reported<uint64_t> existing_region_bytes(const Backing& backing, uint16_t region);

class Region {
 public:
  // Nothing is left behind on failure: no file, no descriptor, no mapping.
  [[nodiscard]] static Reported<Region> create(AddressSpace& space, const RegionSpec& spec);

  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) noexcept;
  // Unmaps and closes. A new file that was not populated to its end is removed by the process that made it.
  ~Region();

  // Takes the memory of the next `bytes_max` bytes (at least one page) and says whether all of it is taken
  // now. An existing file keeps its bytes. After an error the region is of no use.
  [[nodiscard]] Reported<bool> populate_some(uint64_t bytes_max);
  // All steps at once.
  [[nodiscard]] Reported<> populate();

  // Forbids truncating and further seals, and, for memfd: and hugetlb:, every new writable mapping and every
  // write by descriptor, to all processes and for ever. Files have no seals: there their mode 0600 is what
  // protects them, and a process of the same user is trusted. REQUIRES: populated. Repeating it does nothing.
  [[nodiscard]] Reported<> seal();

  // What readers are given; stays the region's. Opened read-only through /proc. Where there is no /proc, it
  // is the writable descriptor, which is harmless once sealed: so this fails only for such a region before
  // seal().
  [[nodiscard]] Reported<int> read_descriptor() const;
  // For the one process beside us that is to map the region writable, before seal(). Stays the region's.
  [[nodiscard]] int write_descriptor() const noexcept { return descriptor_.get(); }

  // Brings what was stored to the disk; of memory, nothing. Blocks as long as the disk takes.
  [[nodiscard]] Reported<> sync() const;
  // Which file it is: device and inode; of memory, zeros.
  struct FileIdentity {
    uint64_t device = 0;
    uint64_t inode = 0;
    bool operator==(const FileIdentity&) const = default;
  };
  [[nodiscard]] FileIdentity file() const noexcept;

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] uint64_t bytes() const noexcept { return spec_.bytes; }
  [[nodiscard]] uint64_t base() const noexcept { return spec_.base; }
  [[nodiscard]] uint16_t id() const noexcept { return spec_.id; }
  [[nodiscard]] const Backing& backing() const noexcept { return spec_.backing; }
  [[nodiscard]] bool existing() const noexcept { return existing_; }
  [[nodiscard]] bool sealed() const noexcept { return sealed_; }
  [[nodiscard]] uint64_t populated_bytes() const noexcept { return populated_bytes_; }
  // What of it lies in pages of 2 MiB.
  [[nodiscard]] uint64_t large_page_bytes() const noexcept { return large_page_bytes_; }

 private:
  Region() noexcept = default;
  [[nodiscard]] Reported<> make_memory();
  [[nodiscard]] Reported<> open_file();
  [[nodiscard]] Reported<> check_file();
  [[nodiscard]] Reported<> take_memory(uint64_t from, uint64_t bytes);
  [[nodiscard]] std::string name() const;

  RegionSpec spec_;
  std::byte* data_ = nullptr;  // Null: nothing is mapped.
  Descriptor descriptor_;
  Descriptor read_only_;
  uint64_t populated_bytes_ = 0;
  uint64_t large_page_bytes_ = 0;
  int maker_ = 0;  // The process whose death throes may remove a half-made file; 0: none.
  bool existing_ = false;
  bool sealed_ = false;
};

}  // namespace refract
