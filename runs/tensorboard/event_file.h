// EventFile: TensorBoard's event files, one per session of a run. `tensorboard --logdir runs` shows them.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "files/protobuf.h"
#include "runs/tensorboard/histogram.h"

namespace tandem::tensorboard {

class EventFile {
 public:
  // Creates `folder` and in it events.out.tfevents.<unix time>.<host>, with suffix ".2", ".3"… if that file
  // exists. Throws VendorError on failure. Records are passed to the system at once.
  explicit EventFile(const std::filesystem::path& folder);

  // Starts a session with first step `step`: TensorBoard drops this and later steps of earlier files.
  void start(std::int64_t step);
  // Names, with "/" between group and rest, and values, which may be NaN.
  void scalars(std::int64_t step, const std::vector<std::pair<std::string, double>>& values);
  void histograms(std::int64_t step, const std::vector<std::pair<std::string, Histogram>>& values);
  // `png`: the bytes of the file; its header has the size. Ignores bytes that are not a PNG.
  void picture(std::int64_t step, const std::string& name, const std::string& png);
  // Markdown for the text dashboard.
  void text(std::int64_t step, const std::string& name, const std::string& markdown);

  const std::filesystem::path& path() const { return path_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void write(const files::ProtobufMessage& event);

  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace tandem::tensorboard
