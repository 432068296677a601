// SPDX-License-Identifier: Apache-2.0
// refract.objects.Client and its subscriptions: the calls of refract/client/objects.h, for Python.
//
// Threads: any. The GIL is held, and let go of for what waits or copies much.
#pragma once

#include <pybind11/pybind11.h>

namespace refract::python {

void add_objects(pybind11::module_& module);

}  // namespace refract::python
