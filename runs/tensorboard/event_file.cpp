#include "runs/tensorboard/event_file.h"

#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "core/error.h"
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

// Messages and numbers of fields of tensorflow/core/util/event.proto and, in tensorflow/core/framework, of
// summary.proto, tensor.proto, tensor_shape.proto and types.proto.
using Message = files::ProtobufMessage;
constexpr int kStart = 1;     // SessionLog.SessionStatus
constexpr int kDtString = 7;  // DataType

// An Event, of which what happened is missing.
Message event_at(std::int64_t step) { return Message().real(1, now()).integer(2, step); }

// An Event with a Summary of one Summary.Value.
Message summary(std::int64_t step, const Message& value) {
  return event_at(step).message(5, Message().message(1, value));
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
  write(event_at(0).bytes(3, "brain.Event:2"));
}

void EventFile::start(std::int64_t step) { write(event_at(step).message(7, Message().integer(1, kStart))); }

void EventFile::scalars(std::int64_t step, const std::vector<std::pair<std::string, double>>& values) {
  Message all;
  for (const auto& [name, value] : values)
    all.message(1, Message().bytes(1, name).real(2, static_cast<float>(value)));
  write(event_at(step).message(5, all));
}

void EventFile::histograms(std::int64_t step, const std::vector<std::pair<std::string, Histogram>>& values) {
  for (const auto& [name, value] : values) {
    if (value.count == 0.0) continue;
    write(summary(step, Message().bytes(1, name).message(5, Message()
                                                                .real(1, value.min)
                                                                .real(2, value.max)
                                                                .real(3, value.count)
                                                                .real(4, value.sum)
                                                                .real(5, value.sum_squares)
                                                                .reals(6, value.limits)
                                                                .reals(7, value.counts))));
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
  Message image;
  image.integer(1, number(kHeight)).integer(2, number(kWidth));
  image.integer(3, colour == 0 ? 1 : colour == 4 ? 2 : colour == 6 ? 4 : 3).bytes(4, png);
  write(summary(step, Message().bytes(1, name).message(4, image)));
}

void EventFile::text(std::int64_t step, const std::string& name, const std::string& markdown) {
  const Message scalar;  // a TensorShapeProto without dimensions
  const Message tensor = Message().integer(1, kDtString).message(2, scalar).bytes(8, markdown);
  const Message metadata = Message().message(1, Message().bytes(1, "text"));  // the plugin
  write(summary(step, Message().bytes(1, name).message(8, tensor).message(9, metadata)));
}

void EventFile::write(const Message& event) {
  const std::string bytes = record(event.bytes());
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size() ||
      std::fflush(file_.get()) != 0)
    fail(path_, "written", errno);
}

}  // namespace tandem::tensorboard
