// SPDX-License-Identifier: Apache-2.0
// Ranks of an MPI program. Where it waits for long it asks now and then and sleeps in between: a rank that
// polls would take a core from the nodes.
#define OMPI_SKIP_MPICXX 1  // Its C++ bindings are gone from the standard.
#include <mpi.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "bench/measure/measure.h"
#include "bench/ranks/ranks.h"

#include "refract/base/units.h"

namespace refract::bench {
namespace {

constexpr int kNumber = 1;  // Tags.
constexpr int kBytes = 2;
constexpr uint64_t kPause_ns = kMillisecond_ns;
constexpr size_t kTextBytes = 512;  // Of a rank in gather().

std::unexpected<Report> failed_call(const char* name) {
  return report(Code::kSystem, std::string(name) + " failed");
}

bool has_ended(MPI_Request request) {
  for (;;) {
    int is_over = 0;
    if (MPI_Test(&request, &is_over, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
    if (is_over != 0) return true;
    sleep_ns(kPause_ns);
  }
}

class MpiRanks final : public Ranks {
 public:
  MpiRanks() {
    int value = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &value);
    index_ = static_cast<size_t>(value);
    MPI_Comm_size(MPI_COMM_WORLD, &value);
    count_ = static_cast<size_t>(value);
  }
  ~MpiRanks() override { MPI_Finalize(); }

  [[nodiscard]] size_t index() const noexcept override { return index_; }
  [[nodiscard]] size_t count() const noexcept override { return count_; }
  [[nodiscard]] Reported<std::vector<std::string>> gather(const std::string& mine) override {
    if (mine.size() >= kTextBytes) return report(Code::kTooLarge, "too long a text for the ranks");
    std::vector<char> own(kTextBytes);
    std::ranges::copy(mine, own.begin());
    std::vector<char> all(kTextBytes * count_);
    MPI_Request request{};
    if (MPI_Iallgather(own.data(), kTextBytes, MPI_CHAR, all.data(), kTextBytes, MPI_CHAR, MPI_COMM_WORLD,
                       &request) != MPI_SUCCESS ||
        !has_ended(request))
      return failed_call("MPI_Iallgather");
    std::vector<std::string> texts;
    for (size_t i = 0; i < count_; ++i) texts.emplace_back(&all[i * kTextBytes]);
    return texts;
  }
  [[nodiscard]] Reported<> tell(size_t rank, uint64_t number) override {
    if (MPI_Send(&number, 1, MPI_UINT64_T, static_cast<int>(rank), kNumber, MPI_COMM_WORLD) != MPI_SUCCESS)
      return failed_call("MPI_Send");
    return {};
  }
  [[nodiscard]] Reported<uint64_t> hear() override {
    uint64_t number = 0;
    MPI_Request request{};
    if (MPI_Irecv(&number, 1, MPI_UINT64_T, 0, kNumber, MPI_COMM_WORLD, &request) != MPI_SUCCESS ||
        !has_ended(request))
      return failed_call("MPI_Irecv");
    return number;
  }
  [[nodiscard]] bool has_messages() const noexcept override { return true; }
  [[nodiscard]] Reported<> send(size_t to, std::span<const std::byte> bytes) override {
    if (bytes.size() > INT_MAX) return report(Code::kTooLarge, "too many bytes for MPI_Send");
    if (MPI_Send(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, static_cast<int>(to), kBytes,
                 MPI_COMM_WORLD) != MPI_SUCCESS)
      return failed_call("MPI_Send");
    return {};
  }
  [[nodiscard]] Reported<> receive(size_t from, std::span<std::byte> bytes) override {
    if (bytes.size() > INT_MAX) return report(Code::kTooLarge, "too many bytes for MPI_Recv");
    if (MPI_Recv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, static_cast<int>(from), kBytes,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE) != MPI_SUCCESS)
      return failed_call("MPI_Recv");
    return {};
  }
  [[nodiscard]] Reported<> broadcast(std::span<std::byte> bytes) override {
    if (bytes.size() > INT_MAX) return report(Code::kTooLarge, "too many bytes for MPI_Bcast");
    if (MPI_Bcast(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, 0, MPI_COMM_WORLD) != MPI_SUCCESS)
      return failed_call("MPI_Bcast");
    return {};
  }
  void give_up() noexcept override { MPI_Abort(MPI_COMM_WORLD, 1); }

 private:
  size_t index_ = 0;
  size_t count_ = 1;
};

}  // namespace

Reported<std::unique_ptr<Ranks>> join_mpi() {
  // Without mpirun MPI would make a world of this process alone, which measures nothing.
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr && std::getenv("PMI_SIZE") == nullptr) {
    return report(Code::kInvalidArgument, "mpirun has not started this process",
                  "mpirun --oversubscribe -np 2 refract-bench object-mpi; or give --ranks 2 for forks");
  }
  if (MPI_Init(nullptr, nullptr) != MPI_SUCCESS) return failed_call("MPI_Init");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  return std::make_unique<MpiRanks>();
}

}  // namespace refract::bench
