// SPDX-License-Identifier: Apache-2.0
// The extension, refract._refract: one table of exceptions, one type of buffers, and each store's client.
#include <pybind11/pybind11.h>

#include "python/ext/aio/client.h"
#include "python/ext/buffer.h"
#include "python/ext/creation.h"
#include "python/ext/errors.h"
#include "python/ext/hold.h"
#include "python/ext/kv_link.h"
#include "python/ext/objects_client.h"

PYBIND11_MODULE(_refract, module) {
  pybind11::options options;
  // What the texts begin with is what Python takes for signatures.
  options.disable_function_signatures();
  module.doc() = "What refract is made of; import refract, refract.objects or refract.plasma.";
  refract::python::add_errors(module);
  refract::python::add_hold(module);
  refract::python::add_buffers(module);
  refract::python::add_creation(module);
  refract::python::add_objects(module);
  refract::python::add_kv(module);
  refract::python::aio::add_aio(module);
}
