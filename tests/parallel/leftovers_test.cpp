// Shared memory of ranks whose mpirun was killed.
#include "parallel/leftovers.h"

#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/temporary_files.h"

using namespace tandem;
using testing::TemporaryDirectory;

TEST_CASE("segments of an mpirun that is gone are removed, and no others", "[parallel]") {
  const TemporaryDirectory directory;
  const pid_t gone = ::fork();
  if (gone == 0) ::_exit(0);
  ::waitpid(gone, nullptr, 0);
  const auto session = [&](const std::string& folder, pid_t process, std::uint32_t family) {
    directory.write(fmt::format("{}/pid.{}/contact.txt", folder, process),
                    fmt::format("{}.0;tcp://10.0.0.1:59655\n{}\n", family << 16, process));
  };
  session("ompi.host.0", gone, 0x59c4);
  session("ompi.host.0", ::getpid(), 0x1111);
  session("ompi.host.7", gone, 0x2222);  // another user's
  directory.write("ompi.host.0/pid.1/contact.txt", "damaged");
  const auto segment = [&](const std::string& name) {
    return std::filesystem::path(directory.write("shm/" + name, "memory"));
  };
  const auto first = segment("vader_segment.host.0.59c40001.0"),
             second = segment("vader_segment.host.0.59c40001.1");
  const std::filesystem::path kept[] = {
      segment("vader_segment.host.0.11110001.0"), segment("vader_segment.host.7.59c40001.0"),
      segment("vader_segment.host.7.22220001.0"), segment("vader_segment.other.0.59c40001.0"),
      segment("vader_segment.host.0.59c50001.0"), segment("vader_segment.host.0.59c40001"),
      segment("vader_segment.host.0.x.0"),        segment("another")};
  const std::filesystem::path own = directory.path() / fmt::format("ompi.host.0/pid.{}", ::getpid());
  parallel::remove_leftover_segments(own, directory.path() / "shm");
  CHECK_FALSE(std::filesystem::exists(first));
  CHECK_FALSE(std::filesystem::exists(second));
  for (const auto& path : kept) CHECK(std::filesystem::exists(path));
  parallel::remove_leftover_segments("", directory.path() / "shm");
  parallel::remove_leftover_segments(own, directory.path() / "nowhere");
}
