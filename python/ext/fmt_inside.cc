// SPDX-License-Identifier: Apache-2.0
// What the layers below call of fmt, inside of the extension: the folder build/python is copied to hosts that
// have no libfmt.so of this version, and Debian has no static one.
//
// Hidden, whatever the build says of fmt's own library.
#undef FMT_SHARED

#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

// Declared by fmt as instantiated elsewhere.
template auto dragonbox::to_decimal(float) noexcept -> dragonbox::decimal_fp<float>;
template auto dragonbox::to_decimal(double) noexcept -> dragonbox::decimal_fp<double>;
template auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl(locale_ref) -> char;
template void buffer<char>::append(const char*, const char*);

}  // namespace detail
FMT_END_NAMESPACE
