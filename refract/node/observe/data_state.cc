// SPDX-License-Identifier: Apache-2.0
#include "refract/node/observe/data_state.h"

#include "refract/node/observe/lenient_json.h"

namespace refract::observe {
documents::Value json_of(const DataState& state) {
  documents::Value object = json_of_rows(state);
  object["log"] = json_of_rows(state.log);
  object["snapshots"] = json_of_rows(state.snapshots);
  object["recovery"] = json_of_rows(state.recovery);
  return object;
}

DataState data_state_of(const documents::Value& object) {
  auto state = state_of_rows<DataState>(object);
  state.log = state_of_rows<LogStatus>(member_of(object, "log"));
  state.snapshots = state_of_rows<SnapshotStatus>(member_of(object, "snapshots"));
  state.recovery = state_of_rows<RecoveryStatus>(member_of(object, "recovery"));
  return state;
}

}  // namespace refract::observe
