// SPDX-License-Identifier: Apache-2.0
// What may still be judged of a history after crashes of the host.
//
// A crash takes back changes that the disk had not confirmed. Their writers were told nothing (`always`), or
// may have been told that they were made (`everysec`); readers may have seen them either way, for reads never
// wait. So of each key that lost changes, everything that a client was shown between the first of them and
// the crash is taken out of the history, whatever it was; nothing else is. With `always` an acknowledged
// write, and a refusal by a call, are never taken out: they must be explained together with all that
// followed.
#pragma once

#include <cstdint>

#include "tests/campaign/rival.h"

namespace refract::campaign {

// Returns how many answers were taken out. Complains of an acknowledged write that was lost though it must
// not be.
[[nodiscard]] uint64_t forget_what_was_taken_back(RivalStage& stage);

}  // namespace refract::campaign
