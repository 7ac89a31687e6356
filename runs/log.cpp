#include "runs/log.h"

#include <spdlog/details/null_mutex.h>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>

#include "core/error.h"
#include "core/printable.h"
#include "files/input.h"
#include "files/write.h"

namespace tandem::runs {

namespace {

// Used only by the training thread.
class LineSink : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  explicit LineSink(const std::string& path) : file(path) {}
  files::LineFile file;

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    file.add({line.data(), line.size()});
  }
  void flush_() override {}
};

}  // namespace

class Log::Impl {
 public:
  explicit Impl(const std::string& path) : sink(std::make_shared<LineSink>(path)), logger("run", sink) {
    sink->set_formatter(std::make_unique<spdlog::pattern_formatter>("%Y-%m-%d %H:%M:%S.%e %l %v",
                                                                    spdlog::pattern_time_type::local, ""));
  }
  std::shared_ptr<LineSink> sink;
  spdlog::logger logger;
};

Log::Log() = default;

Log::Log(const std::string& path) {
  const files::Kind kind = files::kind_of(path);
  require(kind == files::Kind::absent || kind == files::Kind::file, path,
          "is not a regular file: no log can be written there");
  impl_ = std::make_unique<Impl>(path);
}

Log::~Log() = default;

// The text is an argument, not a format; line breaks are escaped.
void Log::info(const std::string& text) {
  if (impl_) impl_->logger.info("{}", printable(text));
}
void Log::warning(const std::string& text) {
  if (impl_) impl_->logger.warn("{}", printable(text));
}
void Log::error(const std::string& text) {
  if (impl_) impl_->logger.error("{}", printable(text));
}

const std::optional<std::string>& Log::write_error() const {
  static const std::optional<std::string> none;
  return impl_ ? impl_->sink->file.write_error() : none;
}

}  // namespace tandem::runs
