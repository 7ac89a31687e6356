// What a container may use: the limits of the Linux control groups this process is in.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>

namespace tandem {

struct CgroupLimits {
  std::optional<double> cpus;         // CPU time a second, as a count of CPUs; absent: not limited
  std::optional<std::size_t> memory;  // bytes
};

// The strictest of the process's own groups and those around them, version 1 and 2 (Linux kernel, "Control
// Groups": cpu.max, memory.max; cpu.cfs_quota_us, memory.limit_in_bytes). What cannot be read is no limit.
// `root` is where /proc and /sys are.
CgroupLimits cgroup_limits(const std::filesystem::path& root = "/");

}  // namespace tandem
