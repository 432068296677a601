// SPDX-License-Identifier: Apache-2.0
// refract-doors: what refractd starts where doors.listen is set. See docs/design/076.
#include "refract/doors/process/doors.h"
#include "refract/node/doors/birth.h"

int main() {
  return refract::doors::run_doors(refract::node::kDoorsLink);
}
