// SPDX-License-Identifier: Apache-2.0
// What may still be judged of a history after deaths of the host (docs/design/068).
//
// A death takes back what is behind the common end of all logs. With `always` none of it had been
// acknowledged. With `everysec` it may have been: its transactions go from the history, and none of them was
// acknowledged before another one over several shards was decided that is there. In both, readers may have
// seen what went, for reads never wait: what only read keys that lost changes, between the first of them and
// the death, goes as well. What has written and is there stays with all that it has read, and so does
// everything else.
#pragma once

#include "tests/transactions/stage.h"

namespace refract::campaign {

// Complains of what must not be lost.
void forget_what_was_taken_back(TransactionStage& stage);

}  // namespace refract::campaign
