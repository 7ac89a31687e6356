// Limits of control groups, read from imitations of /proc and /sys.
#include "core/cgroup.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "core/cpu/cpu_features.h"

using namespace tandem;
namespace fs = std::filesystem;

namespace {

class Root {
 public:
  Root() {
    std::string name = fs::temp_directory_path() / "tandem-cgroup-XXXXXX";
    REQUIRE(::mkdtemp(name.data()));
    path_ = name;
  }
  ~Root() { fs::remove_all(path_); }

  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file) << text;
  }
  CgroupLimits limits() const { return cgroup_limits(path_); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace

TEST_CASE("there is no limit without control groups", "[cgroup]") {
  const Root root;
  CHECK_FALSE(root.limits().cpus);
  CHECK_FALSE(root.limits().memory);
  root.write("proc/self/cgroup", "nonsense\n0::/\n3:\n");
  root.write("sys/fs/cgroup/cpu.max", "max 100000\n");
  root.write("sys/fs/cgroup/memory.max", "max\n");
  CHECK_FALSE(root.limits().cpus);
  CHECK_FALSE(root.limits().memory);
}

TEST_CASE("version 2: the strictest group on the way up limits", "[cgroup]") {
  const Root root;
  root.write("proc/self/cgroup", "0::/outer/inner\n");
  root.write("sys/fs/cgroup/outer/cpu.max", "150000 100000\n");
  root.write("sys/fs/cgroup/outer/inner/cpu.max", "400000 100000\n");
  root.write("sys/fs/cgroup/outer/memory.max", "2000000000\n");
  root.write("sys/fs/cgroup/outer/inner/memory.max", "1000000000\n");
  CHECK(root.limits().cpus == 1.5);
  CHECK(root.limits().memory == 1000000000U);
}

// As a container sees it: the path is the host's, the files lie at the top.
TEST_CASE("version 1: quotas of the hierarchies of cpu and memory limit", "[cgroup]") {
  const Root root;
  root.write("proc/self/cgroup", "4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n1:cpuset:/\n");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000\n");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n");
  CHECK(root.limits().cpus == 2.5);
  CHECK(root.limits().memory == 536870912U);
  root.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  CHECK_FALSE(root.limits().cpus);
}

TEST_CASE("version 1: the strictest group on the way up limits, however its hierarchy is mounted",
          "[cgroup]") {
  const Root root;
  root.write("proc/self/cgroup", "2:cpuacct,cpu:/pods/one\n");
  for (const char* mount : {"cpuacct,cpu", "cpu"}) {
    const std::string cpu = std::string("sys/fs/cgroup/") + mount;
    root.write(cpu + "/pods/cpu.cfs_quota_us", "150000\n");
    root.write(cpu + "/pods/cpu.cfs_period_us", "50000\n");
    root.write(cpu + "/pods/one/cpu.cfs_quota_us", "-1\n");
    root.write(cpu + "/pods/one/cpu.cfs_period_us", "100000\n");
    CHECK(root.limits().cpus == 3.0);
    fs::remove_all(root.path() / "sys");
    CHECK_FALSE(root.limits().cpus);
  }
}

TEST_CASE("both versions side by side limit", "[cgroup]") {
  const Root root;
  root.write("proc/self/cgroup", "1:memory:/job\n0::/job\n");
  root.write("sys/fs/cgroup/unified/job/cpu.max", "50000 100000\n");
  root.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1048576\n");
  CHECK(root.limits().cpus == 0.5);
  CHECK(root.limits().memory == 1048576U);
}

TEST_CASE("the quota of a container bounds the CPUs that are used, rounded up", "[cgroup]") {
  const Root root;
  const int available = cpu::available_cpus();
  CHECK(cpu::usable_cpus(root.path()) == available);
  root.write("proc/self/cgroup", "0::/\n");
  const auto usable = [&](double cpus) {
    root.write("sys/fs/cgroup/cpu.max", std::to_string(static_cast<int>(1e5 * cpus)) + " 100000\n");
    return cpu::usable_cpus(root.path());
  };
  CHECK(usable(0.2) == 1);
  CHECK(usable(1.0) == 1);
  CHECK(usable(1.5) == std::min(2, available));
  CHECK(usable(available + 0.5) == available);
  CHECK(usable(1000.0) == available);
}
