// SPDX-License-Identifier: Apache-2.0
// One unbroken range of addresses for all regions of a node, reserved before any of them exists.
//
// Each region is mapped at the base that it has in the node's space, so that an Offset becomes an address by
// one add. What is not mapped faults: the range is PROT_NONE and takes no memory and no swap.
//
// Core dumps leave the whole range out (MADV_DONTDUMP) unless asked otherwise: a client that crashes must not
// write the store to its disk. Children inherit the range: the keeper's mappings are what its server lives on
// (a sealed memfd cannot be mapped writable again). A client that wants its children to fault at once,
// instead of reading on through a handle that is no longer theirs, asks for hidden_from_children
// (MADV_DONTFORK). MADV_WIPEONFORK is no choice: the kernel refuses it for shared mappings.
//
// Threads: one owner. Moving an AddressSpace moves no mapping: base() stays the same.
#pragma once

#include <cstddef>
#include <cstdint>

#include "refract/base/report.h"

namespace refract {

class AddressSpace {
 public:
  struct Options {
    bool in_core_dumps = false;
    bool hidden_from_children = false;
  };

  // One piece of a file, and where it goes. All three of file_offset, at and bytes are multiples of the
  // file's page (2 MiB for huge pages).
  struct Piece {
    int descriptor = -1;  // May be closed after the call.
    uint64_t file_offset = 0;
    uint64_t at = 0;  // Offset in this space.
    uint64_t bytes = 0;
    bool writable = false;
  };

  AddressSpace() noexcept = default;
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;
  AddressSpace(AddressSpace&& other) noexcept;
  AddressSpace& operator=(AddressSpace&& other) noexcept;
  ~AddressSpace();  // Unmaps the whole range, what is mapped in it included.

  // Reserves `bytes`, rounded up to 2 MiB, at a multiple of 2 MiB. Fails where RLIMIT_AS is too low.
  [[nodiscard]] static Reported<AddressSpace> reserve(uint64_t bytes, Options options);
  [[nodiscard]] static Reported<AddressSpace> reserve(uint64_t bytes) { return reserve(bytes, Options{}); }

  // Maps a piece, shared, over whatever was there. Nothing is populated: a reader maps only what is populated
  // already, for reading a hole would allocate it. On failure the range is reserved and faults, as before.
  [[nodiscard]] Reported<> map(const Piece& piece);
  // Gives a piece back; the range stays reserved and faults from now on.
  [[nodiscard]] Reported<> unmap(uint64_t at, uint64_t bytes);
  // A hint: the whole piece, of this file, will be written soon, so this process's page tables get it at once
  // instead of with a fault for each page. Its memory must have been taken.
  void expect_writes(int descriptor, uint64_t at, uint64_t bytes) noexcept;

  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] uint64_t bytes() const noexcept { return bytes_; }

 private:
  AddressSpace(std::byte* base, uint64_t bytes, Options options) noexcept
      : base_(base), bytes_(bytes), options_(options) {}
  [[nodiscard]] bool contains(uint64_t at, uint64_t bytes) const noexcept;
  void advise(std::byte* address, uint64_t bytes) const noexcept;

  std::byte* base_ = nullptr;
  uint64_t bytes_ = 0;
  Options options_;
};

}  // namespace refract
