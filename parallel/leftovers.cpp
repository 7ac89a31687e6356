#include "parallel/leftovers.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

namespace tandem::parallel {

namespace fs = std::filesystem;

namespace {

// Upper half of the job numbers of one mpirun, common to its jobs.
using Family = std::uint32_t;
constexpr int kFamilyBits = 16;

// The family of an mpirun that has ended; empty if it runs, or may. Its contact.txt has
// "1506017280.0;tcp://…", the number of its own job, and its process id in the next line.
std::optional<Family> family_of_ended(const fs::path& session) {
  std::ifstream contact(session / "contact.txt");
  std::uint32_t job = 0;
  std::string addresses;
  pid_t process = 0;
  if (!(contact >> job) || !std::getline(contact, addresses) || !(contact >> process)) return {};
  if (process <= 0 || session.filename() != fmt::format("pid.{}", process)) return {};
  if (::kill(process, 0) == 0 || errno != ESRCH) return {};
  return job >> kFamilyBits;
}

// Parses "59c40001.0", a job and a rank.
std::optional<Family> family_of_segment(std::string_view name) {
  const std::size_t end = name.find('.');
  std::uint32_t job = 0;
  const auto [at, error] = std::from_chars(name.data(), name.data() + std::min(end, name.size()), job, 16);
  if (error != std::errc() || end == std::string_view::npos || at != name.data() + end) return {};
  return job >> kFamilyBits;
}

}  // namespace

void remove_leftover_segments(const fs::path& session, const fs::path& shared_memory) {
  const std::string_view kSessions = "ompi.";
  const fs::path sessions = session.parent_path();
  const std::string folder = sessions.filename().string();
  if (!folder.starts_with(kSessions)) return;
  std::error_code error;  // ignores files that cannot be read or removed
  std::set<Family> ended;
  for (const auto& entry : fs::directory_iterator(sessions, error))
    if (const auto family = family_of_ended(entry.path())) ended.insert(*family);
  if (ended.empty()) return;
  const std::string prefix = "vader_segment." + folder.substr(kSessions.size()) + ".";
  std::set<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(shared_memory, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const auto family = family_of_segment(std::string_view(name).substr(prefix.size()));
    if (family && ended.contains(*family)) leftovers.insert(entry.path());
  }
  for (const fs::path& path : leftovers) fs::remove(path, error);
}

}  // namespace tandem::parallel
