// SPDX-License-Identifier: Apache-2.0
// Histories of one register as other systems' tests write them down, so that they can be judged as they are:
// the lines of Jepsen and of systems that took over its form (Knossos, Porcupine's etcd data).
//
//   INFO  jepsen.util - 3	:invoke	:cas	[0 2]
//   {:process 3, :type :ok, :f :cas, :value [0 2], :time 12345}
//
// :read, :write and :cas are known; :ok, :fail and :info end what a process has begun. An operation that
// ended with :info, or not at all, may take effect at any later moment, or never. Lines of others than
// numbered processes (a nemesis) are left out.
#pragma once

#include <string_view>

#include "refract/base/report.h"
#include "refract/base/testing/linearizability/history.h"

namespace refract::linearizability {

struct RegisterOptions {
  // What a :cas that ended with :fail tells: that the register held another value, or none, as Porcupine
  // takes it; else no more than that it changed nothing, as Knossos does. One with an :error tells no more
  // than that.
  bool failed_cas_tells_value = true;
  std::string_view initial = {};  // What the register holds before the first operation; empty: nothing.
};

// Values are numbered in the order in which they occur, from 1 on. An error names the line.
[[nodiscard]] Reported<History> read_register_history(std::string_view text,
                                                      const RegisterOptions& options = {});

}  // namespace refract::linearizability
