#include "core/cgroup.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

namespace fs = std::filesystem;

namespace {

template <class T>
void tighten(std::optional<T>& limit, T value) {
  limit = limit ? std::min(*limit, value) : value;
}

// The group at `path` of a hierarchy and its visible ancestors.
std::vector<fs::path> groups_of(const fs::path& hierarchy, const std::string& path) {
  std::vector<fs::path> groups{hierarchy};
  for (const fs::path& part : fs::path(path).relative_path()) groups.push_back(groups.back() / part);
  return groups;
}

// "max 100000" or "200000 100000": microseconds per period.
void read_cpu_max(const fs::path& file, CgroupLimits& limits) {
  std::ifstream text(file);
  double quota = 0.0, period = 0.0;
  if (text >> quota >> period && quota > 0.0 && period > 0.0) tighten(limits.cpus, quota / period);
}

// -1: no limit.
void read_cfs_quota(const fs::path& group, CgroupLimits& limits) {
  std::ifstream quota_text(group / "cpu.cfs_quota_us"), period_text(group / "cpu.cfs_period_us");
  double quota = 0.0, period = 0.0;
  if (quota_text >> quota && period_text >> period && quota > 0.0 && period > 0.0)
    tighten(limits.cpus, quota / period);
}

// "max", or bytes; version 1 writes a number near 2^63 for unlimited.
void read_memory(const fs::path& file, CgroupLimits& limits) {
  std::ifstream text(file);
  std::size_t bytes = 0;
  if (text >> bytes && bytes > 0) tighten(limits.memory, bytes);
}

bool has(std::string_view controllers, std::string_view name) {
  for (std::size_t at = 0; at <= controllers.size();) {
    const std::size_t end = std::min(controllers.find(',', at), controllers.size());
    if (controllers.substr(at, end - at) == name) return true;
    at = end + 1;
  }
  return false;
}

}  // namespace

CgroupLimits cgroup_limits(const fs::path& root) {
  CgroupLimits limits;
  const fs::path mounts = root / "sys/fs/cgroup";
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // "hierarchy:controllers:path"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {  // version 2, alone or beside version 1
      for (const fs::path& mount : {mounts, mounts / "unified"})
        for (const fs::path& group : groups_of(mount, path)) {
          read_cpu_max(group / "cpu.max", limits);
          read_memory(group / "memory.max", limits);
        }
    }
    // Version 1: a hierarchy is mounted under the joined names of its controllers, with a link for each.
    const auto version_1 = [&](const char* controller, auto read) {
      if (!has(controllers, controller)) return;
      for (const fs::path& mount : {mounts / controllers, mounts / controller})
        for (const fs::path& group : groups_of(mount, path)) read(group);
    };
    version_1("cpu", [&](const fs::path& group) { read_cfs_quota(group, limits); });
    version_1("memory", [&](const fs::path& group) { read_memory(group / "memory.limit_in_bytes", limits); });
  }
  return limits;
}

}  // namespace tandem
