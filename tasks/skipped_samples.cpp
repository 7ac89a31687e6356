#include "tasks/skipped_samples.h"

#include "files/output.h"

namespace tandem::tasks {

std::string text_of_skipped(const std::string& reason) { return "sample skipped: " + reason; }

std::string text_of_skipped(std::size_t count) {
  return fmt::format("{} could not be read and were replaced by the next ones (data.skip_bad_samples)",
                     count == 1 ? "one sample" : fmt::format("{} samples", count));
}

void warn_of_skipped(const std::string& reason) {
  output::remark("tandem: warning: {}\n", text_of_skipped(reason));
}

void warn_of_skipped(SkippedSamples& skipped) {
  for (const std::string& reason : skipped.take()) warn_of_skipped(reason);
  if (skipped.count() > 0) output::remark("tandem: warning: {}\n", text_of_skipped(skipped.count()));
}

}  // namespace tandem::tasks
