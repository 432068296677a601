// SPDX-License-Identifier: Apache-2.0
// In place of mpi_ranks.cc, where REFRACT_MPI is off.
#include "bench/ranks/ranks.h"

namespace refract::bench {

Reported<std::unique_ptr<Ranks>> join_mpi() {
  return report(Code::kUnsupported, "this refract-bench was built without MPI",
                "give --ranks 2 for forks of one process, or build it with -DREFRACT_MPI=ON, for which "
                "'scripts/setup mpi' installs Open MPI");
}

}  // namespace refract::bench
