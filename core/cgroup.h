// Resource limits of the Linux control groups (containers) of this process.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>

namespace tandem {

struct CgroupLimits {
  std::optional<double> cpus;         // CPU time per second, in CPUs; absent: unlimited
  std::optional<std::size_t> memory;  // bytes
};

// The strictest limits of the process's groups and their ancestors, version 1 and 2 (Linux kernel, "Control
// Groups": cpu.max, memory.max; cpu.cfs_quota_us, memory.limit_in_bytes). Unreadable files impose no limit.
// `root` contains /proc and /sys.
CgroupLimits cgroup_limits(const std::filesystem::path& root = "/");

}  // namespace tandem
