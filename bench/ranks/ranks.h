// SPDX-License-Identifier: Apache-2.0
// The processes of one measurement, numbered from 0: those of an MPI program, or forks of one process.
//
// What waits sleeps, so that it takes no core from what is measured; exchange() alone polls, as MPI does.
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "refract/base/report.h"

namespace refract::bench {

class Ranks {
 public:
  Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  virtual ~Ranks() = default;

  [[nodiscard]] virtual size_t index() const noexcept = 0;
  [[nodiscard]] virtual size_t count() const noexcept = 0;
  // What each gave, by rank; none gets it before all have given.
  [[nodiscard]] virtual Reported<std::vector<std::string>> gather(const std::string& mine) = 0;
  // A number from rank 0 to another.
  [[nodiscard]] virtual Reported<> tell(size_t rank, uint64_t number) = 0;
  [[nodiscard]] virtual Reported<uint64_t> hear() = 0;

  // Whether these three are there.
  [[nodiscard]] virtual bool has_messages() const noexcept = 0;
  // MPI_Send and MPI_Recv, blocking, `bytes` of any length.
  [[nodiscard]] virtual Reported<> send(size_t to, std::span<const std::byte> bytes) = 0;
  [[nodiscard]] virtual Reported<> receive(size_t from, std::span<std::byte> bytes) = 0;
  // MPI_Bcast from rank 0.
  [[nodiscard]] virtual Reported<> broadcast(std::span<std::byte> bytes) = 0;

  // Something went wrong here: the others end, too.
  virtual void give_up() noexcept = 0;
};

// This process as one that mpirun has started. kUnsupported: this program was built without MPI;
// kInvalidArgument: mpirun has not started it. One in the life of a process.
[[nodiscard]] Reported<std::unique_ptr<Ranks>> join_mpi();

// So many processes, of which this one is 0: the others run `body` in forks of it, whose exit code is what it
// returns. They end with what is returned here. REQUIRES: this process has one thread.
[[nodiscard]] Reported<std::unique_ptr<Ranks>> fork_ranks(size_t count,
                                                          const std::function<int(Ranks&)>& body);

}  // namespace refract::bench
