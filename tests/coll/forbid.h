// A thread that the kernel refuses a call, as a sandbox may.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>  // SYS_...

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace floe::test {

// `call`: such as SYS_membarrier. From now on, for this thread and those that it starts; false: seccomp(2) is
// not to be had. `action`: what becomes of a call.
inline bool forbid(uint32_t call, uint32_t action = SECCOMP_RET_ERRNO | EPERM) {
  std::array<sock_filter, 4> code{{
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, call},
      {BPF_RET | BPF_K, 0, 0, action},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  }};
  const sock_fprog program{code.size(), code.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace floe::test
