// Batches of samples in parts.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "core/backend.h"
#include "core/convert.h"
#include "data/synthetic.h"
#include "tests/data/divided.h"
#include "tests/support/errors.h"
#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::datasets;

namespace {

const std::vector<TransformSpec> kShifted = {{"random_crop", {{"padding", {2}}}}, {"horizontal_flip", {}}};
const std::vector<TransformSpec> kColoured = {
    {"random_crop", {}}, {"horizontal_flip", {}}, {"color_jitter", {}}, {"cutout", {}}};

DatasetPtr patterns(Index count) {
  return make_synthetic({.count = count, .classes = 5, .height = 6, .width = 5, .channels = 3});
}

DatasetPtr indices(Index count) {
  std::vector<std::int64_t> words, labels;
  for (Index i = 0; i < count; ++i) {
    for (Index t = 0; t < 4; ++t) words.push_back(i * 7 + t);
    labels.push_back(i % 3);
  }
  return std::make_shared<InMemoryDataset>(Tensor::from(words, {count, 4}), Tensor::from(labels, {count}),
                                           DatasetInfo{.name = "indices"}, "indices");
}

Tensor noise(Index number, const Shape& shape) {
  const Tensor image = Tensor::empty(shape, {.dtype = DType::u8, .kind = MemoryKind::data});
  for (Index i = 0; i < image.numel(); ++i)
    image.data<std::uint8_t>()[i] = static_cast<std::uint8_t>((number * 37 + i * 11) % 251);
  return image;
}

// A mask's classes are 0 to 2, and some of its pixels count for nothing.
class Masked final : public Dataset {
 public:
  explicit Masked(Index size) : size_(size) {
    info_ = {.name = "masked", .sample_shape = {6, 8, 1}, .classes = 3, .masks = true};
  }
  Index size() const override { return size_; }
  Sample get(Index index) const override {
    Sample sample{.image = noise(index, {6, 8, 1}), .mask = noise(index + 1, {6, 8})};
    for (Index i = 0; i < 48; ++i) {
      std::uint8_t& pixel = sample.mask.data<std::uint8_t>()[i];
      pixel = pixel % 4 == 3 ? kIgnored : pixel % 4;
    }
    return sample;
  }

 private:
  Index size_;
};

// Up to three objects in an image.
class Boxed final : public Dataset {
 public:
  explicit Boxed(Index size) : size_(size) {
    info_ = {.name = "boxed", .sample_shape = {10, 12, 1}, .classes = 4, .most_objects = 3};
  }
  Index size() const override { return size_; }
  Sample get(Index index) const override {
    Sample sample{.image = noise(index, {10, 12, 1}), .id = 100 + index};
    for (Index i = 0; i < index % 4; ++i) {
      const auto at = static_cast<double>(i);
      sample.objects.push_back({.box = {at, at + 1, at + 5, at + 7}, .label = 1 + (index + i) % 3});
    }
    return sample;
  }

 private:
  Index size_;
};

int first_axis(const std::string&) { return 0; }

struct Case {
  std::string name;
  DatasetPtr set;
  std::vector<TransformSpec> specs;
  SampleOptions options;
};

double by_class(const Tensor& labels) {
  double sum = 0.0;
  for (const double label : labels.to_vector<double>()) sum += 0.25 + 0.5 * label;
  return sum;
}

std::vector<Case> cases() {
  const Device device = test::test_device();
  return {
      {"values", patterns(23), kColoured, {.batch_size = 8, .shuffle = true, .seed = 3}},
      {"full ones", patterns(23), kShifted, {.batch_size = 7, .shuffle = true, .drop_last = true}},
      {"in order, weighed", patterns(11), {}, {.batch_size = 4, .weigh = by_class}},
      {"few", patterns(3), kShifted, {.batch_size = 3, .shuffle = true}},
      {"larger than the set", patterns(7), kShifted, {.batch_size = 100, .shuffle = true}},
      {"indices", indices(13), {}, {.batch_size = 5, .shuffle = true}},
      {"masks", std::make_shared<Masked>(13), kShifted, {.batch_size = 6, .shuffle = true}},
      {"masks, weighed", std::make_shared<Masked>(13), kShifted, {.batch_size = 6, .weigh = by_class}},
      {"boxes", std::make_shared<Boxed>(13), {{"horizontal_flip", {}}}, {.batch_size = 6, .shuffle = true}},
      {"records", patterns(23), kShifted, {.batch_size = 8, .shuffle = true, .dtype = DType::f16}},
      {"cast", patterns(13), kColoured, {.batch_size = 4, .shuffle = true, .dtype = DType::bf16}},
      {"on the device", patterns(17), kShifted, {.batch_size = 6, .shuffle = true, .device = device}},
  };
}

SourcePtr source_of(const Case& c) {
  return std::make_shared<SampleSource>(c.set, Pipeline(c.set->info(), c.specs), c.options);
}

}  // namespace

TEST_CASE("parts of batches of samples are what is cut out of them", "[division]") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    test::check_divided(source_of(c), first_axis);
  }
}

TEST_CASE("a part has room for itself, here and where it arrives, and reads its own samples", "[division]") {
  const Case c{"records", patterns(32), kShifted, {.batch_size = 32, .dtype = DType::f16}};
  const SourcePtr whole = source_of(c), part = whole->divided({.parts = 4, .first = 2, .count = 1});
  CHECK(part->layout().bytes() * 3 < whole->layout().bytes());
  CHECK(part->device_preprocess()->memory()[0].shape() == Shape{8, 6, 5, 3});
  Loader loader(part);
  CHECK((*loader.next())["index"].to_vector<int>() == std::vector<int>{16, 17, 18, 19, 20, 21, 22, 23});
  CHECK_FALSE(loader.next());
}

TEST_CASE("samples are mixed within their part", "[division]") {
  for (const char* name : {"mixup", "cutmix"}) {
    const Case c{name, patterns(14), {{name, {}}}, {.batch_size = 7, .shuffle = true, .seed = 2}};
    const SourcePtr source = source_of(c);
    for (const Index parts : {2, 3, 5}) {
      Loader whole(source), divided(source->divided({.parts = parts, .first = 0, .count = parts}));
      bool mixed = false;
      while (const auto batch = whole.next()) {
        std::vector<int> labels, numbers;
        for (Index p = 0; p < parts; ++p) {
          const Batch part = divided.next().value();
          const auto own = part["label"].to_vector<int>(), index = part["index"].to_vector<int>();
          const auto soft = part["soft_label"].to_vector<float>();
          const auto count = static_cast<Index>(own.size());
          for (Index i = 0; i < count; ++i) {
            const std::set<int> pair{own[static_cast<std::size_t>(i)],
                                     own[static_cast<std::size_t>(count - 1 - i)]};
            for (int k = 0; k < 5; ++k) {
              const float share = soft[static_cast<std::size_t>(i * 5 + k)];
              if (!pair.contains(k)) CHECK(share == 0.0F);
              mixed = mixed || (share > 0.0F && share < 1.0F);
            }
          }
          labels.insert(labels.end(), own.begin(), own.end());
          numbers.insert(numbers.end(), index.begin(), index.end());
        }
        CHECK(labels == (*batch)["label"].to_vector<int>());
        CHECK(numbers == (*batch)["index"].to_vector<int>());
      }
      CHECK(mixed);
    }
  }
}

TEST_CASE("a buffer without samples makes a batch without fields", "[division]") {
  BatchLayout layout(4);
  layout.add("label", {}, DType::i64);
  layout.add_whole("tokens", {7, 4}, DType::i64);
  BatchBuffer buffer(layout, Tensor::zeros({layout.bytes()}, {.dtype = DType::u8}));
  buffer.begin(4);
  buffer.begin(0);
  buffer.set_rate_factor(0.5);
  const Batch batch = buffer.in(buffer.block());
  CHECK(batch.empty());
  CHECK(batch.samples == 0);
  CHECK(batch.weight == 0.0);
  CHECK(batch.rate_factor == 0.5);
  CHECK_THROWS_AS(buffer.field("label"), InternalError);
  CHECK_THROWS_AS(buffer.field("tokens", {1, 4}), InternalError);
}

TEST_CASE("divisions that cannot be are refused", "[division]") {
  const SourcePtr source = source_of(cases().front());
  CHECK_FAILS(UserError, source->divided({.parts = 0, .first = 0, .count = 1}),
              "[division] batches in 0 parts, expected at least 1");
  for (const ShardSpec wrong : {ShardSpec{3, -1, 1}, {3, 0, 0}, {3, 3, 1}, {3, 1, 3}, {3, 0, 4}, {3, 2, -1}})
    CHECK_FAILS(UserError, source->divided(wrong), "within the 3: 0 to 2");
  const SourcePtr divided = source->divided({.parts = 3, .first = 1, .count = 2});
  CHECK(divided->division() == ShardSpec{.parts = 3, .first = 1, .count = 2});
  CHECK_FAILS(InternalError, divided->divided({.parts = 2, .first = 0, .count = 1}),
              "batches in 3 parts are to be divided into 2");
}
