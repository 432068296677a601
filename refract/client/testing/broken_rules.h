// SPDX-License-Identifier: Apache-2.0
// Rules of numbered writes (docs/design/077) that a campaign breaks, one at a time, so that it is known to
// see what they are for; and what a model of their owner does by chance.
#pragma once

#include <cstdint>

namespace refract::test {

// In what the client sends, and in what it believes.
enum class BrokenClient : uint8_t {
  kNone,
  kGivesUpSilently,       // Nothing is withdrawn.
  kTellsBeforeWithdrawn,  // The caller is told when its time is over.
  kNewOnesInAnyOrder,
  kAsksNothing,          // All that is in doubt is sent again.
  kTakesUnknownForNo,    // A session that is not known, too.
  kAcknowledgesOnce,     // And not again where the connection ended.
  kForgetsLateAnswers,   // Of writes that were given up nothing is acknowledged.
  kSendsNewOnesInFront,  // Behind a resume.
  kSendsBehindConditions,
  kSendsBehindDrafts,     // What is behind a long value overtakes its commit.
  kCommitsWithoutAsking,  // What is in doubt is committed again.
  kCommitsOldDrafts,      // Of an earlier connection.
  kKeepsDrafts,           // That are not committed any more.
};

// At the owner.
enum class BrokenOwner : uint8_t {
  kNone,
  kNoBar,
  kBarOfOne,
  kWaitingOutlivesConnection,
  kAcknowledgesByPlaceAlone,
  kRecordsEndWithConnection,
  kErrorsLeaveNoRecord,
  kAskingTakesNothingOut,
  kDraftsOutliveConnection,
};

struct OwnerChances {
  double refuses = 0;
  double waits = 0;
  double fails = 0;  // With an outcome.
};

}  // namespace refract::test
