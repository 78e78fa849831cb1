// fmt's own functions, compiled once. Distributions have them as a shared library, which libfloe.so should
// not need where it runs; and as a header, which doubles the time to compile a file.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {
template auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl<char>(locale_ref) -> char;
}  // namespace detail
FMT_END_NAMESPACE
