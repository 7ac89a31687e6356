#include "runs/tensorboard/event_file.h"

#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "core/error.h"
#include "runs/tensorboard/events.pb.h"
#include "runs/tensorboard/record.h"

namespace tandem::tensorboard {

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return name.data();
}

[[noreturn]] void fail(const std::filesystem::path& path, const char* what, int reason) {
  throw VendorError("", fmt::format("{}: cannot be {}: {}; tensorboard=false trains without event files",
                                    path.string(), what, std::strerror(reason)));
}

}  // namespace

EventFile::EventFile(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail(folder, "created", error.value());
  // Ten digits, so that names sort by time.
  const std::string name =
      fmt::format("events.out.tfevents.{:010}.{}", static_cast<std::int64_t>(now()), host_name());
  for (int copy = 1; !file_; ++copy) {
    path_ = folder / (copy == 1 ? name : fmt::format("{}.{}", name, copy));
    file_.reset(std::fopen(path_.c_str(), "wbxe"));  // exclusive
    if (!file_ && (errno != EEXIST || copy == 1000)) fail(path_, "created", errno);
  }
  proto::Event event;
  event.set_file_version("brain.Event:2");
  write(event);
}

EventFile::~EventFile() = default;

void EventFile::start(std::int64_t step) {
  proto::Event event;
  event.set_step(step);
  event.mutable_session_log()->set_status(proto::SessionLog::START);
  write(event);
}

void EventFile::scalars(std::int64_t step, const std::vector<std::pair<std::string, double>>& values) {
  proto::Event event;
  event.set_step(step);
  for (const auto& [name, value] : values) {
    proto::Summary::Value* entry = event.mutable_summary()->add_value();
    entry->set_tag(name);
    entry->set_simple_value(static_cast<float>(value));
  }
  write(event);
}

void EventFile::histograms(std::int64_t step, const std::vector<std::pair<std::string, Histogram>>& values) {
  for (const auto& [name, value] : values) {
    if (value.count == 0.0) continue;
    proto::Event event;
    event.set_step(step);
    proto::Summary::Value* entry = event.mutable_summary()->add_value();
    entry->set_tag(name);
    proto::HistogramProto* histogram = entry->mutable_histo();
    histogram->set_min(value.min);
    histogram->set_max(value.max);
    histogram->set_num(value.count);
    histogram->set_sum(value.sum);
    histogram->set_sum_squares(value.sum_squares);
    histogram->mutable_bucket_limit()->Add(value.limits.begin(), value.limits.end());
    histogram->mutable_bucket()->Add(value.counts.begin(), value.counts.end());
    write(event);
  }
}

// The first chunk of a PNG has width and height in four bytes each, depth and colour type (ISO 15948,
// 11.2.2).
void EventFile::picture(std::int64_t step, const std::string& name, const std::string& png) {
  constexpr std::size_t kWidth = 16, kHeight = 20, kColour = 25;
  if (png.size() <= kColour || !png.starts_with("\x89PNG") || png.substr(12, 4) != "IHDR") return;
  const auto number = [&](std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(png[at + i]);
    return static_cast<std::int32_t>(value);
  };
  const auto colour = static_cast<unsigned char>(png[kColour]);
  proto::Event event;
  event.set_step(step);
  proto::Summary::Value* entry = event.mutable_summary()->add_value();
  entry->set_tag(name);
  proto::Summary::Image* image = entry->mutable_image();
  image->set_width(number(kWidth));
  image->set_height(number(kHeight));
  image->set_colorspace(colour == 0 ? 1 : colour == 4 ? 2 : colour == 6 ? 4 : 3);
  image->set_encoded_image_string(png);
  write(event);
}

void EventFile::text(std::int64_t step, const std::string& name, const std::string& markdown) {
  proto::Event event;
  event.set_step(step);
  proto::Summary::Value* entry = event.mutable_summary()->add_value();
  entry->set_tag(name);
  entry->mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  proto::TensorProto* tensor = entry->mutable_tensor();  // a scalar: no dimensions
  tensor->set_dtype(proto::DT_STRING);
  tensor->mutable_tensor_shape();
  tensor->add_string_val(markdown);
  write(event);
}

void EventFile::write(proto::Event& event) {
  event.set_wall_time(now());
  const std::string bytes = record(event.SerializeAsString());
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size() ||
      std::fflush(file_.get()) != 0)
    fail(path_, "written", errno);
}

}  // namespace tandem::tensorboard
