#include "host_limits.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "topo/topology.h"

namespace floe::info {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// The first line's words; none if the file can't be read.
std::vector<std::string> words_of(const std::string& path) {
  std::ifstream file(path);
  std::string line, word;
  std::getline(file, line);
  std::istringstream stream(line);
  std::vector<std::string> words;
  while (stream >> word) words.push_back(word);
  return words;
}

std::optional<double> number_in(const std::string& path, size_t index = 0) {
  const auto words = words_of(path);
  if (index >= words.size()) return std::nullopt;
  std::istringstream stream(words[index]);
  double value = 0;
  return stream >> value ? std::optional(value) : std::nullopt;  // "max" is none
}

struct Names {
  std::string quota, period;  // the period may be the quota's second word
  std::string limit, used;
};

// One cgroup's limits, if they are tighter than what was found before.
void tighten(CgroupLimits& limits, const std::string& directory, const Names& names) {
  const auto quota = number_in(directory + names.quota);
  const bool same_file = names.period == names.quota;
  const auto period = number_in(directory + names.period, same_file ? 1 : 0);
  if (quota && period && *quota > 0 && *period > 0)
    limits.cpus = std::min(limits.cpus.value_or(*quota / *period), *quota / *period);
  constexpr double kNoLimit = 1ull << 60;  // version 1 says the largest number of pages
  const auto bytes = number_in(directory + names.limit);
  if (!bytes || *bytes >= kNoLimit || *bytes >= static_cast<double>(limits.memory_bytes.value_or(UINT64_MAX)))
    return;
  limits.memory_bytes = static_cast<uint64_t>(*bytes);
  limits.memory_used = static_cast<uint64_t>(number_in(directory + names.used).value_or(0));
}

// The cgroup and all that it lies in. A container sees its own at the top, whatever its path says.
void tighten_upwards(CgroupLimits& limits, const std::string& mount, std::filesystem::path path,
                     const Names& names) {
  for (;; path = path.parent_path()) {
    tighten(limits, mount + path.string() + '/', names);
    if (!path.has_relative_path()) return;
  }
}

}  // namespace

CgroupLimits read_cgroup_limits(const std::string& root) {
  CgroupLimits limits;
  std::ifstream file(root + "/proc/self/cgroup");
  const std::string mount = root + "/sys/fs/cgroup";
  for (std::string line; std::getline(file, line);) {  // "4:memory:/path", or "0::/path" of version 2
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = ',' + line.substr(first + 1, second - first - 1) + ',';
    const std::filesystem::path path = line.substr(second + 1);
    if (controllers == ",,")
      tighten_upwards(limits, mount, path, {"cpu.max", "cpu.max", "memory.max", "memory.current"});
    if (controllers.find(",cpu,") != controllers.npos)
      tighten_upwards(limits, mount + "/cpu", path, {"cpu.cfs_quota_us", "cpu.cfs_period_us", "", ""});
    if (controllers.find(",memory,") != controllers.npos)
      tighten_upwards(limits, mount + "/memory", path,
                      {"", "", "memory.limit_in_bytes", "memory.usage_in_bytes"});
  }
  return limits;
}

std::string size_text(uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  auto value = static_cast<double>(bytes);
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, unit == 0 ? 0 : 1, kUnits[unit]);
}

namespace {

void check_cpus(Findings& findings, uint32_t ranks, const CgroupLimits& limits) {
  const size_t allowed = allowed_cpus().size();
  const std::string text =
      limits.cpus ? fmt::format("{} allowed, and a cgroup's limit of {:.4g}", allowed, *limits.cpus)
                  : fmt::format("{} allowed, no cgroup limit", allowed);
  if (allowed < ranks)
    findings.note(
        "CPUs", text,
        fmt::format("{} ranks share them: start at most {} here, or allow more CPUs", ranks, allowed));
  else if (limits.cpus && *limits.cpus < ranks)
    findings.wrong(
        "CPUs", text,
        fmt::format("{} ranks need a CPU each, or the kernel stops them for most of each 100 ms: raise "
                    "the container's CPU limit to {} or start fewer ranks",
                    ranks, ranks));
  else if (limits.cpus && *limits.cpus < static_cast<double>(allowed))
    findings.note(
        "CPUs", text,
        fmt::format("programs count the {0} CPUs and start as many threads, which are then stopped by the "
                    "limit: set OMP_NUM_THREADS to {1:.0f} / ranks, or give the container a CPU set",
                    allowed, *limits.cpus));
  else
    findings.good("CPUs", text);
}

void check_memory(Findings& findings, uint32_t ranks, const CgroupLimits& limits) {
  constexpr uint64_t kOfARank =
      64 * kMiB;  // 4 MiB shared for each rank of the host, and libfabric's 22 to 90
  const uint64_t pages = static_cast<uint64_t>(std::max(0L, ::sysconf(_SC_AVPHYS_PAGES)));
  uint64_t left = pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  std::string text = fmt::format("{} free", size_text(left));
  if (limits.memory_bytes) {
    left = *limits.memory_bytes - std::min(*limits.memory_bytes, limits.memory_used);
    text = fmt::format("{} of a cgroup's {} are left, caches not counted", size_text(left),
                       size_text(*limits.memory_bytes));
  }
  if (left < ranks * kOfARank)
    findings.note("memory", text,
                  fmt::format("{} ranks of floe alone take up to {}: raise the container's memory limit",
                              ranks, size_text(ranks * kOfARank)));
  else
    findings.good("memory", text);
}

std::string limit_text(rlim_t value) { return value == RLIM_INFINITY ? "unlimited" : size_text(value); }

// Only RDMA cards need memory that stays where it is.
void check_locked_memory(Findings& findings) {
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  std::error_code none;
  const bool cards = !std::filesystem::is_empty("/sys/class/infiniband", none) && !none;
  const std::string text = fmt::format("{} may be locked, {}", limit_text(limit.rlim_cur),
                                       cards ? "and there is an RDMA card" : "no RDMA card needs it");
  if (cards && limit.rlim_cur != RLIM_INFINITY)
    findings.wrong("memlock", text,
                   "the card's memory can't be registered: ulimit -l unlimited, LimitMEMLOCK=infinity, "
                   "docker run --ulimit memlock=-1");
  else
    findings.good("memlock", text);
}

void check_descriptors(Findings& findings) {
  constexpr rlim_t kEnough = 1024;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const std::string text =
      limit.rlim_cur == RLIM_INFINITY ? "unlimited" : fmt::format("{} allowed", limit.rlim_cur);
  if (limit.rlim_cur < kEnough)
    findings.note(
        "descriptors", text,
        fmt::format(
            "a rank holds about 5 for each rank of its host and 2 for each other one: ulimit -n {} or more",
            kEnough));
  else
    findings.good("descriptors", text);
}

void check_shared_memory(Findings& findings, uint32_t ranks, bool uses_shm, const std::string& provider) {
  struct statvfs fs {};
  const bool mounted = ::statvfs("/dev/shm", &fs) == 0;
  const uint64_t bytes = mounted ? uint64_t{fs.f_blocks} * fs.f_frsize : 0;
  const std::string text = mounted ? size_text(bytes) : "not mounted";
  constexpr uint64_t kOfARank = 16 * kMiB;
  if (!uses_shm && provider == "shm" && bytes < ranks * kOfARank)
    findings.wrong("/dev/shm", text,
                   fmt::format("libfabric's shm provider keeps its queues there: docker run --shm-size={}m, "
                               "or FLOE_SHM=on, which does without",
                               ranks * kOfARank / kMiB));
  else
    findings.good("/dev/shm", text + "; floe does not need it");
  const UniqueFd fd(::memfd_create("floe-info", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (fd.valid() && ::ftruncate(fd.get(), 4096) == 0 && ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0)
    findings.good("memfd", "shared memory can be made");
  else
    findings.wrong("memfd", fmt::format("shared memory can't be made: {}", std::strerror(errno)),
                   "allow memfd_create in the container's seccomp profile, or set FLOE_SHM=off");
}

// Ranks are siblings: what a child may read of this process, they may of each other.
void check_peers_memory(Findings& findings) {
  const pid_t parent = ::getpid(), child = ::fork();
  if (child == 0) {
    std::array<char, 2> bytes{};
    const iovec here{&bytes[0], 1}, there{&bytes[1], 1};
    ::_exit(::process_vm_readv(parent, &here, 1, &there, 1, 0) < 0 ? errno : 0);
  }
  int status = 0;
  const bool known = child > 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status);
  if (known && WEXITSTATUS(status) == 0)
    findings.good("peers' memory", "ranks of a host can read it: long messages may be copied once");
  else
    findings.note("peers' memory",
                  fmt::format("ranks of a host can't read it{}{}: long messages are copied twice",
                              known ? ": " : "", known ? std::strerror(WEXITSTATUS(status)) : ""),
                  "sysctl kernel.yama.ptrace_scope=0, and allow process_vm_readv in the container's seccomp "
                  "profile; some MPIs need that, too");
}

}  // namespace

void check_limits(Findings& findings, uint32_t ranks, bool uses_shm, const std::string& provider) {
  const CgroupLimits limits = read_cgroup_limits();
  check_cpus(findings, ranks, limits);
  check_memory(findings, ranks, limits);
  check_locked_memory(findings);
  check_descriptors(findings);
  check_shared_memory(findings, ranks, uses_shm, provider);
  if (uses_shm) check_peers_memory(findings);
}

}  // namespace floe::info
