// The record that ranks of a host share.
#include "parallel/rank_status.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>

using namespace tandem;
using namespace tandem::parallel;

namespace {

class Folder {
 public:
  Folder() {
    std::string name = std::filesystem::temp_directory_path() / "tandem-arrivals-XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

TEST_CASE("ranks of a folder see each other", "[parallel]") {
  const Folder folder;
  RankStatusBoard zero(0, 3, folder.path());
  CHECK(zero.read().size() == 1);
  RankStatusBoard two(2, 3, folder.path());
  CHECK(zero.id() == two.id());
  two.begun(1, Call::all_reduce);
  two.begun(2, Call::barrier);
  const std::vector<RankStatus> arrivals = zero.read();
  REQUIRE(arrivals.size() == 2);
  CHECK(arrivals[1].rank == 2);
  CHECK(arrivals[1].process == getpid());
  CHECK(arrivals[1].begun == 2);
  CHECK(arrivals[1].oldest == 1);
  CHECK(arrivals[1].call == Call::barrier);
  CHECK(arrivals[1].state == ProcessState::runs);
  CHECK(arrivals[1].silent_ms < 60000);
  two.ended_below(3);
  CHECK(zero.read()[1].oldest == 3);
  CHECK(two.first_to_abort());
  CHECK_FALSE(zero.first_to_abort());
  two.unlink();
  CHECK(std::filesystem::is_empty(folder.path()));
  const RankStatusBoard later(1, 3, folder.path());  // of another run
  CHECK(later.id() != zero.id());
}

TEST_CASE("a rank without a folder, or with one that cannot be used, is alone", "[parallel]") {
  const RankStatusBoard a(0, 2, ""), b(1, 2, ""), c(1, 2, "/nowhere/at/all");
  CHECK(a.id() != b.id());
  CHECK(b.id() != c.id());
  REQUIRE(a.read().size() == 1);
  CHECK(c.read()[0].rank == 1);
}

TEST_CASE("a record is read while its owner is stopped, and when it is gone", "[parallel]") {
  const Folder folder;
  const RankStatusBoard zero(0, 2, folder.path());
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    RankStatusBoard one(1, 2, folder.path());
    one.begun(5, Call::broadcast);
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, WUNTRACED) == child);
  REQUIRE(WIFSTOPPED(status));
  CHECK(zero.read().at(1).process == child);
  CHECK(zero.read().at(1).state == ProcessState::stopped);
  CHECK(zero.read().at(1).begun == 5);
  kill(child, SIGKILL);
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(zero.read().at(1).state == ProcessState::ended);
}
