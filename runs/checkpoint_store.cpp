#include "runs/checkpoint_store.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <map>

#include "core/error.h"
#include "core/guard.h"
#include "files/digest.h"
#include "files/input.h"
#include "files/write.h"

namespace tandem::runs {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPrefix = "step-";
constexpr const char* kDigests = "SHA256SUMS";
constexpr std::string_view kReplaced = "-replaced";  // suffix of a checkpoint that was moved aside
constexpr std::uint64_t kMostDigestBytes = 4096;

[[noreturn]] void fail(const fs::path& path, const char* what, int reason) {
  throw VendorError("", fmt::format("{}: cannot be {}: {}", path.string(), what, std::strerror(reason)));
}

// Moves `from` to `to` atomically; afterwards `from` is the previous `to`, if there was one.
void exchange(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return;
  if (errno != ENOTEMPTY && errno != EEXIST) fail(to, "written", errno);
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return;
  if (errno != EINVAL && errno != ENOSYS) fail(to, "replaced", errno);
  // A file system without exchange: for an instant there is no checkpoint of this name.
  const fs::path aside = files::name_while_writing(to.string() + std::string(kReplaced));
  if (::rename(to.c_str(), aside.c_str()) != 0) fail(to, "replaced", errno);
  if (::rename(from.c_str(), to.c_str()) != 0) {
    const int reason = errno;
    ::rename(aside.c_str(), to.c_str());
    fail(to, "replaced", reason);
  }
  std::error_code ignored;  // remove_leftovers() removes it later
  fs::remove_all(aside, ignored);
}

// "" if there is no such file.
std::string read_small(const fs::path& path) {
  try {
    return files::read_text(path, kMostDigestBytes);
  } catch (const Error&) {
    return {};
  }
}

// File name → digest, in the format of sha256sum: digest, two spaces, name. Empty for any other text.
std::map<std::string, std::string> parse_digests(std::string_view text) {
  std::map<std::string, std::string> digests;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos || end < files::kDigestLength + 3) return {};
    const std::string_view line = text.substr(0, end), name = line.substr(files::kDigestLength + 2);
    const bool known =
        name == kWeightsFile || name == "state.safetensors" || name == "run.json" || name == "metrics.json";
    if (!known || line.substr(files::kDigestLength, 2) != "  ") return {};
    if (!digests.emplace(name, line.substr(0, files::kDigestLength)).second) return {};
    text.remove_prefix(end + 1);
  }
  const bool whole = digests.contains(kWeightsFile) && digests.contains("state.safetensors");
  return whole ? digests : std::map<std::string, std::string>();
}

std::string line_of_digest(const std::string& digest, const std::string& name) {
  return fmt::format("{}  {}\n", digest, name);
}

// Links files of a checkpoint into `to`; returns the lines of their digests.
std::string keep_files(const fs::path& checkpoint, const fs::path& to,
                       const std::vector<std::string>& names) {
  const auto digests = parse_digests(read_small(checkpoint / kDigests));
  std::string lines;
  for (const std::string& name : names) {
    const auto digest = digests.find(name);
    if (digest == digests.end()) fail(checkpoint / name, "kept", ENOENT);
    std::error_code error;
    fs::create_hard_link(checkpoint / name, to / name, error);
    if (error) {  // a file system without hard links
      fs::copy_file(checkpoint / name, to / name, error);
      if (error) fail(to / name, "written", error.value());
      files::synchronise_file((to / name).string());
    }
    lines += line_of_digest(digest->second, name);
  }
  return lines;
}

// Name of the checkpoint that was moved aside under this name; "" for other names.
std::string replaced_checkpoint(std::string_view name) {
  const std::size_t end = name.find(kReplaced);
  if (end == std::string_view::npos || !CheckpointStore::is_name(name.substr(0, end))) return {};
  return std::string(name.substr(0, end));
}

}  // namespace

std::vector<std::string> superseded(std::span<const std::string> checkpoints, std::int64_t keep,
                                    std::span<const std::string> spared) {
  std::vector<std::string> gone;
  std::int64_t kept = 0;
  for (const std::string& name : checkpoints) {
    const bool abandoned = CheckpointStore::step_of(name) > CheckpointStore::step_of(checkpoints.front());
    if (!abandoned && kept++ < keep) continue;
    if (std::ranges::find(spared, name) == spared.end()) gone.push_back(name);
  }
  return gone;
}

std::string CheckpointStore::name_of(std::int64_t step) { return fmt::format("{}{}", kPrefix, step); }

std::optional<std::int64_t> CheckpointStore::step_of(std::string_view name) {
  std::int64_t step = 0;
  if (!name.starts_with(kPrefix)) return {};
  name.remove_prefix(kPrefix.size());
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || step < 0) return {};
  return step;
}

void CheckpointStore::write(const std::string& checkpoint, const std::vector<File>& files,
                            const std::vector<std::string>& kept) const {
  const fs::path target = path(checkpoint), beside = files::name_while_writing(target.string());
  std::error_code error;
  try {
    fs::remove_all(beside, error);
    if (!fs::create_directory(beside, error)) fail(beside, "created", error.value());
    std::string digests = keep_files(target, beside, kept);
    for (const File& file : files) {
      files::write_synchronised((beside / file.name).string(), std::span(&file.bytes, 1));
      digests += line_of_digest(files::sha256(file.bytes), file.name);
    }
    const std::string_view text = digests;
    files::write_synchronised((beside / kDigests).string(), std::span(&text, 1));
    files::synchronise_folder(beside);
    guard::check("checkpoint");  // damaged memory must not replace an intact checkpoint
    exchange(beside, target);
    files::synchronise_folder(folder_);
  } catch (...) {
    fs::remove_all(beside, error);
    throw;
  }
  fs::remove_all(beside, error);  // the replaced checkpoint
}

void CheckpointStore::point(const std::string& pointer, const std::string& checkpoint) const {
  if (pointed_at(pointer) == checkpoint) return;
  files::write_atomically((folder_ / pointer).string(), checkpoint + "\n");
}

std::optional<std::string> CheckpointStore::pointed_at(const std::string& pointer) const {
  std::string name = read_small(folder_ / pointer);
  if (!name.empty() && name.back() == '\n') name.pop_back();
  std::error_code error;
  if (!step_of(name) || !fs::is_directory(path(name), error)) return {};
  return name;
}

std::vector<std::string> CheckpointStore::newest_first() const {
  std::vector<std::pair<std::int64_t, std::string>> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename().string();
    if (const auto step = step_of(name)) found.emplace_back(*step, name);
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> names;
  for (auto& [step, name] : found) names.push_back(std::move(name));
  if (const auto latest = pointed_at("latest")) {
    const auto at = std::find(names.begin(), names.end(), *latest);
    if (at != names.end()) std::rotate(names.begin(), at, at + 1);
  }
  return names;
}

std::optional<std::string> CheckpointStore::damage(const std::string& checkpoint) const {
  const auto digests = parse_digests(read_small(path(checkpoint) / kDigests));
  if (digests.empty()) return fmt::format("{} is missing or damaged", kDigests);
  for (const auto& [name, digest] : digests) {
    try {
      if (files::sha256_of_file((path(checkpoint) / name).string()) != digest)
        return fmt::format("the SHA-256 of {} is not the one it was saved with", name);
    } catch (const Error& error) {
      return error.what();
    }
  }
  return {};
}

void CheckpointStore::prune(std::int64_t keep, const std::vector<std::string>& spared) const {
  for (const std::string& name : superseded(newest_first(), keep, spared)) remove(name);
}

// Renames first, so that an interrupted removal does not look like a damaged checkpoint.
void CheckpointStore::remove(const std::string& checkpoint) const {
  const fs::path aside = files::name_while_writing(path(checkpoint).string() + "-removed");
  std::error_code ignored;  // the next prune() tries again
  fs::rename(path(checkpoint), aside, ignored);
  if (!ignored) fs::remove_all(aside, ignored);
}

void CheckpointStore::remove_leftovers() const {
  std::error_code ignored;
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(folder_, ignored))
    if (files::is_being_written(entry.path())) leftovers.push_back(entry.path());
  for (const fs::path& path : leftovers) {
    const std::string replaced = replaced_checkpoint(path.filename().string());
    if (!replaced.empty() && !fs::exists(folder_ / replaced, ignored)) {
      fs::rename(path, folder_ / replaced, ignored);
    } else {
      fs::remove_all(path, ignored);
    }
  }
}

}  // namespace tandem::runs
