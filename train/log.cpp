#include "train/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>

#include "core/error.h"
#include "core/printable.h"
#include "files/input.h"

namespace tandem::train {

class Log::Impl {
 public:
  explicit Impl(const std::string& path)
      : logger("run", std::make_shared<spdlog::sinks::basic_file_sink_mt>(path, false)) {
    logger.set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
    logger.flush_on(spdlog::level::info);
  }
  spdlog::logger logger;
};

Log::Log(const std::string& path) {
  const files::Kind kind = files::kind_of(path);
  require(kind == files::Kind::absent || kind == files::Kind::file, path,
          "is not a regular file: no log can be written there");
  try {
    impl_ = std::make_unique<Impl>(path);
  } catch (const spdlog::spdlog_ex& error) {
    throw VendorError("", error.what());
  }
}

Log::~Log() = default;

// The text is an argument, never a format, and one line.
void Log::info(const std::string& text) { impl_->logger.info("{}", printable(text)); }
void Log::warning(const std::string& text) { impl_->logger.warn("{}", printable(text)); }
void Log::error(const std::string& text) { impl_->logger.error("{}", printable(text)); }

}  // namespace tandem::train
