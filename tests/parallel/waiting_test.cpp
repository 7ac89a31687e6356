// Deadlines: counting of time, and the end of calls that do not return.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <thread>

#include "parallel/abort_message.h"
#include "parallel/deadline.h"
#include "parallel/watchdog.h"

using namespace tandem::parallel;

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

TEST_CASE("patience ends, and not before its time", "[parallel]") {
  const auto start = Clock::now();
  Deadline patience(0.2);
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
    Deadline patience(2.0);
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
      const ExitWatch watch(60, 3, [] { write_abort_message("not these"); });
    }
    const ExitWatch watch(0.05, 4, [] { write_abort_message(words_of_rank(1, 2, "over\nand out")); });
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

namespace {

// How a process ends that does this; -1: not within ten seconds.
template <class Work>
int exit_code_of(Work&& work) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(10);
    work();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("a call that does not come back ends the process, and many that do end nothing", "[parallel]") {
  CHECK(exit_code_of([] {
          CallWatch watch(0.5, [] {});
          const CallWatch::Inside inside(watch);
          pause();
        }) == 1);
  CHECK(exit_code_of([] {
          CallWatch watch(0.5, [] {});
          const auto start = Clock::now();
          while (seconds_since(start) < 1.5) {
            const CallWatch::Inside inside(watch);
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
          }
          std::this_thread::sleep_for(std::chrono::milliseconds(1000));  // outside
        }) == 0);
}

namespace {

// Ends as `launcher` does, whose only child calls end_launcher_after and ends.
int exit_of_launcher(void (*launcher)()) {
  return exit_code_of([launcher] {
    const pid_t child = fork();
    if (child == 0) {
      end_launcher_after(0.5);
      _exit(0);
    }
    waitpid(child, nullptr, 0);
    launcher();
  });
}

}  // namespace

TEST_CASE("a launcher that stays is ended, and one that ends in time is not", "[parallel]") {
  CHECK(exit_of_launcher([] { pause(); }) == -1);
  CHECK(exit_of_launcher([] { std::this_thread::sleep_for(std::chrono::milliseconds(100)); }) == 0);
}

TEST_CASE("last words do not wait for a reader that is not there", "[parallel]") {
  CHECK(exit_code_of([] {
          int ends[2];
          if (pipe(ends) != 0) _exit(3);
          dup2(ends[1], STDERR_FILENO);
          fcntl(ends[1], F_SETFL, O_NONBLOCK);
          const std::string block(4096, 'x');
          while (write(ends[1], block.data(), block.size()) > 0) {
          }
          fcntl(ends[1], F_SETFL, 0);
          write_abort_message("nobody hears this");
        }) == 0);
}
