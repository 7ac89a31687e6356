// Records: round trips, and incomplete ones.
#include "tasks/record.h"

#include <array>
#include <catch2/catch.hpp>

#include "core/error.h"

using namespace tandem;
using tasks::Record;
using tasks::RecordReader;
using tasks::RecordWriter;

namespace {

constexpr std::string_view kText("a\0b", 3);

Record some() {
  RecordWriter writer;
  writer.put(0.1).put(std::array<std::int32_t, 3>{1, -2, 3}).put(true);
  writer.put_all(std::vector<float>{0.5F, -0.25F}).put_all(std::vector<std::int64_t>{}).put_text(kText);
  writer.put_tensor(Tensor::from({1, 2, 3, 4, 5, 6}, {3, 2}).rows(1, 2)).put_tensor(Tensor::scalar(7.0));
  return std::move(writer).record();
}

struct Values {
  double number;
  std::array<std::int32_t, 3> array;
  bool truth;
  std::vector<float> all;
  std::vector<std::int64_t> none;
  std::string text;
  Tensor rows, scalar;
};

Values read(RecordReader& reader) {
  return {.number = reader.take<double>(),
          .array = reader.take<std::array<std::int32_t, 3>>(),
          .truth = reader.take<bool>(),
          .all = reader.take_all<float>(),
          .none = reader.take_all<std::int64_t>(),
          .text = reader.take_text(),
          .rows = reader.take_tensor(),
          .scalar = reader.take_tensor()};
}

}  // namespace

TEST_CASE("a record gives back what was written", "[record]") {
  const Record record = some();
  RecordReader reader(record);
  const Values values = read(reader);
  reader.end();
  CHECK(values.number == 0.1);
  CHECK(values.array == std::array<std::int32_t, 3>{1, -2, 3});
  CHECK(values.truth);
  CHECK(values.all == std::vector<float>{0.5F, -0.25F});
  CHECK(values.none.empty());
  CHECK(values.text == kText);
  CHECK(values.rows.shape() == Shape{2, 2});
  CHECK(values.rows.to_vector<float>() == std::vector<float>{3, 4, 5, 6});
  CHECK(values.scalar.item() == 7.0);
  CHECK_THROWS_AS(reader.take<bool>(), InternalError);
}

TEST_CASE("a record that is cut short, or goes on, is an internal error", "[record]") {
  Record record = some();
  for (std::size_t size = 0; size < record.size(); ++size) {
    RecordReader cut(std::span<const std::byte>(record).first(size));
    CHECK_THROWS_AS(read(cut), InternalError);
  }
  record.push_back({});
  RecordReader reader(record);
  read(reader);
  CHECK_THROWS_AS(reader.end(), InternalError);
  // Numbers that no memory holds.
  RecordWriter writer;
  const Record many = std::move(writer.put(~std::size_t{0})).record();
  CHECK_THROWS_AS(RecordReader(many).take_all<double>(), InternalError);
  CHECK_THROWS_AS(RecordReader(many).take_text(), InternalError);
}
