// SPDX-License-Identifier: Apache-2.0
// refract: the command line client. See refract --help.
#include <cstdio>

#include "refract/node/config.h"

int main() {
  std::fputs(refract::node::version_text().c_str(), stdout);
  return 0;
}
