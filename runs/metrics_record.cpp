#include "runs/metrics_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "files/input.h"
#include "files/json_fields.h"
#include "runs/metrics.h"

namespace tandem::runs {

namespace {

using Json = nlohmann::ordered_json;
using Text = std::optional<std::string>;

constexpr std::size_t kMostUnwritten = 1 << 20;  // limit of bytes in a checkpoint
constexpr int kNewerLines = 4;  // lines that a killed or running process may have written after the digest

std::string digest_line(const std::string& digest) { return digest + "  metrics.jsonl\n"; }

// A file compared with a checkpoint's mark and the running digest.
struct Candidate {
  Text start;          // the part that the mark covers; absent if it differs
  std::string rest;    // the part after it
  bool valid = false;  // the rest matches the running digest
};

Candidate examined(const Text& text, const std::optional<MetricsMark>& mark, const std::string& running) {
  Candidate found;
  if (!text) return found;
  const auto bytes = static_cast<std::size_t>(mark ? mark->bytes : 0);
  if (!mark ||
      (text->size() >= bytes && files::sha256(std::string_view(*text).substr(0, bytes)) == mark->sha256)) {
    found.start = text->substr(0, bytes);
    found.rest = text->substr(bytes);
    found.valid = running.empty() || has_running_digest(*text, running);
    return found;
  }
  // The checkpoint contains lines that could not be written to the file.
  const std::size_t written = bytes - std::min(bytes, mark->unwritten.size());
  if (mark->unwritten.empty() || text->size() < written) return found;
  const std::string whole = text->substr(0, written) + mark->unwritten;
  if (files::sha256(whole) != mark->sha256) return found;
  found.start = whole;
  found.valid = true;
  return found;
}

std::string wrong_with(const std::string& path, const Text& text, const std::string& right) {
  if (!text) return fmt::format("{} is missing", path);
  if (text->size() < right.size() && right.starts_with(*text))
    return fmt::format("{} ends after {} of its {} bytes", path, text->size(), right.size());
  return fmt::format("{} is not what the run wrote: its SHA-256 differs", path);
}

// Restores the run's metrics from the two files; adds warnings of defects.
std::string restored_metrics(const RunDirectory& directory, const MetricsPosition& position,
                             std::vector<std::string>& warnings) {
  const std::string path = directory.metrics(), copy_path = directory.metrics_copy();
  const Text file = files::read_text_if_there(path), copy = files::read_text_if_there(copy_path);
  const std::string running = running_digest(directory.metrics_digest());
  Candidate first = examined(file, position.mark, running), second = examined(copy, position.mark, running);
  if (file == copy) first.valid = true;  // both are equal: only the digest is wrong
  if (first.start && first.valid) return *first.start + first.rest;
  if (second.start && second.valid) {
    std::string right = *second.start + second.rest;
    if (file || !right.empty())
      warnings.push_back(fmt::format("{}; restored from {}", wrong_with(path, file, right), copy_path));
    return right;
  }
  for (const Candidate* half : {&first, &second}) {
    if (!half->start) continue;
    warnings.push_back(
        fmt::format("{} is not what the run wrote: its SHA-256 differs from that in {}; lines after the "
                    "checkpoint at step {} are left out",
                    path, directory.metrics_digest(), position.step));
    return *half->start;
  }
  if (!file && !copy && position.step == 0) return {};
  const std::string state =
      fmt::format("{}, and {} cannot replace it", wrong_with(path, file, ""), copy_path);
  warnings.push_back(fmt::format("{}; {}", state,
                                 file || copy ? "its readable lines are kept" : "earlier metrics are lost"));
  return file ? *file : copy.value_or("");
}

}  // namespace

std::string MetricsMark::to_json() const {
  return Json{{"bytes", bytes}, {"sha256", sha256}, {"unwritten", unwritten}}.dump(
             -1, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

std::optional<MetricsMark> MetricsMark::from_json(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  MetricsMark mark{
      .bytes = 0, .sha256 = files::text_in(json, "sha256"), .unwritten = files::text_in(json, "unwritten")};
  if (mark.sha256.size() != files::kDigestLength || !json.contains("bytes") ||
      !json["bytes"].is_number_unsigned())
    return {};
  mark.bytes = json["bytes"].get<std::int64_t>();
  return mark.bytes < 0 ? std::optional<MetricsMark>() : mark;
}

MetricsRecord::MetricsRecord(const RunDirectory& directory)
    : file_(directory.metrics()), copy_(directory.metrics_copy()), digest_file_(directory.metrics_digest()) {
  const std::string before = files::read_text_if_there(directory.metrics()).value_or("");
  digest_.add(before);
  bytes_ = static_cast<std::int64_t>(before.size());
}

void MetricsRecord::add(const std::string& line) {
  file_.add(line);
  copy_.add(line);
  digest_.add(line);
  digest_.add("\n");
  bytes_ += static_cast<std::int64_t>(line.size()) + 1;
  if (!file_.write_error()) digest_file_.put(digest_line(digest_.hex_so_far()));
}

std::optional<std::string> MetricsRecord::write_error() const {
  if (file_.write_error()) return file_.write_error();
  return copy_.write_error() ? copy_.write_error() : digest_file_.write_error();
}

MetricsMark MetricsRecord::mark() const {
  const std::string& longer = file_.kept().size() > copy_.kept().size() ? file_.kept() : copy_.kept();
  return {bytes_, digest_.hex_so_far(), longer.size() <= kMostUnwritten ? longer : std::string()};
}

std::string running_digest(const std::string& path) {
  const std::string text = files::read_text_if_there(path).value_or("");
  return text.size() > files::kDigestLength && text[files::kDigestLength] == ' '
             ? text.substr(0, files::kDigestLength)
             : std::string();
}

bool has_running_digest(std::string_view text, std::string_view digest) {
  std::vector<std::size_t> ends;  // of the text, with fewer and fewer last lines
  for (std::size_t at = text.size();;) {
    ends.push_back(at);
    if (at == 0 || ends.size() > kNewerLines) break;
    const std::size_t newline = text.substr(0, at - 1).rfind('\n');
    at = newline == std::string_view::npos ? 0 : newline + 1;
  }
  files::Sha256 running;
  std::size_t begin = 0;
  return std::any_of(ends.rbegin(), ends.rend(), [&](std::size_t end) {
    running.add(text.substr(begin, end - begin));
    begin = end;
    return running.hex_so_far() == digest;
  });
}

std::string without_later_events(const std::string& text, const MetricsPosition& position,
                                 std::int64_t& unreadable) {
  std::string kept;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string::npos) break;  // incomplete line
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    const Json event = Json::parse(line, nullptr, false);
    if (!event.is_object()) {
      ++unreadable;
      continue;
    }
    const std::string kind = files::text_in(event, "event");
    const std::int64_t step = files::integer_in(event, "step");
    const bool of_evaluation = kind == "eval" || kind == "picture";
    const bool again = (of_evaluation && !position.evaluated) ||
                       (kind == "gradients" && !position.evaluated && !position.epoch_trained);
    if (step > position.step || (step == position.step && again)) continue;
    kept += line + '\n';
  }
  return kept;
}

std::vector<std::string> repair_metrics(const RunDirectory& directory, const MetricsPosition& position) {
  std::vector<std::string> warnings;
  std::int64_t unreadable = 0;
  std::string text =
      without_later_events(restored_metrics(directory, position, warnings), position, unreadable);
  if (unreadable > 0)
    warnings.push_back(fmt::format("{}: {} of its lines cannot be read and {} left out", directory.metrics(),
                                   unreadable, unreadable == 1 ? "was" : "were"));
  std::vector<std::int64_t> recorded;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    const Json event = Json::parse(text.substr(at, end - at), nullptr, false);
    if (files::text_in(event, "event") == "checkpoint") recorded.push_back(files::integer_in(event, "step"));
    at = end + 1;
  }
  for (const auto& [step, path] : position.checkpoints) {
    if (std::ranges::find(recorded, step) == recorded.end()) text += checkpoint_line(step, path) + '\n';
  }
  const auto update = [](const std::string& path, const std::string& right) {
    if (files::read_text_if_there(path) != right) files::write_atomically(path, right);
  };
  update(directory.metrics(), text);
  update(directory.metrics_copy(), text);
  update(directory.metrics_digest(), digest_line(files::sha256(text)));
  return warnings;
}

}  // namespace tandem::runs
