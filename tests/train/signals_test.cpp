#include "train/signals.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <functional>
#include <string>

using tandem::train::StopRequest;

namespace {

struct End {
  int code;  // 128 + n for a process ended by signal n
  std::string err;
};

// A process of its own that does this, and ends with 0 if it comes back.
End process(const std::function<void()>& work) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    work();
    ::_exit(0);
  }
  ::close(ends[1]);
  End end;
  std::array<char, 256> bytes;
  for (ssize_t count; (count = ::read(ends[0], bytes.data(), bytes.size())) > 0;)
    end.err.append(bytes.data(), static_cast<std::size_t>(count));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  end.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return end;
}

void hang() {
  for (volatile bool on = true; on;) continue;
}

}  // namespace

TEST_CASE("a process that hangs after the first signal is ended, and says so", "[signals]") {
  const End end = process([] {
    const StopRequest stop("heard", 1);
    ::raise(SIGTERM);
    hang();
  });
  CHECK(end.code == 130);
  CHECK_THAT(end.err, Catch::Contains("\nheard\n") && Catch::Contains("the current step does not end"));
}

TEST_CASE("the second signal ends a process that hangs", "[signals]") {
  for (const int signal : {SIGINT, SIGTERM}) {
    const End end = process([&] {
      const StopRequest stop("heard");
      ::raise(SIGINT);
      ::raise(signal);
      hang();
    });
    CHECK(end.code == 130);
    CHECK(end.err == "\nheard\n");
  }
}

TEST_CASE("a signal that is heard in time ends nothing", "[signals]") {
  const End end = process([] {
    const StopRequest stop("", 1);
    if (stop.asked()) ::_exit(1);
    ::raise(SIGTERM);
    if (!stop.asked()) ::_exit(2);
    ::usleep(1'200'000);  // saves
  });
  CHECK(end.code == 0);
  CHECK(end.err.empty());
}

TEST_CASE("steps that took long are waited for", "[signals]") {
  const End end = process([] {
    const StopRequest stop("", 1);
    ::usleep(200'000);
    if (stop.asked()) ::_exit(1);  // steps of 0.2 s: two seconds at least
    ::raise(SIGTERM);
    ::usleep(1'200'000);
    ::_exit(stop.asked() ? 0 : 2);
  });
  CHECK(end.code == 0);
}
