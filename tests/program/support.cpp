#include "tests/program/support.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <thread>

namespace tandem::testing {

namespace {

constexpr auto kPoll = std::chrono::milliseconds(2);

void lead(Sink sink, const std::string& kept, int to) {
  int file = -1;
  if (sink == Sink::unread) {
    int ends[2];
    if (::pipe(ends) != 0) ::_exit(126);
    ::close(ends[0]);
    file = ends[1];
  } else if (sink != Sink::closed) {
    file = ::open(sink == Sink::full_disk ? "/dev/full" : kept.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  }
  if (file >= 0) ::dup2(file, to);
  ::close(file >= 0 ? file : to);
}

[[noreturn]] void become_program(const Launch& launch, const std::string& out, const std::string& err) {
  lead(launch.out, out, STDOUT_FILENO);
  lead(launch.err, err, STDERR_FILENO);
  const rlimit limit{launch.largest_file, launch.largest_file};
  if (launch.largest_file > 0) ::setrlimit(RLIMIT_FSIZE, &limit);
  // Two threads that wait for each other are slow where the cores are busy with other tests.
  ::setenv("OMP_NUM_THREADS", "1", 1);
  for (const auto& [name, value] : launch.environment) ::setenv(name.c_str(), value.c_str(), 1);
  if (::chdir(launch.directory.c_str()) != 0) ::_exit(126);
  std::vector<char*> arguments{const_cast<char*>(launch.program)};
  for (const auto& argument : launch.arguments) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  ::execv(launch.program, arguments.data());
  ::_exit(127);
}

}  // namespace

Outcome launch(const Launch& launch) {
  const TemporaryDirectory files;
  const std::string out = files.path() / "out", err = files.path() / "err";
  const pid_t child = ::fork();
  if (child == 0) become_program(launch, out, err);
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (launch.watch) {
      if (const int signal = launch.watch()) ::kill(child, signal);
    }
    std::this_thread::sleep_for(kPoll);
  }
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_text(out), read_text(err)};
}

std::vector<nlohmann::json> json_lines(const std::filesystem::path& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

std::vector<nlohmann::json> events_of(const std::filesystem::path& run, const std::string& kind,
                                      const std::string& phase) {
  std::vector<nlohmann::json> found;
  for (nlohmann::json& event : json_lines(run / "metrics.jsonl"))
    if (event["event"] == kind && (phase.empty() || event.value("phase", "") == phase))
      found.push_back(std::move(event));
  return found;
}

nlohmann::json end_of(const std::filesystem::path& run) {
  const auto lines = json_lines(run / "metrics.jsonl");
  REQUIRE_FALSE(lines.empty());
  return lines.back();
}

bool same_end(const std::filesystem::path& a, const std::filesystem::path& b) {
  const auto figures = [](const std::filesystem::path& run) {
    std::vector<nlohmann::json> all;
    for (const nlohmann::json& event : events_of(run, "eval")) all.push_back(event["metrics"]);
    return all;
  };
  return saved_tensors(a, "weights") == saved_tensors(b, "weights") &&
         saved_tensors(a, "state") == saved_tensors(b, "state") && figures(a) == figures(b);
}

std::vector<std::string> joined(std::vector<std::string> first, const std::vector<std::string>& then) {
  first.insert(first.end(), then.begin(), then.end());
  return first;
}

Outcome must(Outcome outcome) {
  INFO(outcome.err << outcome.out);
  REQUIRE(outcome.exit_code == 0);
  return outcome;
}

std::string refused(const Outcome& outcome) {
  INFO(outcome.err << outcome.out);
  CHECK(outcome.exit_code == 2);
  CHECK(line_count(outcome.err) == 1);
  return outcome.err;
}

}  // namespace tandem::testing
