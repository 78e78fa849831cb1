// The floating-point environment that results are defined in.
#pragma once

#include <hwy/detect_compiler_arch.h>

#include <cstdint>

#if HWY_ARCH_X86
#include <xmmintrin.h>
#endif

namespace floe {

// While it lives: round to nearest even, subnormals kept, nothing traps. A program linked with -ffast-math,
// or one that called torch.set_flush_denormal, has threads that flush subnormals, and others that do not:
// its sums would depend on which thread adds them.
class FloatEnvironment {
 public:
  FloatEnvironment() : before_(read()) {
    if ((before_ & kControl) != kDefault) write((before_ & ~kControl) | kDefault);
  }
  ~FloatEnvironment() {
    if ((before_ & kControl) != kDefault) write(before_);
  }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
#if HWY_ARCH_X86
  using Word = uint32_t;
  static constexpr Word kControl = 0xFFC0;  // MXCSR but its sticky flags
  static constexpr Word kDefault = 0x1F80;  // all exceptions masked
  static Word read() { return _mm_getcsr(); }
  static void write(Word word) { _mm_setcsr(word); }
#elif HWY_ARCH_ARM_A64
  using Word = uint64_t;
  static constexpr Word kControl = 0x7FFFFFF;  // FPCR
  static constexpr Word kDefault = 0;
  static Word read() {
    Word word;
    asm volatile("mrs %0, fpcr" : "=r"(word));
    return word;
  }
  static void write(Word word) { asm volatile("msr fpcr, %0" : : "r"(word)); }
#else
  using Word = uint32_t;
  static constexpr Word kControl = 0;
  static constexpr Word kDefault = 0;
  static Word read() { return 0; }
  static void write(Word) {}
#endif

  Word before_;
};

}  // namespace floe
