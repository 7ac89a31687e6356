// Deadlines: how time is counted, and the end of calls that do not come back.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <thread>

#include "parallel/exit_watch.h"
#include "parallel/last_words.h"
#include "parallel/patience.h"

using namespace tandem::parallel;

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

TEST_CASE("patience ends, and not before its time", "[parallel]") {
  const auto start = Clock::now();
  Patience patience(0.2);
  int looks = 0;
  for (; !patience.over(); ++looks) patience.pause();
  CHECK(seconds_since(start) >= 0.2);
  CHECK(patience.waited_s() >= 0.2);
  CHECK(looks > 20);
}

TEST_CASE("time in which the process itself was stopped is not waited", "[parallel]") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const auto start = Clock::now();
    Patience patience(2.0);
    while (!patience.over()) patience.pause();
    // Stopped for 3 s at least: of these no more than kLongestGap count.
    _exit(seconds_since(start) >= 3.9 ? 0 : 1);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  kill(child, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(3000));
  kill(child, SIGCONT);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a watch ends the process with its words", "[parallel]") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    {
      const ExitWatch watch(60, 3, [] { return std::string("not these"); });
    }
    const ExitWatch watch(0.05, 4, [] { return words_of_rank(1, 2, "over\nand out"); });
    pause();
    _exit(0);
  }
  close(ends[1]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 4);
  char text[100];
  const auto length = read(ends[0], text, sizeof text);
  close(ends[0]);
  REQUIRE(length > 0);
  CHECK(std::string(text, static_cast<std::size_t>(length)) == "rank 1 of 2: over\\nand out\n");
}
