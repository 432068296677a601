// SPDX-License-Identifier: Apache-2.0
#include "python/ext/errors.h"

#include <array>
#include <string_view>

namespace refract::python {

namespace py = pybind11;

namespace {

struct Row {
  Code code;
  const char* name;
  PyObject* base;  // Beside Error. Null: none.
  // By About.
  std::array<std::string_view, 2> sentence;
  std::array<std::string_view, 2> next;
};

#define REFRACT_EXCEPTION(code, name, base, of_an_object, next, of_a_key, key_next) +1
constexpr size_t kRows = 0
#include "python/ext/errors.def"
    ;
#undef REFRACT_EXCEPTION
// kOk has none.
#define REFRACT_CODE(name, number, text, breaks, retry, sentence) +1
constexpr size_t kCodes = 0
#include "refract/base/codes.def"
    ;
#undef REFRACT_CODE
static_assert(kRows + 1 == kCodes, "errors.def has a row for each code but kOk");

std::array<Row, kRows> rows() {
  return {{
#define REFRACT_EXCEPTION(code, name, base, of_an_object, next, of_a_key, key_next) \
  {Code::code, #name, base, {of_an_object, of_a_key}, {next, key_next}},
#include "python/ext/errors.def"
#undef REFRACT_EXCEPTION
  }};
}

// By the number of a code. They live as long as the interpreter, and are never given back: exceptions are
// raised while it ends, too.
std::array<PyObject*, 256> g_classes{};

const Row* row_of(const std::array<Row, kRows>& all, Code code) {
  for (const Row& row : all) {
    if (row.code == code) return &row;
  }
  return nullptr;
}

const char* retry_text(Retry retry) {
  if (retry == Retry::kNow) return "now";
  return retry == Retry::kLater ? "later" : "never";
}

PyObject* make_class(py::module_& module, const char* name, const std::string& doc, const py::tuple& bases,
                     const py::dict& content) {
  PyObject* made = PyErr_NewExceptionWithDoc(("refract." + std::string(name)).c_str(), doc.c_str(),
                                             bases.ptr(), content.ptr());
  if (made == nullptr) raise_pending();
  module.add_object(name, made);  // Takes a reference of its own.
  return made;
}

}  // namespace

void add_errors(py::module_& module) {
  const py::dict of_error;
  // KeyError would print its text in quotes.
  of_error["__str__"] = py::handle(PyExc_BaseException).attr("__str__");
  of_error["code"] = "";
  of_error["retry"] = "never";
  PyObject* const error =
      make_class(module, "Error",
                 "What every call of this package raises: a sentence, and what to do.\n\n"
                 "code: the name of the code, which never changes: 'not_found'.\n"
                 "retry: whether the same call may succeed when repeated: 'now', 'later' or 'never'.",
                 py::make_tuple(py::handle(PyExc_Exception)), of_error);
  for (const Row& row : rows()) {
    const CodeInfo& known = info(row.code);
    const py::dict content;
    content["code"] = std::string(known.text);
    content["retry"] = retry_text(known.retry);
    // Of a value that is longer than its target.
    if (row.code == Code::kTooLarge) content["value_bytes"] = py::none();
    const py::tuple bases = row.base == nullptr ? py::make_tuple(py::handle(error))
                                                : py::make_tuple(py::handle(error), py::handle(row.base));
    std::string doc = std::string(known.text) + ": " + std::string(known.sentence) + ".";
    const std::string_view of_an_object = row.sentence[static_cast<size_t>(About::kObject)];
    if (!of_an_object.empty()) doc += " Of an object: " + std::string(of_an_object) + ".";
    g_classes[static_cast<size_t>(row.code)] = make_class(module, row.name, doc, bases, content);
  }
}

Report explain(Code code, const std::string& what, const Report& trouble, About about) {
  const auto all = rows();
  const Row* const row = row_of(all, code);
  const std::string_view sentence = row == nullptr ? "" : row->sentence[static_cast<size_t>(about)];
  Report said{code, what + ": ", ""};
  if (trouble.code == code && !trouble.what.empty()) {
    said.what += trouble.what;
    said.next = trouble.next;
  } else {
    said.what += sentence.empty() ? info(code).sentence : sentence;
  }
  if (said.next.empty() && row != nullptr) said.next = row->next[static_cast<size_t>(about)];
  return said;
}

bool is_set(Code code) noexcept {
  PyObject* const type = g_classes[static_cast<size_t>(code)];
  return type != nullptr && PyErr_ExceptionMatches(type) != 0;
}

bool is_of(PyObject* error, Code code) noexcept {
  PyObject* const type = g_classes[static_cast<size_t>(code)];
  return type != nullptr && PyErr_GivenExceptionMatches(error, type) != 0;
}

py::object error_of(const Report& report) {
  PyObject* type = g_classes[static_cast<size_t>(report.code)];
  // kOk is none of these, and kMalformed stands for numbers without a row.
  if (type == nullptr) type = g_classes[static_cast<size_t>(Code::kMalformed)];
  return py::reinterpret_borrow<py::object>(type)(report.to_string());
}

void raise(const Report& report) {
  const py::object error = error_of(report);
  PyErr_SetObject(py::type::handle_of(error).ptr(), error.ptr());
  raise_pending();
}

void raise_invalid(const std::string& what, const std::string& next) {
  raise({Code::kInvalidArgument, what, next});
}

void raise_type(const std::string& what) {
  PyErr_SetString(PyExc_TypeError, what.c_str());
  raise_pending();
}

void raise_pending() {
  throw py::error_already_set();
}

}  // namespace refract::python
