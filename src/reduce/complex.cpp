// Products of complex numbers. They are rare: one plain loop serves every instruction set, and so gives the
// same bits on all. (Sums are those of the real and imaginary parts.)
#include <cmath>
#include <cstring>
#include <limits>

#include "reduce/kernels.h"

namespace floe {
namespace {

template <class T>
struct Complex {
  T real, imaginary;
};

template <class T>
Complex<T> load(const void* base, uint64_t index) {
  Complex<T> value;
  std::memcpy(&value, static_cast<const std::byte*>(base) + index * sizeof(value), sizeof(value));
  return value;
}

// The textbook's formula, as PyTorch's: infinities are not recovered from NaN as in C's Annex G.
template <class T>
Complex<T> multiply(Complex<T> a, Complex<T> b) {
  return {a.real * b.real - a.imaginary * b.imaginary, a.real * b.imaginary + a.imaginary * b.real};
}

template <class T>
T canonical(T value) {
  return std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value;
}

template <class T>
void product(const Job& job) {
  for (uint64_t i = job.begin; i < job.end; ++i) {
    Complex<T> value = load<T>(job.sources[0], i);
    for (size_t s = 1; s < job.source_count; ++s) value = multiply(value, load<T>(job.sources[s], i));
    value = {canonical(value.real), canonical(value.imaginary)};
    for (void* to : job.destinations)
      std::memcpy(static_cast<std::byte*>(to) + i * sizeof(value), &value, sizeof(value));
  }
}

}  // namespace

void add_complex_kernels(KernelTable& table) {
  table[FLOE_COMPLEX64][FLOE_PRODUCT] = {product<float>, product<float>, product<float>, product<float>};
  table[FLOE_COMPLEX128][FLOE_PRODUCT] = {product<double>, product<double>, product<double>, product<double>};
}

}  // namespace floe
