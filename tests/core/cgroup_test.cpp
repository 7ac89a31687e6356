// Limits of control groups, read from folders that look like /proc and /sys.
#include "core/cgroup.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <string>

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

 private:
  fs::path path_;
};

}  // namespace

TEST_CASE("without control groups nothing is limited", "[cgroup]") {
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
