// TensorBoard's event files: framing, checksums, and contents.
#include <cmath>
#include <limits>

#include "runs/events.pb.h"
#include "runs/tensorboard/event_file.h"
#include "runs/tensorboard/record.h"
#include "tests/support/temporary_files.h"

using namespace tandem::testing;
using namespace tandem::tensorboard;
using Catch::Contains;

namespace {

std::vector<proto::Event> events_of(const std::string& bytes) {
  std::vector<proto::Event> events;
  for (const std::string& payload : payloads(bytes)) REQUIRE(events.emplace_back().ParseFromString(payload));
  return events;
}

}  // namespace

TEST_CASE("CRC-32C and its mask are those of the format", "[tensorboard]") {
  CHECK(crc32c("123456789") == 0xe3069283u);  // RFC 3720, appendix B.4, has the next two
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aau);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43u);
  CHECK(masked(0) == 0xa282ead8u);
  CHECK(masked(0x00008001u) == 0x00020001u + 0xa282ead8u);
}

TEST_CASE("records are read back; a flipped bit is found, a cut-off end is not an error", "[tensorboard]") {
  const std::string first = record("one"), second = record(std::string(1000, 'x'));
  CHECK(first.size() == 8 + 4 + 3 + 4);
  const std::string file = first + second;
  CHECK(payloads(file) == std::vector<std::string>{"one", std::string(1000, 'x')});
  CHECK(payloads("").empty());
  for (const std::size_t cut : {file.size() - 1, first.size() + 20, first.size() + 5})
    CHECK(payloads(std::string_view(file).substr(0, cut)) == std::vector<std::string>{"one"});
  for (std::size_t at = 0; at < first.size(); ++at) {
    std::string damaged = file;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    INFO(at);
    CHECK_THAT(user_error_of([&] { payloads(damaged); }), Contains("the record at byte 0"));
  }
  std::string damaged = file;
  damaged[first.size() + 500] ^= 1;
  CHECK_THAT(user_error_of([&] { payloads(damaged); }),
             Contains("the record at byte 19: its 1000 bytes do not match their checksum"));
}

TEST_CASE("an event file holds version, session, scalars, histograms and text", "[tensorboard]") {
  const TemporaryDirectory directory;
  std::string bytes;
  {
    EventFile file(directory.path() / "tensorboard");
    CHECK_THAT(file.path().filename().string(), Catch::Matches("events\\.out\\.tfevents\\.[0-9]{10}\\..+"));
    file.start(7);
    file.scalars(7, {{"loss", 0.5}, {"test/accuracy", std::nan("")}});
    const std::vector<float> values{-1.0F, 0.0F, 0.5F, 0.5F, 3.0F};
    file.histograms(8, {{"weights/a", histogram_of(values)}, {"weights/none", histogram_of({})}});
    file.text(8, "config", "    {}");
    bytes = read_text(file.path());  // given to the system at once
    const EventFile other(directory.path() / "tensorboard");
    CHECK(other.path() != file.path());
  }
  const auto events = events_of(bytes);
  REQUIRE(events.size() == 5);
  CHECK(events[0].file_version() == "brain.Event:2");
  CHECK(events[0].wall_time() > 1.6e9);
  CHECK(events[1].step() == 7);
  CHECK(events[1].session_log().status() == proto::SessionLog::START);
  REQUIRE(events[2].summary().value_size() == 2);
  CHECK(events[2].summary().value(0).tag() == "loss");
  CHECK(events[2].summary().value(0).simple_value() == 0.5F);
  CHECK(std::isnan(events[2].summary().value(1).simple_value()));
  const proto::HistogramProto& histogram = events[3].summary().value(0).histo();
  CHECK(histogram.min() == -1.0);
  CHECK(histogram.max() == 3.0);
  CHECK(histogram.num() == 5.0);
  CHECK(histogram.sum() == 3.0);
  CHECK(histogram.sum_squares() == 10.5);
  CHECK(histogram.bucket_size() == histogram.bucket_limit_size());
  const proto::Summary::Value& text = events[4].summary().value(0);
  CHECK(text.metadata().plugin_data().plugin_name() == "text");
  CHECK(text.tensor().dtype() == proto::DT_STRING);
  CHECK(text.tensor().string_val(0) == "    {}");
}

TEST_CASE("histograms count every finite value once, in buckets that hold it", "[tensorboard]") {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> values{0.0F, -0.0F, inf, -inf, std::nanf(""), 1e-30F, -1e-30F};
  for (int i = -40; i <= 10; ++i)
    for (const float mantissa : {1.0F, 1.24F, 1.25F, -1.6F}) values.push_back(std::ldexp(mantissa, i));
  for (const double factor : {1.0, 0x1p-16}) {
    const Histogram histogram = histogram_of(values, factor);
    CHECK(histogram.count == 4 + 51 * 4);
    CHECK(histogram.limits.size() < 110);
    double sum = 0.0;
    for (std::size_t i = 0; i < histogram.limits.size(); ++i) {
      if (i > 0) REQUIRE(histogram.limits[i - 1] < histogram.limits[i]);
      const double low = i == 0 ? -INFINITY : histogram.limits[i - 1];
      double held = 0.0;
      for (const float value : values) {
        const double scaled = value * factor;
        // Buckets mirror each other: below zero the upper end is the one that belongs to them.
        if (std::isfinite(scaled) &&
            (scaled < 0.0 && histogram.limits[i] < 0.0
                 ? scaled > low && scaled <= histogram.limits[i]
                 : scaled > (low < 0.0 ? low : -INFINITY) && scaled >= low && scaled < histogram.limits[i]))
          held += 1.0;
      }
      INFO(i);
      CHECK(histogram.counts[i] == held);
      sum += histogram.counts[i];
    }
    CHECK(sum == histogram.count);
    double total = 0.0, squares = 0.0;
    for (const float value : values) {
      if (!std::isfinite(value)) continue;
      total += value * factor;
      squares += value * factor * value * factor;
    }
    CHECK(histogram.sum == Approx(total));
    CHECK(histogram.sum_squares == Approx(squares));
    CHECK(histogram.max == std::ldexp(1.25, 10) * factor);
    CHECK(histogram.min == std::ldexp(-1.6F, 10) * factor);
  }
  CHECK(histogram_of(std::vector<float>{inf}).count == 0.0);
  const std::vector<float> zeros(3, 0.0F);
  CHECK(histogram_of(zeros).counts == std::vector<double>{3.0});
}
